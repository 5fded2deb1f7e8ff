"""The steps of rows on a device: launches in turn, told where blocks of memory lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.dtypes import DType, int32
from treadle.base.types import Type
from treadle.batch.forest import Groups
from treadle.engines.gpu.bodies import spot
from treadle.engines.gpu.driver import Call, Place, place_at
from treadle.engines.gpu.linked import ReadyStep
from treadle.engines.gpu.memory import DeviceBlocks, GpuValue
from treadle.engines.gpu.moves import WORD, RowMove
from treadle.engines.native.forest.bases import INDEX, Addresses
from treadle.engines.native.forest.layout import PartSteps, Steps, each_group

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
        parts: list[tuple[PartSteps, Any, int]],
    ) -> None:
        self.store, self.arena = store, arena
        self.parts = parts  # as of a StepLayout
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

    def __init__(self, store: DeviceBlocks, home: int, where: Numbers) -> None:
        """`where` has the addresses of places."""
        self.store, self._home, self._where = store, spot(home), where
        self._parts: list[tuple[PartSteps, Any, int]] = []
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

    def add(self, step: Steps, groups: Groups) -> None:
        """The launches of a step, one for each group, or those of a body."""
        if isinstance(step, PartSteps):
            self._part(step, groups)
            return
        for turn, *group in each_group(groups):
            forms = [x.at(self._where, *group) for x in step.words]
            source, target, *sizes = forms
            if step.what == "copy":
                self._copy(turn, spot(source), spot(target), sizes[0])
            elif step.what == "gather":
                self._gather(turn, source, target, group[1], sizes[0] // WORD)
            else:
                self._add(turn, step.what, source, target, *sizes)

    def _gather(
        self, turn: int, sources: int, target: int, count: int, width: int
    ) -> None:
        """Rows of so many words from where an array of addresses says."""
        if width and count:
            (base, at), first = _words(spot(target)), (sources - INDEX) // 8
            buffers = [base, self._home, PLACES]
            sizes = count * width, at, 0, first, width
            self._move(turn, "gather", int32, buffers, *sizes)

    def _copy(self, turn: int, source: Place, target: Place, bytes: int) -> None:
        if bytes:
            (base, at), (other, start) = _words(target), _words(source)
            sizes = bytes // WORD, at, start
            self._move(turn, "copy", int32, [base, other], *sizes)

    def _add(
        self, turn: int, dtype: Any, targets: int, source: int, count: int, size: int
    ) -> None:
        """Rows of so many elements added to where an array of addresses says."""
        if count:
            (base, start), first = _words(spot(source)), (targets - INDEX) // 8
            buffers = [self._home, base, PLACES]
            start //= dtype.itemsize // WORD
            self._move(turn, "add", dtype, buffers, size, start, first, count)

    def _part(self, step: PartSteps, groups: Groups) -> None:
        """The launches of a body for each group."""
        starts, count = self._where[step.which], len(step.sizes)
        every = [*each_group(groups)]
        for like, _, which in step.rows.alike(groups.counts):
            self._parts.append((step, like, len(every)))
            self._arena = max(self._arena, like.linked.plan.size)
            for turn, *group in every if which is None else [every[g] for g in which]:
                places = starts + group[0] * step.shifts
                results = places[:count]
                where, launches = like.placed(places[count:], results)
                self._steps += [(turn, ready, own) for ready, own in launches]
                for k in like.copied:
                    ends = where[like.results[k]], spot(results[k])
                    size = step.sizes[k].at(self._where, *group)
                    self._copy(turn, *ends, size)

    def table(self, index: Addresses) -> DeviceTable:
        """All launches, which ask for the places of an `index`."""
        table = self._steps, index, self._arena, self._parts
        return DeviceTable(self.store, *table)


def _words(place: Place) -> tuple[Place, int]:
    """Where the memory of a place begins, and the words from there to it."""
    memory, offset = place
    return (memory, 0), offset // WORD
