"""The driver of NVIDIA's devices: one context, memory and launches."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from treadle.base.arrays import Array
from treadle.base.errors import OutOfMemoryError
from treadle.base.sizes import as_text
from treadle.engines.gpu.cuda.builder import WARP
from treadle.engines.gpu.cuda.library import Library, open_library
from treadle.engines.gpu.cuda.modules import CudaKernel, Modules
from treadle.engines.gpu.driver import (
    NARROW,
    Allocation,
    DeviceDriver,
    DeviceTraits,
    Place,
)
from treadle.engines.gpu.work import Work

DTYPES = NARROW | {"int64", "uint64", "float64"}
# Attributes of a device, by the numbers of the driver's header.
_MAJOR, _MINOR = 75, 76
_STREAM = None  # the default one: launches are slower than to gain by several
_NAME = 256  # bytes of a name at most
_PARAMETERS = 256  # buffers: their addresses and the integers pass in 4096 bytes
_ALIGNMENT = 128  # a line of the caches

_thread = threading.local()  # the context that CUDA has in each, of whatever device


class CudaLaunch:
    """A launch with its parameters as the driver reads them: by a pointer to each."""

    __slots__ = ("_call", "_grid", "_kernel", "_parts", "_pointers")

    def __init__(
        self,
        call: Callable[..., None],
        kernel: CudaKernel,
        groups: int,
        parts: Sequence[Any],
    ) -> None:
        """`parts` are arrays of parameters of 8 bytes each."""
        self._call, self._kernel, self._parts = call, kernel, parts
        self._grid = groups, 1, 1, kernel.items, 1, 1, 0, _STREAM
        places = [ctypes.addressof(x) + 8 * k for x in parts for k in range(len(x))]
        self._pointers = (c_void_p * len(places))(*places)

    def __call__(self) -> None:
        function = self._kernel.function
        self._call("cuLaunchKernel", function, *self._grid, self._pointers, None)


class CudaDriver(DeviceDriver):
    """One CUDA device, as `DeviceDriver` has it.

    Launches follow each other on one stream, and copies between host and device wait
    for all of them.
    """

    def __init__(self, library: Library, number: int = 0) -> None:
        self._library = library
        handle = library.number("cuDeviceGet", number)
        self._context = library.handle("cuDevicePrimaryCtxRetain", handle)
        self._enter()
        major, minor = (
            library.number("cuDeviceGetAttribute", which, handle)
            for which in (_MAJOR, _MINOR)
        )
        version = library.number("cuDriverGetVersion")
        self._modules = Modules(library, (major, minor), version)
        self.device = DeviceTraits(
            name=_name(library, handle),
            api="cuda",
            vector_bytes=4 * WARP,
            buffers=_PARAMETERS,
            alignment=_ALIGNMENT,
            dtypes=DTYPES,
        )

    def _enter(self) -> None:
        """Make the device's context that of this thread."""
        if getattr(_thread, "context", None) is not self._context:
            self._library.call("cuCtxSetCurrent", self._context)
            _thread.context = self._context

    def _call(self, name: str, *arguments: Any) -> None:
        self._enter()
        self._library.call(name, *arguments)

    # -- memory ------------------------------------------------------------------------

    def allocate(self, bytes: int) -> Allocation:
        address = c_uint64()
        try:
            self._call("cuMemAlloc_v2", byref(address), bytes)
        except OutOfMemoryError as error:
            free, total = c_size_t(), c_size_t()
            self._call("cuMemGetInfo_v2", byref(free), byref(total))
            raise OutOfMemoryError(
                f"{self.device.name} has no {bytes:,} bytes ({as_text(bytes)}) left: "
                f"{as_text(free.value)} of {as_text(total.value)} are free"
            ) from error
        return Allocation(address.value, bytes)

    def free(self, memory: Allocation) -> None:
        if not self._library.lost:  # all of its memory has gone with the device
            self._call("cuMemFree_v2", memory.handle)

    def upload(self, array: Array, memory: Allocation, offset: int) -> None:
        where = memory.handle + offset
        self._call("cuMemcpyHtoD_v2", where, array.ctypes.data, array.nbytes)

    def download(self, memory: Allocation, offset: int, array: Array) -> None:
        where = memory.handle + offset
        self._call("cuMemcpyDtoH_v2", array.ctypes.data, where, array.nbytes)

    def copy(self, source: Place, target: Place, bytes: int) -> None:
        places = [_address(place) for place in (target, source)]
        self._call("cuMemcpyDtoDAsync_v2", *places, bytes, _STREAM)

    def fill(self, place: Place, bytes: int, byte: int) -> None:
        self._call("cuMemsetD8Async", _address(place), byte, bytes, _STREAM)

    # -- kernels -----------------------------------------------------------------------

    def compile(self, work: Work) -> CudaKernel:
        self._enter()
        return self._modules.entry(work)

    def text(self, work: Work) -> str:
        return self._modules.text(work)

    def numbers(self, work: Work, values: Sequence[int]) -> Any:
        return (c_int64 * len(values))(*values)

    def bind(
        self, entry: CudaKernel, groups: int, buffers: Sequence[Place], numbers: Any
    ) -> CudaLaunch:
        addresses = (c_uint64 * len(buffers))(*map(_address, buffers))
        return CudaLaunch(self._call, entry, groups, (addresses, numbers))


def _address(place: Place) -> int:
    memory, offset = place
    return int(memory.handle + offset)


def _name(library: Library, handle: int) -> str:
    text = ctypes.create_string_buffer(_NAME)
    library.call("cuDeviceGetName", text, _NAME, handle)
    return text.value.decode(errors="replace")


def driver_of(number: int) -> CudaDriver:
    """The driver of the device of a number."""
    return CudaDriver(open_library(), number)


def devices(library: Library | None = None) -> list[tuple[int, str]]:
    """The numbers and names of the devices there are, in the driver's order; RunError
    in one sentence where there is none."""
    library = library or open_library()
    every = range(library.number("cuDeviceGetCount"))
    return [(k, _name(library, library.number("cuDeviceGet", k))) for k in every]
