"""A forest run forward, and backward when its gradient is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from treadle.base.arrays import Array, Numbers
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.options import current
from treadle.base.types import Type
from treadle.engines.native.execution.pool import Held, Limit, pool
from treadle.engines.native.execution.run import beside
from treadle.engines.native.execution.tables import addresses_of, memory_under, straight
from treadle.engines.native.forest import small
from treadle.engines.native.forest.assembly import StepTable
from treadle.engines.native.forest.bases import (
    ARENA,
    FIRST,
    SINK,
    SPACE,
    STATUS,
    VALUES,
    number,
)
from treadle.engines.native.forest.matrices import MatrixMemory, blocks
from treadle.engines.native.forest.places import Spots, Where
from treadle.engines.native.forest.program import ForestProgram
from treadle.graph.resident import Future, Futures

NONE = np.zeros(0, np.int64)
AHEAD = Limit("forests", 96 << 20)  # bytes of those that go on beside Python


class Derived:
    """Of what a forest read, by serial: sums over rows, and rows of tables, as values
    of the engine.

    They are yet to come if there are `futures`.
    """

    def __init__(self) -> None:
        self.dense: dict[int, Any] = {}
        self.sparse: dict[int, Any] = {}
        self.rows: list[Any] = []
        self.futures: Futures | None = None


class Runnable(ForestProgram):
    """The program of a forest, to be run any number of times on arrays."""

    as_argument = as_leaf = None

    def run(
        self,
        leaves: Sequence[Array],
        shared: Sequence[Array],
        begin: bool = False,
        late: bool = False,
    ) -> ForestRun:
        """Compute the rows of all groups, of these arrays; or `begin` to, when no
        position can be out of range any more, or at once if that may come out `late`.
        Other runs may yet be writing the arrays.
        """
        return ForestRun(self, leaves, shared, begin, late)

    def small(self, exits: Sequence[tuple[int, int, Type]]) -> Any:
        """The way there for the core (`small.forward`)."""
        return small.forward(self, exits)

    def small_back(
        self, seeds: Sequence[Spots], order: Sequence[tuple[int, bool]]
    ) -> Any:
        """The way back for the core (`small.backward`)."""
        return small.backward(self, seeds, order)

    def ran(
        self, values: Array, shared: Sequence[Array], ids: Sequence[Array]
    ) -> ForestRun:
        """A run by the core, of which these are all values and the ids."""
        run = ForestRun.__new__(ForestRun)
        run.program, run.shared, run.leaves = self, [*shared], []
        run.values = MatrixMemory(self.values, values, int(values.ctypes.data))
        run.taken, run._ids, run.futures, run.late = [], [*ids], None, None
        return run


class ForestRun:
    """The values of a forest for some arrays, and what its gradient reads.

    What was `taken` is yet to come if there are `futures`. `is_sure` looks whether no
    position is out of range, as far as that is known beforehand.
    """

    def __init__(
        self,
        program: Runnable,
        leaves: Sequence[Array],
        shared: Sequence[Array],
        begin: bool,
        late: bool,
    ) -> None:
        self.program = program
        self.shared = [straight(x) for x in shared]
        places, self.leaves = program.read.addresses(leaves)
        forward = program.forward
        begins = begin and beside()
        space = _space(forward.table)
        held = self._room(program.values.size + space, begins)
        (self.values,), (space,) = blocks((), [program.values], [space])
        pairs = zip(program.taken, forward.types, strict=True)
        self.taken = [np.empty((len(x), *t.shape), t.dtype) for x, t in pairs]
        self._ids = [np.empty(n, t.dtype) for _, n, t in forward.ids]
        self.futures = Futures() if begins else None
        self.is_sure = partial(program.are_right, places)
        late = late or (begins and self.is_sure())
        # Until then all that was read, and by which rows, is yet to be found out.
        self.late = self.futures if late else None
        address = {VALUES: self.values.address, ARENA: space}
        results = [*self.taken, *self._ids]
        rest = results, places, self.futures
        self._call(forward.table, address, held, *rest, late=late)

    def _room(self, bytes: int, begins: bool) -> Held:
        """Room for a run that holds so many bytes, if it is to go on."""
        wanted = Held(bytes, AHEAD)
        if begins:
            pool(current().threads).make_room(wanted)
        return wanted

    def _call(
        self,
        table: StepTable | None,
        places: Mapping[int, int],
        held: Held,
        results: Sequence[Array] = (),
        leaves: Numbers = NONE,
        futures: Futures | None = None,
        kept: Any = None,
        late: bool = False,
    ) -> None:
        """The steps of a table, on `leaves` at these addresses. Where there are
        `futures` they are only begun, and `late` what checks positions, too; their
        memory is `held`, and `kept`, until then.
        """
        if table is None:
            return
        words, threads = table.words(), current().threads
        addresses = addresses_of([words, *self.shared, *results])
        bases = np.zeros(FIRST, np.int64)
        bases[number(STATUS)] = addresses[0]
        bases = np.concatenate([bases, addresses[1:], leaves])
        for base, address in places.items():
            bases[number(base)] = address
        if futures is None:
            table.run(bases, words, threads)
            return
        under = [memory_under(x) for x in self.shared]
        own_memory = self.values, self.leaves, under, list(results), kept

        def done(well: bool, kept: Any = own_memory) -> None:
            futures.done(well)

        futures.ticket = table.run(bases, words, threads, done, late, held)

    def shaped(self, k: int, type_: Type) -> Array:
        """What was taken k-th, as one array."""
        array = self.taken[k]
        array.flags.writeable = False
        return array.reshape(type_.shape)

    def rows(self, k: int) -> list[Array]:
        """The rows of what was taken k-th, as arrays over its memory."""
        array = self.taken[k]
        array.flags.writeable = False
        if array.ndim > 1:
            return list(array)
        return [array[n, ...] for n in range(len(array))]

    @staticmethod
    def reshaped(array: Array, type_: Type) -> Array:
        """An array of another shape."""
        return array.reshape(type_.shape)

    def ids(self, serial: int) -> Any:
        """The rows of a table that were read, and more of the first, to which rows of
        zeros will be added. A Future where they may come late.
        """
        pairs = zip(self.program.forward.ids, self._ids, strict=True)
        (first, *more) = [x for (s, *_), x in pairs if s == serial]
        if not more:
            return self._later(first)
        if self.late:
            self.late.wait()
        every = np.concatenate([first, *more])
        pad = size_bucket(len(every), COARSE) - len(every)
        return np.concatenate([every, np.full(pad, every[0])])

    def _later(self, x: Array) -> Any:
        return Future(Type(x.shape, x.dtype), x, self.late) if self.late else x

    def backward(
        self,
        pairs: Sequence[tuple[Spots, Array]],
        asked: Sequence[Spots] = (),
        begin: bool = False,
    ) -> Derived:
        """Cotangents of what the forest read, for those of some of its values, and of
        the values that are asked for. It may `begin` and go on beside the caller.
        """
        program = self.program
        back = program.backward([spots for spots, _ in pairs])
        read, places = program.read, program.cotangents
        zeros, others = [places.grads, places.leaves], [places.fresh]
        if back.partial:
            zeros, others = zeros + others, []
        more = read.most, back.space, _space(back.table)
        sizes = [x.size for x in (program.values, *zeros, *others)]
        begins = begin and not asked and beside()
        held = self._room(sum(sizes) + sum(more), begins)
        new_blocks, (sink, space, arena) = blocks(zeros, others, more)
        grads, leaves, _ = new_blocks
        totals = [np.empty(t.shape, t.dtype) for t in back.totals.values()]
        tables = [_roomy(count, t) for _, count, t in back.sparse]
        all_blocks = [self.values, *new_blocks]
        addresses = {x.matrices.base: x.address for x in all_blocks}
        addresses |= {SINK: sink, SPACE: space, ARENA: arena}
        derived = Derived()
        if begins:
            derived.futures = Futures()
        seeds = [straight(g) for _, g in pairs]
        results = [*seeds, *totals, *tables]
        kept = back, all_blocks
        rest = held, results, NONE, derived.futures, kept
        self._call(back.table, addresses, *rest)
        derived.dense |= dict(zip(back.totals, totals, strict=True))
        for serial, k in back.leaves.items():
            derived.dense[serial] = leaves.array(k, ("leaf", 0))[0, ...]
        for (serial, _, _), array in zip(back.sparse, tables, strict=True):
            derived.sparse[serial] = array
        derived.rows += [_taken(grads, x, program.where(x)) for x in asked]
        return derived


def _space(table: StepTable | None) -> int:
    """Bytes that the steps of a table need besides."""
    return table.space(current().threads) if table is not None else 0


def _roomy(count: int, row: Type) -> Array:
    """Room for rows of a table, and more which are zeros (`size_bucket`)."""
    rows = np.empty((size_bucket(count, COARSE), *row.shape), row.dtype)
    rows[count:] = 0
    return rows


def _taken(block: MatrixMemory, places: Spots, where: Where) -> Array:
    """Copies of some values, one after the other, from `where` they lie."""
    parts = [
        (mine, block.array(number, ("output", output))[places[mine, 2]])
        for number, output, mine in where
    ]
    if len(parts) == 1:
        return parts[0][1]
    first = parts[0][1]
    copies = np.empty((len(places), *first.shape[1:]), first.dtype)
    for mine, part in parts:
        copies[mine] = part
    return copies
