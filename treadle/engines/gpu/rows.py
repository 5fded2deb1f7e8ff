"""The steps of rows on a device: launches in turn, told where blocks of memory lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.dtypes import DType, int32
from treadle.base.types import Type
from treadle.batch.forest import Groups
from treadle.engines.gpu.bodies import DeviceBody, spot
from treadle.engines.gpu.driver import Call, Place, place_at
from treadle.engines.gpu.linked import ReadyStep
from treadle.engines.gpu.memory import DeviceBlocks, GpuValue
from treadle.engines.gpu.moves import WORD, RowMove
from treadle.engines.native.forest.bases import INDEX, Addresses
from treadle.engines.native.forest.layout import ROWS, Form, said_of
from treadle.graph.origin import Origin

NO_INDEX = Addresses.of(np.zeros(0, np.int64))
PLACES = spot(INDEX)  # where the lists of places lie


class DeviceTable:
    """Launches that can run any number of times, for memory that lies anywhere: of
    each what it is, and the block and the offset of its buffers.

    An `index` has the places of rows that moves are told, in one memory, of which a
    layout has the offsets of blocks.
    """

    def __init__(
        self,
        store: DeviceBlocks,
        steps: Sequence[tuple[int, ReadyStep, list[Place]]],
        index: Addresses,
        arena: int,
    ) -> None:
        self.store, self.arena = store, arena
        self._addresses = index
        self._index: GpuValue | None = None
        ordered = sorted(steps, key=itemgetter(0))
        self._steps = [(ready, own) for _, ready, own in ordered]
        self.checks = any(ready.checks for ready, _ in self._steps)
        self._before: Mapping[int, Place] = {}  # where blocks lay in the run before
        self._calls: list[Call] = []

    def index(self, layout: Mapping[int, int]) -> GpuValue:
        """The places of rows in words, which are the same in each run."""
        if self._index is None:
            starts = np.zeros(max(layout) + 1, np.int64)
            starts[list(layout)] = list(layout.values())
            blocks, offsets = self._addresses
            words = ((starts[blocks] + offsets) // WORD).astype(np.int32)
            self._index = self.store.copy_in(words, Type(words.shape, int32))
        return self._index

    def run(self, bases: Mapping[int, Place]) -> None:
        """All launches, where blocks of memory begin at `bases` by number."""
        if self._before != bases:
            self._calls, self._before = self._bound(bases), bases
        self.store.driver.submit(self._calls)
        self.store.note(launches=len(self._steps))

    def _bound(self, bases: Mapping[int, Place]) -> list[Call]:
        bind, calls = self.store.driver.bind, list[Call]()
        for ready, buffers in self._steps:
            places = []
            for memory, offset in buffers:  # the number of a block, or a constant's own
                base = bases.get(memory)  # type: ignore[call-overload]
                places.append(place_at(base, offset) if base else (memory, offset))
            calls.append(bind(ready.entry, ready.groups, places, ready.numbers))
        return calls


class DeviceAssembly:
    """Launches of groups, each of which has a turn, as the native engine's `Assembly`
    has steps: rows are gathered from and added to the memory that begins with the block
    of `home`.
    """

    def __init__(self, store: DeviceBlocks, home: int) -> None:
        self.store, self._home = store, spot(home)
        self._steps: list[tuple[int, ReadyStep, list[Place]]] = []
        self._arena = 0

    def _move(
        self,
        turn: int,
        name: str,
        dtype: DType,
        buffers: list[Place],
        *numbers: int,
    ) -> None:
        driver, work = self.store.driver, RowMove(name, dtype).work()
        groups = -(-numbers[0] // work.items)
        entry, told = driver.compile(work), driver.numbers(work, numbers)
        ready = ReadyStep(work, entry, groups, (), told, False, False)
        self._steps.append((turn, ready, buffers))

    def gather(self, groups: Groups, sources: Form, target: Form, size: int) -> None:
        """Rows of `size` bytes from where an array of addresses says."""
        width = size // WORD
        for turn, source, to, count in _each(groups, sources, target, ROWS):
            if width and count:
                (base, at), first = _words(spot(to)), (source - INDEX) // 8
                buffers = [base, self._home, PLACES]
                sizes = count * width, at, 0, first, width
                self._move(turn, "gather", int32, buffers, *sizes)

    def copy(
        self, groups: Groups, source: Form, target: Form, size: Form, now: bool = False
    ) -> None:
        """So many bytes from one place to another."""
        for turn, x, y, bytes in _each(groups, source, target, size):
            self._copy(turn, spot(x), spot(y), bytes)

    def _copy(self, turn: int, source: Place, target: Place, bytes: int) -> None:
        if bytes:
            (base, at), (other, start) = _words(target), _words(source)
            sizes = bytes // WORD, at, start
            self._move(turn, "copy", int32, [base, other], *sizes)

    def add(self, groups: Groups, targets: Form, source: Form, row: Any) -> None:
        """Rows added to where an array of addresses says; `row` is the type of one."""
        for turn, target, x, count in _each(groups, targets, source, ROWS):
            if row.size and count:
                (base, start), first = _words(spot(x)), (target - INDEX) // 8
                buffers = [self._home, base, PLACES]
                start //= row.dtype.itemsize // WORD
                sizes = row.size, start, first, count
                self._move(turn, "add", row.dtype, buffers, *sizes)

    def part(
        self,
        groups: Groups,
        like: DeviceBody,
        numbers: Sequence[Numbers],
        starts: Numbers,
        shifts: Numbers,
        sizes: Sequence[int],
        origin: Origin | None = None,
    ) -> None:
        """A body for each group: row 0 of its results, then of its arguments lies where
        they start; results have rows of `sizes`."""
        self._arena = max(self._arena, like.linked.plan.size)
        for turn, first, rows in zip(*[x.tolist() for x in groups], strict=True):
            places = starts + first * shifts
            results, arguments = places[: len(sizes)], places[len(sizes) :]
            where, launches = like.placed(arguments, results)
            self._steps += [(turn, ready, own) for ready, own in launches]
            for k in like.copied:
                ends = where[like.results[k]], spot(results[k])
                self._copy(turn, *ends, rows * sizes[k])

    def table(self, index: Addresses = NO_INDEX) -> DeviceTable | None:
        """All launches, if there are any, which ask for the places of an `index`."""
        if not self._steps:
            return None
        return DeviceTable(self.store, self._steps, index, self._arena)


def _each(groups: Groups, *forms: Form) -> Iterator[list[int]]:
    """The turn of each group, and what forms say of it."""
    every = np.column_stack([groups.turns, said_of(groups, *forms)])
    return iter(every.tolist())


def _words(place: Place) -> tuple[Place, int]:
    """Where the memory of a place begins, and the words from there to it."""
    memory, offset = place
    return (memory, 0), offset // WORD
