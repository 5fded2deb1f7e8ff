"""A graph as rows, run: what becomes of its nodes, and of others that look alike."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar

from treadle.autodiff.tape import GradientPart, Row, Tape, keep_recipes
from treadle.base.caches import Cache
from treadle.base.dtypes import is_inexact
from treadle.base.options import current
from treadle.batch.forest import Forest
from treadle.engines.base import Failed, engine
from treadle.graph.leaves import Version
from treadle.graph.look import Look
from treadle.graph.resident import soon
from treadle.graph.tensor import Tensor, forget, leave_late, settle
from treadle.graph.traversal import pending
from treadle.runtime.around import settings
from treadle.runtime.forests import Rows, RowsRun
from treadle.runtime.recorder import recorder

KNOWN = 64  # graphs as rows that are known
Node = TypeVar("Node")
Other = TypeVar("Other")
_serial = attrgetter("serial")


@dataclass
class Reads(Generic[Node]):
    """The nodes of a graph by what they are to its rows, or their places in a look.

    `leaves` and `shared` have the arrays that a run takes, `expressions` of Variables
    are computed before it, `exits` get its values; `sources` are, by their serials when
    the graph was first seen, what a derivative may go on to, `data` what it does not.
    """

    leaves: list[Node]
    shared: list[Node]
    expressions: list[Node]
    exits: list[Node]
    sources: dict[int, Node]
    data: list[Node]

    def map(self, of: Callable[[Node], Other]) -> Reads[Other]:
        """The same of what each node is mapped to."""
        return Reads(
            list(map(of, self.leaves)),
            list(map(of, self.shared)),
            list(map(of, self.expressions)),
            list(map(of, self.exits)),
            {serial: of(x) for serial, x in self.sources.items()},
            list(map(of, self.data)),
        )

    @staticmethod
    def by(rows: Rows, asked: Container[int]) -> Reads[Tensor]:
        """Those of a graph that was looked at; `asked` as in `run_rows`."""
        forest = rows.program.forest
        leaves, every = forest.all.leaves.nodes, list(_shared(forest))
        of = {x.serial: x for x in every}
        carried = [leaves[k] for k in forest.carried().tolist()]
        data = [x for x in leaves if is_inexact(x.type.dtype)]
        for x in of.values():
            if type(x.op) is Version and not x.op.variable.trainable:
                data += [] if x.serial in asked else [x]
        return Reads(
            [x for x, whole in zip(leaves, forest.whole, strict=True) if whole],
            [of[serial] for serial in rows.program.shared],
            list(forest.all.expressions),
            list(rows.exits.nodes),
            {x.serial: x for x in (*carried, *every)},
            data,
        )


class RowsPlan:
    """A graph as rows, to be run for others that look alike."""

    def __init__(self, rows: Rows, places: Reads[int]) -> None:
        self.rows = rows
        self.places = places

    def run(self, seen: Look, once: bool) -> None:
        """Run the rows of such a graph, as `run` does."""
        nodes, seen.nodes = seen.nodes, []
        reads = self.places.map(nodes.__getitem__)
        nodes.sort(key=_serial)
        run(self.rows, reads, nodes, once)


# What is not recorded as a step is: values, which may be derived later.
known: Cache[Any, RowsPlan] = Cache("graphs that are rows", KNOWN)


def key_of(seen: Look, asked: Container[int], once: bool) -> Any:
    """The key of a graph that runs as rows; None of one that reads what others made,
    behind which a derivative may go on, or that somebody looks at."""
    around, nodes = settings(), seen.nodes
    if around is None or recorder() is not None:
        return None
    if any(x.stored is not None and (x.inputs or type(x.op) is Row) for x in nodes):
        return None
    pairs = enumerate(zip(nodes, seen.others, strict=True))
    held = [k for k, (x, n) in pairs if n > 0 and x.stored is None]
    wanted = [k for k, x in enumerate(nodes) if x.serial in asked] if asked else []
    return seen.key, around, once, tuple(held), tuple(wanted)


def run(rows: Rows, reads: Reads[Tensor], every: list[Tensor], once: bool) -> None:
    """Run a graph as rows: its exits are leaves then, and the list of all its nodes, in
    the order of their making, is emptied. Raises Failed.
    """
    # It may wait for the step before, beside which all before this went on.
    fresh = _evaluate(reads.expressions)
    try:
        rows_run = rows.run(_arrays(reads.leaves), _arrays(reads.shared))
    except Failed:
        for node in fresh:
            node.stored = None
        raise
    tape = _tape(rows_run, reads) if rows.program.gradient else None
    record, exits = recorder(), reads.exits
    if record is not None:
        record.rows(rows, (reads.leaves, reads.shared), tape)
    rows.forget()
    if tape is not None:
        tape.made(exits)
    # What a step consumes is never derived again.
    again = tape is not None and (current().check_numerics or not once)
    recipes = [(x.op, x.inputs) for x in exits] if again else []
    leave_late(exits, rows_run.arrays(), rows_run.futures, Row(tape))
    if again:
        keep_recipes(exits, recipes)
    forget(every)


def _evaluate(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Give nodes their values, and tell which had none; they can still be derived."""
    keep = {node.serial for node in nodes if node.stored is None}
    if not keep:
        return []
    every, record = pending(nodes), recorder()
    if record is not None and keep:
        record.program(every, keep)
    values = engine(current().engine).begin(every, {}, keep, frozenset(), sure=True)
    fresh = [node for node in nodes if node.serial in keep]
    for node in fresh:
        settle(node, values[node.serial])
    return fresh


def _arrays(nodes: Sequence[Tensor]) -> list[Any]:
    """The values of nodes, on the host, where they may be yet to come."""
    return [soon(x.stored) for x in nodes]


def _shared(forest: Forest) -> Iterable[Tensor]:
    """The nodes that rows share."""
    return chain.from_iterable(x.signature.shared.values() for x in forest.instances)


def _tape(rows_run: RowsRun, reads: Reads[Tensor]) -> Tape:
    """The tape of a run, with the parts of its gradient."""
    parts = []
    for serial, sparse in rows_run.rows.order:
        node = reads.sources[serial]
        if sparse:
            every, t = rows_run.ids(serial), node.type
            values = type(t)((every.shape[0], *t.shape[1:]), t.dtype)
            parts.append(GradientPart(node, values, every))
        else:
            parts.append(GradientPart(node, node.type))
    sources = {part.source.serial: part.source for part in parts}
    data = {x.serial for x in reads.data}
    return Tape(rows_run, list(sources.values()), parts, data)
