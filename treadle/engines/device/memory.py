"""Memory that the host reaches by counted copies alone: cells, addresses, values."""

from __future__ import annotations

import gc
from bisect import bisect
from collections import deque
from collections.abc import Callable

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import RunError
from treadle.base.locks import lock
from treadle.base.types import Type
from treadle.engines.counts import Counts
from treadle.graph.resident import Resident

GRAIN = 64  # addresses are multiples of it
NOTHING = 0xFF  # what freed cells hold: NaN in every float


class DeviceValue(Resident):
    """A value at an address of a Memory; its cells are freed when it is gone."""

    __slots__ = ("address", "memory")

    def __init__(self, memory: Memory, type_: Type, address: int) -> None:
        super().__init__(type_)
        self.memory = memory
        self.address = address

    def fetch(self) -> Array:
        return self.memory.copy_out(self)

    def __del__(self) -> None:
        self.memory.release(self.address)


class Memory:
    """`capacity` bytes, handed out by address; only `copy_*` pass them to the host.

    `lock` is the queue: whoever launches or copies holds it. When the memory is full,
    `relieve` is asked to let go of what can be copied in again.

    >>> memory = Memory(1024, lambda: None)
    >>> x = memory.copy_in(np.arange(3.0), Type((3,), np.dtype(float)))
    >>> x.numpy(), memory.live, memory.counts.copies_out
    (array([0., 1., 2.]), 64, 1)
    >>> del x
    >>> memory.live
    0
    """

    def __init__(self, capacity: int, relieve: Callable[[], None]) -> None:
        self.capacity = capacity
        self.relieve = relieve
        self.lock = lock()
        self.counts = Counts()
        self.peak = 0
        self._live = 0
        self._cells = np.empty(capacity, np.uint8)
        self._free = [(0, capacity)]  # address and size of each piece, by address
        self._sizes: dict[int, int] = {}
        # Finalizers may run within any statement, so they only make a note.
        self._released: deque[int] = deque()

    # -- cells -----------------------------------------------------------------------

    @property
    def live(self) -> int:
        """Bytes of the values that are alive."""
        with self.lock:
            self._materialize()
            return self._live

    def release(self, address: int) -> None:
        """Note that nobody refers to the value at an address any more."""
        self._released.append(address)

    def take(self, type_: Type) -> DeviceValue:
        """Cells for a value of a type; an error where there are not enough."""
        with self.lock:
            size = max(-(-type_.nbytes // GRAIN), 1) * GRAIN
            address = self._found(size)
            if address is None:
                self.relieve()
                gc.collect()  # dropped Variables are cycles, and hold values
                address = self._found(size)
            if address is None:
                raise self._full(size)
            self._sizes[address] = size
            self._live += size
            self.peak = max(self.peak, self._live)
            return DeviceValue(self, type_, address)

    def _found(self, size: int) -> int | None:
        """The first piece that is large enough, cut to size."""
        self._materialize()
        for k, (address, extent) in enumerate(self._free):
            if extent >= size:
                rest = [(address + size, extent - size)] if extent > size else []
                self._free[k : k + 1] = rest
                return address
        return None

    def _materialize(self) -> None:
        """Free what was released."""
        while self._released:
            address = self._released.popleft()
            size = self._sizes.pop(address)
            self._live -= size
            self._cells[address : address + size] = NOTHING
            k = bisect(self._free, (address, size))
            if k < len(self._free) and self._free[k][0] == address + size:
                size += self._free.pop(k)[1]
            if k and sum(self._free[k - 1]) == address:
                before = self._free[k - 1]
                self._free[k - 1] = (before[0], before[1] + size)
            else:
                self._free.insert(k, (address, size))

    def _full(self, size: int) -> RunError:
        largest = max([extent for _, extent in self._free], default=0)
        free = self.capacity - self._live
        return RunError(
            f"the device's memory is full: {size:,} bytes are wanted, {free:,} of "
            f"{self.capacity:,} are free, {largest:,} in one piece",
            hint="let go of values that are not needed, or run smaller batches",
        )

    # -- copies ----------------------------------------------------------------------

    def copy_in(
        self, array: Array, type_: Type, home: Array | None = None
    ) -> DeviceValue:
        """The value of a host array; `home` is that array where it never changes."""
        with self.lock:
            value = self.take(type_)
            self.write(value, array)
            value.home = home
            self.counts += Counts(copies_in=1, bytes_in=type_.nbytes)
            return value

    def copy_out(self, value: DeviceValue) -> Array:
        """A host array of a value."""
        with self.lock:
            copy = self.view(value).copy()
            self.counts += Counts(copies_out=1, bytes_out=copy.nbytes)
            return copy

    # -- for launches, which hold the lock --------------------------------------------

    def view(self, value: DeviceValue) -> Array:
        """The cells of a value as a launch reads them; it must not outlive that."""
        window = self._window(value)
        window.flags.writeable = False
        return window

    def write(self, value: DeviceValue, array: Array) -> None:
        """Copy the result of a launch into the cells of a value."""
        value.home = None
        self._window(value)[...] = array

    def _window(self, value: DeviceValue) -> Array:
        t, begin = value.type, value.address
        return self._cells[begin : begin + t.nbytes].view(t.dtype).reshape(t.shape)
