"""Rows on a device: a forest run forward, and backward when that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.dtypes import uint8
from treadle.base.types import Type
from treadle.batch.forest import Forest, Groups
from treadle.engines.base import PositionError
from treadle.engines.gpu.bodies import DeviceBodies
from treadle.engines.gpu.driver import Place
from treadle.engines.gpu.linked import STATUS as STATUS_BYTES
from treadle.engines.gpu.memory import DeviceBlocks, GpuValue
from treadle.engines.gpu.moves import WORD
from treadle.engines.gpu.rows import DeviceAssembly, DeviceTable
from treadle.engines.native.forest.bases import (
    ARENA,
    FIRST,
    FRESH,
    GRADS,
    INDEX,
    LEAVES,
    SINK,
    SPACE,
    STATUS,
    VALUES,
    Addresses,
    number,
)
from treadle.engines.native.forest.layout import Steps
from treadle.engines.native.forest.matrices import Matrices, aligned
from treadle.engines.native.forest.places import Spots
from treadle.engines.native.forest.program import ForestProgram
from treadle.engines.native.forest.tape import Derived
from treadle.graph.resident import Resident

AsArgument = Callable[[Any, Any], GpuValue]


class DeviceForest(ForestProgram):
    """The program of a forest on a device."""

    def __init__(
        self,
        forest: Forest,
        gradient: bool,
        taken: Sequence[Spots],
        bodies: DeviceBodies,
        as_argument: AsArgument,
    ) -> None:
        self.bodies, self.as_argument = bodies, as_argument
        self.store = bodies.store
        self._home = VALUES  # of the table that is being made
        super().__init__(forest, gradient, taken)
        # Leaves lie side by side behind all values: most are single ids.
        sizes = np.zeros(len(forest.all.leaves), np.int64)
        for t, places in forest.all.leaves.types:
            sizes[places] = -(-t.nbytes // 8) * 8
        first = aligned(self.values.size)
        self.offsets = first + np.cumsum(sizes[self.read.whole])
        self.offsets -= sizes[self.read.whole]
        self.size = first + int(sizes[self.read.whole].sum())

    def made(
        self,
        steps: Sequence[Steps],
        groups: Sequence[Groups],
        where: Numbers,
        index: Addresses,
    ) -> DeviceTable:
        launches = DeviceAssembly(self.store, self._home, where)
        for step in steps:
            launches.add(step, groups[step.groups])
        return launches.table(index)

    def backward(self, seeds: Sequence[Spots]) -> Any:
        self._home = GRADS
        return super().backward(seeds)

    def possible(self) -> bool:
        """Return True if there are kernels of every body and gradient, and rows are
        words that can be added up."""
        leaves = [t for t, _ in self.forest.all.leaves.types]
        for k, instance in enumerate(self.forest.instances):
            template, counts = instance.template, instance.groups.counts
            back = self.family.backward[k] if self.gradient else None
            parts = [self.family.forward[k]] + ([back] if back else [])
            types = [*instance.signature.body.types, *leaves]
            types += [x.type for part in parts for x in part.part.body.outputs]
            if any(t.nbytes % WORD for t in types):
                return False
            kinds = {t.dtype.name for t in types if t.dtype.kind == "f"}
            if not kinds <= self.store.driver.device.dtypes:
                return False
            rows = [(part.rows, counts) for part in parts]
            total = self.family.totals[k] if back is not None else None
            if total is not None:
                n = size_bucket(instance.count) if template.sums else instance.count
                rows.append((total[0], np.array([n])))
            if not all(x.possible(n) for x, n in rows):
                return False
        return True

    def small(self, exits: Sequence[Any]) -> None:
        """The core runs nothing of a device."""

    def small_back(self, seeds: Sequence[Any], order: Sequence[Any]) -> None:
        """The core runs nothing of a device."""

    def as_leaf(self, value: Any, node: Any) -> Any:
        """The value of a leaf as a run takes it: from the host, if that has it."""
        if isinstance(value, GpuValue) and value.store is self.store:
            return value if value.home is None else value.home
        return value.numpy() if isinstance(value, Resident) else value

    def run(
        self,
        leaves: Sequence[Any],
        shared: Sequence[GpuValue],
        begin: bool = False,
        late: bool = False,
    ) -> DeviceForestRun:
        """Compute the rows of all groups, of these values."""
        with self.store.lock:
            return DeviceForestRun(self, leaves, shared)


class DeviceForestRun:
    """The values of a forest, and what its gradient reads."""

    futures = late = None

    def __init__(
        self, program: DeviceForest, leaves: Sequence[Any], shared: Sequence[GpuValue]
    ) -> None:
        self.program, self.store = program, program.store
        self.shared = [*shared]
        store = program.store
        forward: Any = program.forward
        self.values = _memory(store, program.size)
        _zero(store, self.values, 0, program.values.size)
        where = self._place_leaves(leaves)
        self.taken = [
            store.value(Type((len(x), *t.shape), t.dtype))
            for x, t in zip(program.taken, forward.types, strict=True)
        ]
        self._ids = [store.value(Type((n,), t.dtype)) for _, n, t in forward.ids]
        layout = {number(VALUES): 0}
        layout |= {
            forward.leaves + k: int(offset)
            for k, offset in zip(program.read.whole, program.offsets, strict=True)
        }
        blocks = [*self.shared, *self.taken, *self._ids]
        sure = where is not None and program.are_right(where)
        self._call(forward.table, layout, self.values, {VALUES: 0}, blocks, sure)

    def is_sure(self) -> bool:
        """Return True: positions were found right."""
        return True

    def _place_leaves(self, leaves: Sequence[Any]) -> Numbers | None:
        """Copy leaves to where they lie, those of the host at once; where they lie
        there, if that has all of them."""
        program, store = self.program, self.store
        whole, offsets = program.read.whole, program.offsets
        if not len(whole):
            return np.zeros(program.read.count, np.int64)
        first = int(offsets[0])
        packed = np.zeros(max(program.size - first, 1), np.uint8)
        memory, start = self.values.place
        resident = []
        for x, offset in zip(leaves, offsets.tolist(), strict=True):
            if isinstance(x, GpuValue):
                resident.append((x, offset))
            elif x.nbytes:
                raw = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
                packed[offset - first : offset - first + x.nbytes] = raw
        if len(resident) < len(leaves):
            store.write(packed[: program.size - first], (memory, start + first))
        for x, offset in resident:
            size = x.type.nbytes
            if size:
                store.driver.copy(x.place, (memory, start + offset), size)
        if resident:
            return None
        addresses = np.zeros(program.read.count, np.int64)
        addresses[whole] = packed.ctypes.data + offsets - first
        program.read.place_views(addresses)
        self._packed = packed
        return addresses

    def _call(
        self,
        table: DeviceTable | None,
        layout: dict[int, int],
        home: GpuValue,
        own: dict[int, int],
        blocks: Sequence[GpuValue],
        sure: bool,
    ) -> None:
        """The steps of a table. Blocks in the memory of `home` have an offset, by their
        base, and others follow as values; raises PositionError."""
        if table is None:
            return
        store = self.store
        memory, start = home.place
        bases: dict[int, Place] = {
            number(base): (memory, start + offset) for base, offset in own.items()
        }
        bases |= {FIRST + k: x.place for k, x in enumerate(blocks)}
        bases[number(VALUES)] = self.values.place
        bases[number(INDEX)] = table.index(layout).place
        arena = store.take(max(table.arena, 1))
        status = store.take(STATUS_BYTES)
        bases[number(ARENA)], bases[number(STATUS)] = arena.place, status.place
        try:
            if table.checks:
                store.driver.fill(status.place, STATUS_BYTES, 0)
            table.run(bases)
            if table.checks and not sure:
                found = np.empty(1, np.int32)
                store.driver.download(*status.place, found)
                if found[0]:
                    raise PositionError
        finally:
            store.release(arena)
            store.release(status)

    # -- what others read --------------------------------------------------------------

    def shaped(self, k: int, type_: Type) -> GpuValue:
        """What was taken k-th, as one value."""
        return self.taken[k].part(type_, 0)

    def rows(self, k: int) -> list[GpuValue]:
        """The rows of what was taken k-th."""
        matrix = self.taken[k]
        row = Type(matrix.type.shape[1:], matrix.type.dtype)
        return [matrix.part(row, i * row.nbytes) for i in range(matrix.type.shape[0])]

    @staticmethod
    def reshaped(value: GpuValue, type_: Type) -> GpuValue:
        """A value of another shape."""
        return value.part(type_, 0)

    def ids(self, serial: int) -> Any:
        """The rows of a table that were read, and more of the first, to which rows of
        zeros will be added."""
        pairs = zip(self.program.forward.ids, self._ids, strict=True)
        (first, *more) = [x for (s, *_), x in pairs if s == serial]
        if not more:
            return first
        every = np.concatenate([x.numpy() for x in (first, *more)])
        pad = size_bucket(len(every), COARSE) - len(every)
        return np.concatenate([every, np.full(pad, every[0])])

    # -- the way back ------------------------------------------------------------------

    def backward(
        self,
        pairs: Sequence[tuple[Spots, Any]],
        asked: Sequence[Spots] = (),
        begin: bool = False,
    ) -> Derived:
        """Cotangents of what the forest read, for those of some of its values, and of
        the values that are asked for."""
        with self.store.lock:
            return self._back(pairs, asked)

    def _back(
        self, pairs: Sequence[tuple[Spots, Any]], asked: Sequence[Spots]
    ) -> Derived:
        program, store = self.program, self.store
        back = program.backward([spots for spots, _ in pairs])
        places = program.cotangents
        matrices: list[Matrices] = [places.grads, places.leaves, places.fresh]
        totals = list(back.totals.values())
        sizes = [m.size for m in matrices]
        sizes += [program.read.most, back.space, *[t.nbytes for t in totals]]
        starts = [0, *accumulate(map(aligned, sizes))]
        home = _memory(store, starts[-1])
        _zero(store, home, 0, starts[len(matrices)])
        bases = [GRADS, LEAVES, FRESH, SINK, SPACE]
        own = dict(zip(bases, starts, strict=False))
        seeds = [program.as_argument(g, None) for _, g in pairs]
        ends = starts[len(bases) : -1]
        sums = [home.part(t, k) for t, k in zip(totals, ends, strict=True)]
        tables = [_roomy(store, count, t) for _, count, t in back.sparse]
        blocks = [*self.shared, *seeds, *sums, *tables]
        layout = {number(base): start for base, start in own.items()}
        first = FIRST + len(self.shared) + len(seeds)
        layout |= {first + k: end for k, end in enumerate(ends)}
        self._call(back.table, layout, home, own, blocks, True)
        derived = Derived()
        derived.dense |= dict(zip(back.totals, sums, strict=True))
        for serial, k in back.leaves.items():
            t, offset = places.leaves.find(k, ("leaf", 0))
            derived.dense[serial] = home.part(t, own[LEAVES] + offset)
        for (serial, _, _), value in zip(back.sparse, tables, strict=True):
            derived.sparse[serial] = value
        derived.rows += [self._asked(home, x) for x in asked]
        return derived

    def _asked(self, home: GpuValue, spots: Spots) -> GpuValue:
        """Copies of the cotangents of some values, one after the other."""
        grads = self.program.cotangents.grads
        rows = []
        for owner, output, row in spots.tolist():
            t, offset = grads.find(owner, ("output", output))
            rows.append(home.part(t, offset + row * t.nbytes))
        t = rows[0].type
        value = self.store.value(Type((len(rows), *t.shape), t.dtype))
        for k, x in enumerate(rows):
            memory, start = value.place
            self.store.driver.copy(x.place, (memory, start + k * t.nbytes), t.nbytes)
        return value


def _memory(store: DeviceBlocks, size: int) -> GpuValue:
    """Memory for many values, as long as it or one of its parts is held."""
    return store.value(Type((max(size, 1),), uint8))


def _zero(store: DeviceBlocks, value: GpuValue, begin: int, end: int) -> None:
    if end > begin:
        memory, start = value.place
        store.driver.fill((memory, start + begin), end - begin, 0)


def _roomy(store: DeviceBlocks, count: int, row: Type) -> GpuValue:
    """Room for rows of a table, and more which are zeros (`size_bucket`)."""
    value = store.value(Type((size_bucket(count, COARSE), *row.shape), row.dtype))
    _zero(store, value, count * row.nbytes, value.nbytes)
    return value
