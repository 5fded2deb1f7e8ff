"""The engine "device": the GPU engine on memory of this process, without kernels.

It is there where no device is, for tests and to see what is copied: values lie in a
memory of their own, and each op runs by its NumPy rule between two copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import OutOfMemoryError
from treadle.engines.gpu.driver import (
    Allocation,
    DeviceDriver,
    DeviceTraits,
    UnsupportedKernelError,
)

CAPACITY = 1 << 30  # bytes
POISON = 0xFF  # what memory holds at first: NaN in every float


class HostDriver(DeviceDriver):
    """A device of `capacity` bytes, of which each allocation is an array.

    >>> driver = HostDriver(1024)
    >>> memory = driver.allocate(16)
    >>> driver.upload(np.arange(2.0), memory, 0)
    >>> memory.handle.view(float).tolist(), driver.unused
    ([0.0, 1.0], 1008)
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.device = DeviceTraits("NumPy", "device", 128, 256, 64, frozenset())
        self.unused = capacity

    def allocate(self, bytes: int) -> Allocation:
        if bytes > self.unused:
            raise OutOfMemoryError(f"{bytes:,} bytes of {self.unused:,}")
        self.unused -= bytes
        return Allocation(np.full(bytes, POISON, np.uint8), bytes)

    def free(self, memory: Allocation) -> None:
        self.unused += memory.bytes

    def upload(self, array: Array, memory: Allocation, offset: int) -> None:
        cells = array.reshape(-1).view(np.uint8)
        memory.handle[offset : offset + array.nbytes] = cells

    def download(self, memory: Allocation, offset: int, array: Array) -> None:
        cells = memory.handle[offset : offset + array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = cells

    def copy(self, source: Any, target: Any, bytes: int) -> None:
        (x, begin), (y, end) = source, target
        y.handle[end : end + bytes] = x.handle[begin : begin + bytes]

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedKernelError("this device has no kernels")

    compile = text = numbers = bind = _refuse
