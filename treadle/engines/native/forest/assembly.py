"""The steps of many groups in one table, for native calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.dtypes import DType, is_inexact
from treadle.base.events import watchers
from treadle.batch.columns import order_of
from treadle.engines.base import PositionError
from treadle.engines.native.execution.pool import NOTHING, Done, Held, Ticket, pool
from treadle.engines.native.execution.run import FIELDS
from treadle.engines.native.execution.timing import StepNote, Timing
from treadle.engines.native.forest.bases import (
    ARENA,
    FIRST,
    INDEX,
    SCRATCH,
    STATUS,
    Addresses,
    number,
    split,
)
from treadle.engines.native.forest.compiled import OWN, PLACE, Compiled
from treadle.engines.native.forest.matrices import memory
from treadle.engines.native.forest.moves import ADD_GRAIN, GATHER_BYTES, moves
from treadle.graph.body import Body
from treadle.graph.origin import Origin

NO_INDEX = Addresses.of(np.zeros(0, np.int64))


@dataclass
class _Steps:
    """Steps that are alike: `records` (groups, steps, OWN), `tables` (groups, places).

    `order` has the turn of each group; those of one turn go as they were added. `notes`
    is of each step what is told to those who watch. Addresses stand in `slots` of the
    tables. Some `check` positions, or are wanted as soon as those that do.
    """

    order: Numbers
    records: Numbers
    tables: Numbers
    notes: Sequence[StepNote]
    slots: Numbers
    check: bool = False


@dataclass
class _Part:
    """A body, with its numbers by group, and addresses by group and buffer."""

    steps: _Steps
    like: Compiled
    numbers: Numbers
    addresses: Numbers

    def write(self) -> None:
        """Fill in the addresses, of all that is known by now."""
        like, values = self.like, self.addresses
        if like.offsets is not None:
            values[:, like.placed] = ARENA + like.offsets
        values[:, -2] = SCRATCH
        values[:, -1] = STATUS
        addresses = values[:, like.which] + like.shifts(self.numbers)
        self.steps.tables[:, like.slots] = addresses


class StepTable:
    """Steps that can run any number of times, for memory that lies anywhere; the words
    that they are told end with an `index`, addresses that steps ask for, and a status.
    """

    def __init__(self, assembly: Assembly, index: Addresses) -> None:
        steps, turns = assembly.steps, assembly.turns()
        parts = assembly.parts
        self.made = [x.like for x in parts]  # code and constants shall live as long
        self.arena = -(-max((x.arena for x in self.made), default=0) // 64) * 64
        scratch = [x.like.scratch(x.numbers) for x in parts]
        self.scratch = max(scratch, default=0)
        place, places = 0, []
        for x in steps:
            groups, size = x.tables.shape
            ends = place + groups * size
            firsts = np.arange(place, ends, size)[:, None]
            x.records[:, :, PLACE] += firsts
            places.append((firsts + x.slots).ravel())
            place = ends
        self.index = place  # where it begins
        every, status = [x.tables.ravel() for x in steps], np.zeros(1, np.int64)
        self.table = np.concatenate([*every, index.offsets, status])
        self.addresses = np.concatenate(places)
        self.blocks = np.zeros(len(self.table), np.int64)
        bases, self.table[self.addresses] = split(self.table[self.addresses])
        self.blocks[self.addresses] = bases
        self.blocks[place:-1] = index.blocks
        records = np.concatenate([x.records.reshape(-1, OWN) for x in steps])
        self.records = np.zeros((len(records), FIELDS), np.int64)
        self.records[:, :OWN] = records[turns]
        self._place = int(self.records.ctypes.data)
        self.notes, self.turns = [(x.notes, len(x.order)) for x in steps], turns
        sizes = [len(x.order) * x.records.shape[1] for x in steps]
        checks = np.repeat([x.check for x in steps], sizes)
        # The steps from this one on check no positions, nor are they wanted soon.
        checking = np.flatnonzero(checks[turns])
        self.sure = 1 + int(checking.max(initial=-1))

    def space(self, threads: int) -> int:
        """Bytes that the steps need besides, of so many threads."""
        return self.arena + self.scratch * pool(threads).threads

    def words(self) -> Numbers:
        """Room for what the steps are told in one call."""
        return np.empty(len(self.table), np.int64)

    def run(
        self,
        bases: Numbers,
        words: Numbers,
        threads: int,
        done: Done | None = None,
        late: bool = False,
        held: Held = NOTHING,
    ) -> Ticket | None:
        """Do all steps, told by `words`, which lie where `bases` has STATUS; it has the
        addresses of blocks by number. A position out of range raises.

        Where there is one to be told when it is `done`, who holds all memory of the
        blocks, what cannot fail is only begun, or everything if errors may come `late`.
        """
        workers = pool(threads)
        place = int(bases[number(STATUS)])
        status = place + 8 * (len(words) - 1)
        bases[number(INDEX)] = place + 8 * self.index
        bases[number(SCRATCH)] = bases[number(ARENA)] + self.arena
        bases[number(STATUS)] = status
        np.add(bases[self.blocks], self.table, out=words)
        pointers = place, status
        first, count = self._place, 0 if late else self.sure
        if done is None:
            count = len(self.records)
        timing = Timing(self.records, workers.threads) if watchers else None
        if count:
            log = timing.address if timing else 0
            workers.run(first, count, *pointers, log)
        if timing:
            every = [x for notes, groups in self.notes for x in [*notes] * groups]
            timing.tell([every[k] for k in self.turns.tolist()])
        if words[-1]:
            raise PositionError
        if done is None:
            return None
        kept = self, words

        def over(well: bool, kept: Any = kept) -> None:
            done(well)

        rest = first + count * FIELDS * 8
        return workers.queue(rest, len(self.records) - count, *pointers, over, held)


class Assembly:
    """Steps of groups, each of which has a turn.

    What is said of a group is a number, or an array with one for each group.
    """

    def __init__(self) -> None:
        self.steps: list[_Steps] = []
        self.parts: list[_Part] = []
        self.moves = moves()

    def _move(
        self,
        order: Numbers,
        function: str,
        addresses: Sequence[Any],
        numbers: Sequence[Any],
        *cut: Any,
        now: bool = False,
    ) -> None:
        arguments = [*addresses, *numbers]
        tables = np.empty((len(order), len(arguments)), np.int64)
        for k, x in enumerate(arguments):
            tables[:, k] = x
        records = np.empty((len(order), 1, OWN), np.int64)
        for k, x in enumerate((self.moves[function], 0, *cut)):
            records[:, 0, k] = x
        slots = np.arange(len(addresses))
        notes = [StepNote(function)]
        self.steps.append(_Steps(order, records, tables, notes, slots, now))

    def gather(
        self, order: Numbers, sources: Any, target: Any, rows: Numbers, size: int
    ) -> None:
        """Rows of `size` bytes from where an array of addresses says."""
        if size:
            grain = GATHER_BYTES // size + 1
            self._move(order, "gather", (sources, target), (size,), rows, grain)

    def copy(
        self, order: Numbers, source: Any, target: Any, size: Any, now: bool = False
    ) -> None:
        """So many bytes from one place to another; `now`: as early as positions are
        checked."""
        self._move(order, "copy", (source, target), (size,), 1, 1, now=now)

    def add(
        self, order: Numbers, targets: Any, source: Any, rows: Numbers, row: Any
    ) -> None:
        """Rows added to where an array of addresses says; `row` is the type of one."""
        width = row.size
        if width:
            grain = np.maximum(-(-ADD_GRAIN // rows // 16) * 16, 16)
            operands = (targets, source), (rows, width)
            self._move(order, _add(row.dtype), *operands, width, grain)

    def part(
        self,
        order: Numbers,
        like: Compiled,
        numbers: Numbers,
        arguments: Numbers,
        results: Numbers,
        sizes: Numbers,
        origin: Origin | None = None,
    ) -> None:
        """A body for each group.

        A row a group: the body's numbers, which are changed, the addresses of its
        arguments, and of its results and their bytes. `origin` is the line that is
        told, if not those of the body.
        """
        table = np.empty((len(order), len(like.fixed)), np.int64)
        table[:] = like.fixed
        # The last is set first: an argument that is not read has number -1.
        table[:, like.arguments] = arguments[:, : len(like.arguments)]
        for buffer, array in like.arrays:
            table[:, buffer] = array.ctypes.data
        fresh = [k for k in range(results.shape[1]) if k not in like.copied]
        table[:, like.results[fresh]] = results[:, fresh]
        notes: Sequence[StepNote] = like.notes
        if origin is not None:
            notes = [replace(x, origins=(origin,)) for x in notes]
        both = like.records(numbers), like.table(numbers)
        steps = _Steps(order, *both, notes, like.slots, like.checks)
        self.steps.append(steps)
        self.parts.append(_Part(steps, like, numbers, table))
        for k in like.copied:
            self.copy(order, table[:, like.results[k]], results[:, k], sizes[:, k])

    def table(self, index: Addresses = NO_INDEX) -> StepTable | None:
        """All steps in one table, if there are any, which ask for the addresses of an
        `index`."""
        for part in self.parts:
            part.write()
        return StepTable(self, index) if self.steps else None

    def turns(self) -> Numbers:
        """The places of all steps, as they were added, in the order of turns."""
        turns = [np.repeat(x.order, x.records.shape[1]) for x in self.steps]
        return order_of(np.concatenate(turns))


def once(like: Compiled, numbers: Numbers, body: Body) -> list[np.ndarray[Any, Any]]:
    """The results that steps make of some arguments of their body, always the same."""
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
    places = places_of(arrays), places_of(results), sizes_of(results)
    steps.part(first, like, numbers[None].copy(), *places)
    table = steps.table()
    if table is not None:
        bases, words = np.zeros(FIRST, np.int64), table.words()
        space, bases[number(ARENA)] = memory(table.space(1))
        bases[number(STATUS)] = words.ctypes.data
        table.run(bases, words, 1)
        del space
    return results


def places_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Their addresses, as those of one group."""
    return np.array([[x.ctypes.data for x in arrays]], np.int64)


def sizes_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Their bytes, as those of one group."""
    return np.array([[x.nbytes for x in arrays]], np.int64)


def _add(dtype: DType) -> str:
    return f"add {dtype.name}"
