"""Explanations of the graph optimizer's work, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.base import trees
from treadle.base.options import current
from treadle.engines.base import engine
from treadle.engines.lowered import Lowered
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor, copied
from treadle.graph.text import bare, expression, text
from treadle.graph.traversal import pending, reach
from treadle.rewrite.record import Fired, Sized, recorded
from treadle.runtime.rows import costs

__all__ = ["Explanation", "explain"]

WIDE = 60  # characters of what a rule found, and of what it made of it


@dataclass(frozen=True)
class AppliedRule:
    """A rule as it was applied at one line of the user's: how often, and an example."""

    rule: str
    count: int
    line: str
    before: str
    after: str


@dataclass(frozen=True)
class Explanation:
    """A graph before and after rewriting, and what happened in between.

    `applied` has the rules in the order in which they first fitted, a row for each
    line of the user's; `stages` are (name, seconds) in order, up to machine code, and
    `sizes` the nodes and edges of the graph as it was given and after each stage that
    changes it. `lowered` is what `td.lower` gives. Of a graph that can run as rows
    `rows` has the native records as rows, and of the rows one by one.
    """

    before: tuple[Tensor, ...]
    after: tuple[Tensor, ...]
    applied: tuple[AppliedRule, ...]
    stages: tuple[tuple[str, float], ...]
    sizes: tuple[Sized, ...]
    lowered: Lowered
    rows: tuple[int, int] | None = None

    def counts(self) -> dict[str, int]:
        """Counts of the rules applied, the most frequent first."""
        totals: dict[str, int] = {}
        for row in self.applied:
            totals[row.rule] = totals.get(row.rule, 0) + row.count
        return dict(sorted(totals.items(), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        lines = [f"before: {_size(self.before)}", _indented(text(list(self.before)))]
        total = sum(row.count for row in self.applied)
        lines.append(f"rules applied: {total}")
        for row in self.applied:
            times = f" ({row.count} times)" if row.count > 1 else ""
            where = f"    {row.line}" if row.line else ""
            lines.append(f"  {row.rule}{times}: {row.before} -> {row.after}{where}")
        lines += [f"after: {_size(self.after)}", _indented(text(list(self.after)))]
        lines.append("stages:")
        width = max((len(name) for name, _ in self.stages), default=0)
        sizes = {x.stage: f"   {x.nodes} nodes, {x.edges} edges" for x in self.sizes}
        lines += [
            f"  {name:{width}}  {seconds * 1e3:8.2f} ms{sizes.get(name, '')}"
            for name, seconds in self.stages
        ]
        memory, steps = self.lowered.memory, self.lowered.steps
        lines.append(f"program: {steps} steps, {memory.arena:,} bytes of arena")
        if self.lowered.served is not None:
            lines.append(f"sizes: {self.lowered.served}")
        if self.rows is not None:
            together, alone = self.rows
            lines.append(f"rows: {together} records as rows, {alone} one by one")
        return "\n".join(lines)

    def __repr__(self) -> str:
        rules = len(self.counts())
        return (
            f"<explanation: {_size(self.before)} before, {_size(self.after)} after "
            f"{rules} rules; print it>"
        )


def explain(*tensors: Any) -> Explanation:
    """An explanation of how tensors are rewritten and compiled; runs nothing.

    What `print` shows: the graph before, each rule that was applied with the line of
    the program it was applied to, the graph after, and the time of each stage.

    >>> x = td.asarray([1.0, 2.0])
    >>> why = td.explain(td.log(td.exp(x)) * 1)
    >>> list(why.counts())
    ['logarithm of an exponential', 'neutral element']
    >>> [n.op.name for n in why.after]
    ['argument']
    """
    roots = [as_tensor(leaf) for leaf in trees.flatten(tensors)[0]]
    fresh = _unevaluated(functions.written_out(roots))
    records = costs(fresh)  # while nobody else refers to what is between
    nodes = pending(fresh)
    keep = {node.serial for node in fresh if node.stored is None}
    with recorded() as record:
        lowered = engine(current().engine).lower(nodes, keep, text(fresh))
    return Explanation(
        tuple(fresh),
        record.rewritten,
        tuple(_applied(record.fired)),
        tuple(record.stages),
        tuple(record.sizes),
        lowered,
        records,
    )


def _unevaluated(roots: Sequence[Tensor]) -> list[Tensor]:
    """The same graph by recipes alone, so that what has been computed is seen too."""
    copies: dict[int, Tensor] = {}
    for node in reach(roots):
        if not node.inputs:
            copies[node.serial] = node
            continue
        inputs = tuple(copies[x.serial] for x in node.inputs)
        copies[node.serial] = copied(node, inputs, marked=False)
    return [copies[root.serial] for root in roots]


def _applied(fired: Sequence[Fired]) -> list[AppliedRule]:
    """One row for each rule and line."""
    first: dict[tuple[str, str], Fired] = {}
    count: dict[tuple[str, str], int] = {}
    for one in fired:
        key = one.rule.name, _line(one.before)
        first.setdefault(key, one)
        count[key] = count.get(key, 0) + 1
    return [
        AppliedRule(
            name, count[name, line], line, _short(one.before), _short(one.after)
        )
        for (name, line), one in first.items()
    ]


def _line(node: Tensor) -> str:
    return f"{Path(node.filename).name}:{node.lineno}" if node.lineno else ""


def _short(node: Tensor) -> str:
    shown = bare(expression(node))
    return shown if len(shown) <= WIDE else shown[: WIDE - 3] + "..."


def _size(roots: Sequence[Tensor]) -> str:
    nodes = reach(roots)
    edges = sum(len(node.inputs) for node in nodes)
    return f"{len(nodes)} nodes, {edges} edges"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
