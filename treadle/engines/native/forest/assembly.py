"""The steps of many groups in one table, for one native call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, is_inexact
from treadle.base.events import watchers
from treadle.batch.columns import Numbers, order_of
from treadle.engines.native.forest.compiled import Compiled
from treadle.engines.native.forest.matrices import memory
from treadle.engines.native.forest.moves import ADD_GRAIN, GATHER_BYTES, moves
from treadle.engines.native.pool import pool
from treadle.engines.native.run import FIELDS, PositionError
from treadle.engines.native.timing import Timing, Told
from treadle.graph.body import Body

__all__ = ["Assembly", "once", "places_of", "sizes_of"]

OWN = 4  # fields of a record that say something
PLACE = 1  # the field that has where a step's arguments stand in the table


@dataclass
class _Steps:
    """Steps that are alike: `records` (groups, steps, OWN), `tables` (groups, places).

    `order` has the turn of each group; those of one turn go as they were added. `told`
    is of each step what is told to those who watch.
    """

    order: Numbers
    records: Numbers
    tables: Numbers
    told: Sequence[Told]


@dataclass
class _Parts:
    """Bodies that differ in numbers alone, with addresses by group and buffer."""

    steps: _Steps
    made: Sequence[Compiled]
    which: list[int]  # of the bodies, by group
    addresses: Numbers

    def write(self, base: int, scratch: int, status: int) -> None:
        """Fill in the table; memory between kernels begins at `base`."""
        like, own = self.made[0], self.addresses
        if like.offsets is not None:
            own[:, like.placed] = base + like.offsets
        own[:, -2] = scratch
        own[:, -1] = status
        shifts = _by_group([x.shifts for x in self.made], self.which)
        self.steps.tables[:, like.slots] = own[:, like.which] + shifts


class Assembly:
    """Steps of groups, each of which has a turn.

    What is said of a group is a number, or an array with one for each group.
    """

    def __init__(self) -> None:
        self.steps: list[_Steps] = []
        self.parts: list[_Parts] = []
        self.alive: list[Any] = []
        self.moves = moves()

    def _move(
        self, order: Numbers, function: str, arguments: Sequence[Any], *cut: Any
    ) -> None:
        tables = np.empty((len(order), len(arguments)), np.int64)
        for k, x in enumerate(arguments):
            tables[:, k] = x
        records = np.empty((len(order), 1, OWN), np.int64)
        for k, x in enumerate((self.moves[function], 0, *cut)):
            records[:, 0, k] = x
        self.steps.append(_Steps(order, records, tables, [Told(function)]))

    def gather(
        self, order: Numbers, sources: Any, target: Any, rows: Numbers, size: int
    ) -> None:
        """Rows of `size` bytes from where an array of addresses says."""
        if size:
            grain = GATHER_BYTES // size + 1
            self._move(order, "gather", (sources, target, size), rows, grain)

    def add(
        self, order: Numbers, targets: Any, source: Any, rows: Numbers, row: Any
    ) -> None:
        """Rows added to where an array of addresses says; `row` is the type of one."""
        width = row.size
        if width:
            grain = np.maximum(-(-ADD_GRAIN // rows // 16) * 16, 16)
            arguments = targets, source, rows, width
            self._move(order, _add(row.dtype), arguments, width, grain)

    def part(
        self,
        order: Numbers,
        made: Sequence[Compiled],
        which: list[int],
        arguments: Numbers,
        results: Numbers,
        sizes: Numbers,
    ) -> None:
        """Bodies that differ in numbers alone: group k does `made[which[k]]`.

        A row a group: the addresses of its arguments, and of its results and their
        bytes.
        """
        like = made[0]
        own = np.empty((len(order), len(like.fixed)), np.int64)
        own[:] = like.fixed
        # The last is set first: an argument that is not read has number -1.
        own[:, like.arguments] = arguments[:, : len(like.arguments)]
        for number, array in like.arrays:
            own[:, number] = array.ctypes.data
        fresh = [k for k in range(results.shape[1]) if k not in like.copied]
        own[:, like.results[fresh]] = results[:, fresh]
        records = _by_group([x.records for x in made], which)
        tables = _by_group([x.table for x in made], which)
        steps = _Steps(order, records, tables, like.told)
        self.steps.append(steps)
        self.parts.append(_Parts(steps, made, which, own))
        for k in like.copied:
            copied = own[:, like.results[k]], results[:, k], sizes[:, k]
            self._move(order, "copy", copied, 1, 1)

    def run(self, threads: int) -> None:
        """Do all steps, if there are any; a position out of range raises."""
        if not self.steps:
            return
        workers = pool(threads)
        every = [x for part in self.parts for x in part.made]
        arena = max((x.arena for x in every), default=0)
        arena = -(-arena // 64) * 64
        scratch = max((x.scratch for x in every), default=0)
        space, base = memory(arena + scratch * workers.threads + 128)
        self.alive.append(space)
        status = np.zeros(1, np.int64)
        for part in self.parts:
            part.write(base, base + arena, status.ctypes.data)
        table, records = self._joined()
        timing = Timing(records, workers.threads) if watchers else None
        log = timing.address if timing else 0
        pointers = table.ctypes.data, status.ctypes.data
        workers.run(records.ctypes.data, len(records), *pointers, log)
        if timing:
            timing.tell(self._told())
        if status[0]:
            raise PositionError

    def _turns(self) -> Numbers:
        """The places of all steps, as they were added, in the order of turns."""
        turns = [np.repeat(x.order, x.records.shape[1]) for x in self.steps]
        return order_of(np.concatenate(turns))

    def _told(self) -> list[Told]:
        """What is told of each record."""
        every = [one for x in self.steps for _ in x.order for one in x.told]
        return [every[k] for k in self._turns().tolist()]

    def _joined(self) -> tuple[Numbers, Numbers]:
        """One table for all steps, and their records in the order of turns."""
        place = 0
        for x in self.steps:
            groups, size = x.tables.shape
            ends = place + groups * size
            x.records[:, :, PLACE] += np.arange(place, ends, size)[:, None]
            place = ends
        table = np.concatenate([x.tables.ravel() for x in self.steps])
        own = np.concatenate([x.records.reshape(-1, OWN) for x in self.steps])
        records = np.zeros((len(own), FIELDS), np.int64)
        records[:, :OWN] = own[self._turns()]
        return table, records


def once(made: Compiled, body: Body) -> list[np.ndarray[Any, Any]]:
    """What steps make of some arguments of their body, always the same."""
    draw = np.random.default_rng(0)
    arrays = [
        draw.standard_normal(t.shape).astype(t.dtype)
        if is_inexact(t.dtype)
        else np.zeros(t.shape, t.dtype)
        for t in (x.type for x in body.arguments)
    ]
    results = [np.empty(t.shape, t.dtype) for t in body.types]
    first = np.zeros(1, np.int64)
    steps = Assembly()
    steps.part(
        first, [made], [0], places_of(arrays), places_of(results), sizes_of(results)
    )
    steps.run(1)
    return results


def places_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Their addresses, as those of one group."""
    return np.array([[x.ctypes.data for x in arrays]], np.int64)


def sizes_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Their bytes, as those of one group."""
    return np.array([[x.nbytes for x in arrays]], np.int64)


def _add(dtype: DType) -> str:
    return f"add {dtype.name}"


def _by_group(arrays: Sequence[Numbers], which: list[int]) -> Numbers:
    """A copy of an array for each group."""
    return np.array([arrays[k] for k in which])
