"""The memory of a device: blocks kept by size, values, and counted copies."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import OutOfMemoryError
from treadle.base.locks import lock
from treadle.base.sizes import as_text
from treadle.base.types import Type
from treadle.engines.gpu.driver import DeviceDriver, Place, place_at
from treadle.graph.resident import Resident

GRAIN = 256  # bytes: the least block, and what sizes are multiples of
FINE = 8  # sizes of blocks between two powers of 2


@dataclass(frozen=True)
class Counts:
    """Counts of copies and launches so far.

    >>> Counts(copies_in=5) - Counts(copies_in=2, launches=1)
    Counts(copies_in=3, bytes_in=0, copies_out=0, bytes_out=0, launches=-1)
    """

    copies_in: int = 0
    bytes_in: int = 0
    copies_out: int = 0
    bytes_out: int = 0
    launches: int = 0

    def __sub__(self, other: Counts) -> Counts:
        names = [f.name for f in fields(self)]
        return Counts(*[getattr(self, x) - getattr(other, x) for x in names])


class DeviceBlock:
    """An allocation that holds one value, or the arena of a run."""

    __slots__ = ("bytes", "memory", "place")

    def __init__(self, memory: Any, bytes: int) -> None:
        self.memory, self.bytes = memory, bytes
        self.place: Place = memory, 0  # of its first byte


class GpuValue(Resident):
    """A value in a block of its own, which comes back when nobody has the value, or a
    part of another one. What is `remembered` for later runs, or has parts, is never
    written over.
    """

    __slots__ = ("block", "place", "remembered", "store")

    def __init__(
        self,
        store: DeviceBlocks,
        type_: Type,
        place: Place,
        block: DeviceBlock | GpuValue | None,
    ) -> None:
        """The value at a place of a `block` that is its own, or of another value."""
        self.type, self.home = type_, None  # as the base does, without the detour
        self.store, self.block = store, block
        self.place: Any = place  # None where it belongs to the next version
        self.remembered = type(block) is not DeviceBlock

    def part(self, type_: Type, offset: int) -> GpuValue:
        """The value that begins so many bytes after this one does."""
        self.remembered = True
        return GpuValue(self.store, type_, place_at(self.place, offset), self)

    def fetch(self) -> Array:
        assert self.place is not None, "its memory belongs to the next version"
        return self.store.copy_out(self)

    def handed_on(self, type_: Type) -> GpuValue:
        """Another value in its place: nobody may look at this one any more."""
        assert not self.remembered, "its memory belongs to others, too"
        after = GpuValue(self.store, type_, self.place, self.block)
        self.block = self.place = None
        return after

    def __del__(self) -> None:
        if type(self.block) is DeviceBlock:
            self.store.release(self.block)


class DeviceBlocks:
    """Blocks of a driver's memory, kept for the next who needs as many bytes.

    `lock` is the queue: whoever launches or copies holds it. Where the device has no
    memory left, blocks that lie idle go, then what `relieve` lets go of.
    """

    def __init__(self, driver: DeviceDriver, relieve: Callable[[], None]) -> None:
        self.driver = driver
        self.relieve = relieve
        self.lock = lock()
        self._counts = dict.fromkeys([f.name for f in fields(Counts)], 0)
        self._live = 0
        self._idle: dict[int, list[DeviceBlock]] = {}
        # Held here, or the collector would end the buffer of a block that comes back.
        self._every: set[DeviceBlock] = set()
        # Finalizers may run within any statement, so they only make a note.
        self._released: deque[DeviceBlock] = deque()

    @property
    def counts(self) -> Counts:
        """The copies and launches so far."""
        return Counts(**self._counts)

    def note(self, **numbers: int) -> None:
        """Count copies or launches."""
        for name, number in numbers.items():
            self._counts[name] += number

    @property
    def live(self) -> int:
        """Bytes of the blocks in use."""
        with self.lock:
            self._sort_in()
            return self._live

    def release(self, block: DeviceBlock) -> None:
        """Note that nobody needs a block any more."""
        self._released.append(block)

    def take(self, bytes: int) -> DeviceBlock:
        """A block of so many bytes at least; OutOfMemoryError where there is none."""
        size = rounded(bytes)
        with self.lock:
            self._sort_in()
            held = self._idle.get(size)
            if held:
                block = held.pop()
            else:
                block = DeviceBlock(self._allocate(size), size)
                self._every.add(block)
            self._live += size
            return block

    def _allocate(self, size: int) -> Any:
        for relief in (self.trim, self._relieved):
            try:
                return self.driver.allocate(size)
            except OutOfMemoryError:
                relief()
        try:
            return self.driver.allocate(size)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"the device's memory is full: {size:,} bytes ({as_text(size)}) are "
                f"wanted, {self._live:,} ({as_text(self._live)}) are in use",
                hint="let go of values that are not needed, run smaller batches, or "
                "set td.options(workspace=...)",
            ) from error

    def _relieved(self) -> None:
        self.relieve()
        gc.collect()  # dropped Variables are cycles, and hold values
        self._sort_in()
        self.trim()

    def trim(self) -> None:
        """Give all idle blocks back to the device."""
        with self.lock:
            self._sort_in()
            for held in self._idle.values():
                for block in held:
                    self._every.discard(block)
                    self.driver.free(block.memory)
            self._idle.clear()

    def _sort_in(self) -> None:
        while self._released:
            block = self._released.popleft()
            self._live -= block.bytes
            self._idle.setdefault(block.bytes, []).append(block)

    # -- values ----------------------------------------------------------------------

    def value(self, type_: Type) -> GpuValue:
        """A value whose content is yet to be written."""
        block = self.take(type_.nbytes)
        return GpuValue(self, type_, block.place, block)

    def copy_in(self, array: Array, type_: Type, home: Array | None = None) -> Any:
        """The value of a host array; `home` is that array where it never changes."""
        with self.lock:
            value = self.value(type_)
            self.write(array, value.place)
            value.home = home
            return value

    def copy_out(self, value: GpuValue) -> Array:
        """A host array of a value."""
        with self.lock:
            return self.read(value.type, value.place)

    # -- for runs, which hold the lock -------------------------------------------------

    def write(self, array: Array, place: Place) -> None:
        """Copy an array of the host to a place."""
        whole = np.ascontiguousarray(array)
        if whole.nbytes:
            self.driver.upload(whole, *place)
            self.note(copies_in=1, bytes_in=whole.nbytes)

    def read(self, type_: Type, place: Place) -> Array:
        """A copy on the host of what lies at a place."""
        array = np.empty(type_.shape, type_.dtype)
        if array.nbytes:
            self.driver.download(*place, array)
            self.note(copies_out=1, bytes_out=array.nbytes)
        return array


def rounded(bytes: int) -> int:
    """The bytes of a block that holds so many: few sizes, at most an eighth larger.

    >>> rounded(1), rounded(1000), rounded(100_000)
    (256, 1024, 106496)
    """
    grain = max(GRAIN, (1 << max(bytes - 1, 1).bit_length()) // (2 * FINE))
    return max(-(-bytes // grain), 1) * grain
