"""Each stage of the way held against the one before, by the values of its graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.written import derived
from treadle.base.errors import RunError
from treadle.base.types import TupleType
from treadle.graph.body import is_repeatable
from treadle.graph.leaves import Leaf
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.graph.text import bare, expression
from treadle.graph.traversal import reach
from treadle.rewrite.expand import Expanded
from treadle.rewrite.record import Fired, recorded
from treadle.rewrite.values import Meaning, ReferenceValues

Roots = Mapping[int, Tensor]
Repeat = Callable[[], Any]
WIDE = 80  # characters of what a rule found, and of what it made of it


@provide
def judge(
    nodes: Sequence[Tensor], feeds: Mapping[int, Any], keep: Set[int]
) -> ReferenceValues | None:
    """The reference's values of a run's results, if all it starts from has values."""
    every, results = derived(nodes, keep)
    back = {n.serial: n for n in every}
    roots = {
        serial: back[result]
        for serial, result in results.items()
        if not isinstance(back[result].type, TupleType)
    }
    known = {n.serial for n in every if n.stored is not None} | feeds.keys()
    if any(isinstance(n.op, Leaf) and n.serial not in known for n in every):
        return None
    if not all(is_repeatable(n.op) for n in every):
        return None
    return ReferenceValues(roots, feeds)


@provide
def mismatch(what: str, node: Tensor) -> RunError:
    """The error for a node whose value is not what it should be."""
    types = ", ".join(repr(x.type) for x in node.inputs)
    signature = f"{types} -> {node.type!r}" if types else repr(node.type)
    return RunError(what).located(node.op.name, signature, node.line)


class Judge:
    """The values of a graph on its way; None of them where arguments have none."""

    def __init__(
        self,
        graph: Expanded,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> None:
        self.nodes = {node.serial: node for node in nodes}
        self.arguments: dict[int, Any] | None = {}
        if not all(is_repeatable(node.op) for node in nodes):
            self.arguments = None
            return
        for argument, leaf in zip(graph.arguments, graph.leaves, strict=True):
            value = feeds.get(leaf.serial, leaf.array)
            if not isinstance(value, np.ndarray):
                self.arguments = None  # a body, or a graph that is only looked at
                return
            self.arguments[argument.serial] = value
        whole = judge(nodes, feeds, keep & graph.roots.keys())
        if whole is not None:
            self._compare("inline", whole, graph.roots, None)

    def stage(self, name: str, before: Roots, after: Roots, repeat: Repeat) -> None:
        """Refuse a stage that changed a value; `repeat` runs it once more."""
        changed = {k: x for k, x in before.items() if after[k] is not x}
        if self.arguments is not None and changed:
            self._compare(name, ReferenceValues(changed, self.arguments), after, repeat)

    def _compare(
        self, name: str, wants: ReferenceValues, after: Roots, repeat: Repeat | None
    ) -> None:
        assert self.arguments is not None
        values = Meaning().values([after[k] for k in wants.roots], self.arguments)
        for key in wants.roots:
            wrong = wants.wrong(key, values[after[key].serial])
            if not wrong:
                continue
            one = self._culprit(repeat) if repeat is not None else None
            if one is not None:
                before, new = (_short(x) for x in (one[0].before, one[0].after))
                what = f"rule {one[0].rule.name!r} made {new} of {before}"
                raise mismatch(f"after {name!r}: {what}; {one[1]}", one[0].before)
            what = f"after {name!r} a value is not what it was before; {wrong}"
            raise mismatch(what, self.nodes[key])

    def _culprit(self, repeat: Repeat) -> tuple[Fired, str] | None:
        """The first rule that made something else of what it found, and what."""
        with recorded() as record:
            repeat()
        for one in record.fired:
            values = self._guessed([one.before, one.after])
            wants = ReferenceValues({0: one.before}, values)
            value = Meaning().values([one.after], values)[one.after.serial]
            wrong = wants.wrong(0, value)
            if wrong:
                return one, wrong
        return None

    def _guessed(self, roots: Sequence[Tensor]) -> dict[int, Any]:
        """Values of arguments; those of a body's are made up."""
        known = dict(self.arguments or {})
        draws = np.random.default_rng(0)
        for node in reach(roots, lambda node: node.stored is not None):
            if node.inputs or node.stored is not None or node.serial in known:
                continue
            values = draws.uniform(0.5, 2.0, node.type.shape)
            known[node.serial] = values.astype(node.type.dtype)
        return known


def _short(node: Tensor) -> str:
    shown = bare(expression(node))
    return shown if len(shown) <= WIDE else shown[: WIDE - 3] + "..."
