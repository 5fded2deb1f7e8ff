"""Runs of forests: what those that look alike have in common, and what others read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from treadle.autodiff.tape import (
    GradientPart,
    Row,
    Tape,
    number_row,
)
from treadle.base.arrays import Numbers, indices_of
from treadle.base.caches import lazy
from treadle.base.dtypes import is_inexact
from treadle.base.locks import lock
from treadle.base.types import Type
from treadle.graph.leaves import Version
from treadle.graph.numbers import number
from treadle.graph.resident import Futures, soon
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, leave

if TYPE_CHECKING:
    from treadle.batch.forest import Forest

Node = TypeVar("Node")
Other = TypeVar("Other")
FEW = 32  # nodes of a graph that is never looked at, ops of rows that are not run


running_rows = lock()  # where they follow no plan


class _Counts(threading.local):
    """Counts of what this thread has run as rows so far."""

    runs = 0
    rows = 0
    groups = 0


counts = _Counts()


class Exits:
    """The nodes that others read, with the places of the rows that each is made of.

    Those that are many rows joined come first, then those that are one.
    """

    def __init__(
        self,
        joined: Sequence[tuple[Tensor, Numbers]],
        nodes: list[Tensor],
        one: Numbers,
    ) -> None:
        self.nodes = [node for node, _ in joined] + nodes
        self.types = [node.type for node in self.nodes]
        self.joined = [places for _, places in joined]
        self.one = one
        # Those of one matrix are read together.
        matrices = one[:, 0] * (one[:, 1].max(initial=0) + 1) + one[:, 1]
        groups = [indices_of(matrices == x) for x in dict.fromkeys(matrices.tolist())]
        self.together = [(mine.tolist(), one[mine]) for mine in groups]
        # What a run takes.
        self.taken = [*self.joined, *(places for _, places in self.together)]
        self._single: dict[int, Numbers] = {}

    def forget(self) -> None:
        """Let go of the nodes."""
        self.nodes = []

    def places(self, k: int) -> Numbers:
        """The places of exit k."""
        if k < len(self.joined):
            return self.joined[k]
        at = k - len(self.joined)
        return self._single.setdefault(k, self.one[at : at + 1])


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
        taken = [*leaves, *forest.all.parts.held]
        data = [x for x in taken if is_inexact(x.type.dtype)]
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


class Rows:
    """The common part of the runs of forests that look alike: a program, the exits, and
    the parts of its gradient by serial."""

    def __init__(self, program: Any, forest: Forest, exits: Exits) -> None:
        self.program = program
        self.exits = exits
        self.rows, self.groups = forest.rows, forest.groups
        self.moves = forest.all.moves  # what rows it reads depends on values

    @lazy
    def order(self) -> list[tuple[int, bool]]:
        """Of each part of the gradient the source's serial, and whether it is rows."""
        forest, order = self.program.forest, list[tuple[int, bool]]()
        for instance in forest.instances:
            template, serials = instance.template, instance.signature.serials
            order += [(serials[k], False) for k in template.shared_cotangents]
            order += [(serials[k], True) for k in template.sparse]
        leaves = forest.all.leaves.serials[forest.carried()]
        order += [(serial, False) for serial in leaves.tolist()]
        return list(dict.fromkeys(order))

    @lazy
    def kind(self) -> int:
        """The number of all that a gradient through them hangs on, but for which rows
        there are: where the parts of it belong."""
        place: dict[int, int] = {}
        order = [(place.setdefault(s, len(place)), sparse) for s, sparse in self.order]
        return number((Rows, tuple(order), len(self.program.shared)))

    @property
    def as_argument(self) -> Any:
        """What a run takes as a value, as in `Found`."""
        return self.program.as_argument

    @property
    def as_leaf(self) -> Any:
        """The same of a leaf."""
        return self.program.as_leaf

    def forget(self) -> None:
        """Let go of the nodes that these were made of; the numbers stay."""
        vars(self)["order"] = self.order  # which is made of them
        self.program.forest.forget()
        self.exits.forget()

    @lazy
    def small(self) -> Any:
        """The way there for the core, as the engine has it; None where it is large."""
        exits, joined = self.exits, len(self.exits.joined)
        places = [(k, 0) for k in range(joined)] + [(0, 0)] * len(exits.one)
        for k, (mine, _) in enumerate(exits.together, joined):
            for row, n in enumerate(mine):
                places[joined + n] = k, row
        pairs = zip(places, exits.types, strict=True)
        return self.program.small([(*place, t) for place, t in pairs])

    def small_back(self, places: Sequence[int]) -> Any:
        """The way back for the core, for cotangents of some exits, by the parts of the
        gradient; None where it is large."""
        seeds = [self.exits.places(k) for k in places]
        return self.program.small_back(seeds, self.order)

    def count(self) -> None:
        """Count a run."""
        counts.runs += 1
        counts.rows += self.rows
        counts.groups += self.groups

    def run(
        self, leaves: Sequence[Any], shared: Sequence[Any], late: bool = False
    ) -> RowsRun:
        """Run with the arrays of leaves and of what rows share, in the program's order,
        which other runs may yet be writing; raises Failed. What it makes may be
        Futures, of which one that is waited for raises if the run has failed `late`.
        """
        program_run = self.program.run(leaves, shared, begin=True, late=late)
        mark_run()
        self.count()
        return RowsRun(self, program_run)


class RowsRun:
    """A run of a forest, seen by its rows' numbers."""

    def __init__(self, rows: Rows, program_run: Any) -> None:
        self.rows = rows
        self.exits = rows.exits
        self.made = program_run

    @property
    def kept(self) -> list[Any]:
        """The arrays that its gradient reads: all values, and what rows share."""
        if self.made.futures is not None:
            self.made.futures.wait()
        return [self.made.values.bytes, *self.made.shared]

    @property
    def futures(self) -> Futures | None:
        """The Futures of the exits, if the run goes on."""
        return self.made.futures

    @property
    def is_sure(self) -> Callable[[], bool]:
        """The test, as long as the leaves are there, that nothing can be found wrong
        with the run, as far as that is known beforehand; it holds no arrays."""
        return self.made.is_sure

    def arrays(self) -> list[Any]:
        """The arrays of the exits: single rows of one matrix lie side by side."""
        exits, made = self.exits, self.made
        first = len(exits.joined)
        arrays = [made.shaped(k, t) for k, t in enumerate(exits.types[:first])]
        if len(exits.together) == 1:  # in order
            return [*arrays, *made.rows(first)]
        arrays += [None] * len(exits.one)
        for n, (mine, _) in enumerate(exits.together, first):
            for k, value in zip(mine, made.rows(n), strict=True):
                arrays[first + k] = value
        return arrays

    def ids(self, serial: int) -> Any:
        """The rows of a table that were read, and more of the first, to which rows of
        zeros will be added; a Future where they are yet to come.
        """
        return self.made.ids(serial)

    def taken(self, node: Tensor) -> Any:
        """The value of a cotangent, which may be yet to come."""
        as_argument = self.rows.as_argument
        if as_argument is None:
            return soon(node.stored)
        return as_argument(node.stored, node)

    def pull(
        self, cotangents: Mapping[int, Any], asked: Sequence[int], begin: bool = False
    ) -> list[Any]:
        """The parts of the gradient in the order of the tape's parts, then rows. Where
        it may only `begin` they may be Futures.
        """
        parts, futures = self.parts(cotangents, asked, begin)
        if futures:
            return [futures.of(Type(x.shape, x.dtype), x) for x in parts]
        return parts

    def parts(
        self, cotangents: Mapping[int, Any], asked: Sequence[int], begin: bool
    ) -> tuple[list[Any], Futures | None]:
        """The arrays of these, and what they are yet to come of if it goes on."""
        exits, made = self.exits, self.made
        pairs = [(exits.places(k), g) for k, g in cotangents.items()]
        gradient = made.backward(pairs, [exits.places(k) for k in asked], begin)
        futures = gradient.futures
        types = [exits.types[k] for k in asked]
        rows = zip(gradient.rows, types, strict=True)
        gradient.rows = [made.reshaped(x, t) for x, t in rows]
        parts = []
        for serial, sparse in self.rows.order:
            parts.append((gradient.sparse if sparse else gradient.dense)[serial])
        return parts + gradient.rows, futures


def leave_rows(
    exits: list[Tensor],
    arrays: Sequence[Any],
    futures: Futures | None,
    tape: Tape | None,
    again: bool,
) -> None:
    """Make leaves of the exits of a run, with their values, which may be yet to come,
    or those that they have; how they were computed is noted if they may be derived
    `again`."""
    if exits and type(exits[0].op) is Row:  # another thread has left them
        return
    if tape is not None:
        tape.made(exits)
    row = Row(tape)
    if tape is not None and tape.kind is not None:
        number_row(row)
    known = [x for x in exits if x.stored is not None]
    if known:
        leave(known, [x.stored for x in known], row, None, again)
        pairs = [x for x in zip(exits, arrays, strict=True) if x[0].inputs]
        exits, arrays = [x for x, _ in pairs], [array for _, array in pairs]
    leave(exits, arrays, row, futures, again)


def tape_for(rows_run: RowsRun, reads: Reads[Tensor]) -> Tape | None:
    """The tape of a run, with the parts of its gradient, if it has one."""
    if not rows_run.rows.program.gradient:
        return None
    rows = rows_run.rows
    sources = {serial: reads.sources[serial] for serial, _ in rows.order}
    made = rows_run, parts_of(rows_run, sources)
    ids = {x.source.serial: x.ids for x in made[1] if x.ids is not None}
    data = [x.serial for x in reads.data]
    return Tape(lambda: made, [*sources.values()], ids, data)


def parts_of(
    rows_run: RowsRun, sources: Mapping[int, Tensor]
) -> Sequence[GradientPart]:
    """The parts of the gradient of a run; `sources` by the serials in its order."""
    parts = []
    for serial, sparse in rows_run.rows.order:
        node = sources[serial]
        if sparse:
            every, t = rows_run.ids(serial), node.type
            values = type(t)((every.shape[0], *t.shape[1:]), t.dtype)
            parts.append(GradientPart(node, values, every))
        else:
            parts.append(GradientPart(node, node.type))
    return parts


def _shared(forest: Forest) -> Iterable[Tensor]:
    """The nodes that rows share."""
    return chain.from_iterable(x.signature.shared.values() for x in forest.instances)
