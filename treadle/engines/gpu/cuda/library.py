"""NVIDIA's driver library, libcuda, by ctypes: its functions, its errors as ours."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Protocol

from treadle.base.errors import OutOfMemoryError, RunError

_NUMBER, _HANDLE, _SIZE = POINTER(c_int), POINTER(c_void_p), POINTER(c_size_t)
_ADDRESS = POINTER(c_uint64)
_LINK = [c_void_p, c_int, c_void_p, c_size_t, c_char_p, c_uint, c_void_p, c_void_p]
_GRID = [c_uint] * 7  # groups by three dimensions, items by three, shared bytes

# The arguments of each function that is called; all return a number, 0 if all is well.
FUNCTIONS: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [_NUMBER],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGetCount": [_NUMBER],
    "cuDeviceGet": [_NUMBER, c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [_NUMBER, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [_HANDLE, c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuMemGetInfo_v2": [_SIZE, _SIZE],
    "cuMemAlloc_v2": [_ADDRESS, c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD8Async": [c_uint64, ctypes.c_ubyte, c_size_t, c_void_p],
    "cuLinkCreate_v2": [c_uint, c_void_p, c_void_p, _HANDLE],
    "cuLinkAddData_v2": _LINK,
    "cuLinkComplete": [c_void_p, _HANDLE, _SIZE],
    "cuLinkDestroy": [c_void_p],
    "cuModuleLoadDataEx": [_HANDLE, c_void_p, c_uint, c_void_p, c_void_p],
    "cuModuleUnload": [c_void_p],
    "cuModuleGetFunction": [_HANDLE, c_void_p, c_char_p],
    "cuLaunchKernel": [c_void_p, *_GRID, c_void_p, c_void_p, c_void_p],
}
OUT_OF_MEMORY = 2
# After these nothing can be done in the context: faults of kernels and of hardware.
LOST = {4, 214, 220, 700, 702, 709, *range(714, 720), 999}
_NAMES = {"win32": "nvcuda.dll"}


class Functions(Protocol):
    """The functions of libcuda by name, as ctypes has them or a test puts them."""

    def __getattr__(self, name: str) -> Callable[..., int]: ...


class Library:
    """libcuda, whose functions raise where they fail.

    RunError tells what the driver said; OutOfMemoryError that the device has no memory
    left. `lost` is set by errors after which a device takes no more work.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.lost = ""

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; its results are among the arguments."""
        if self.lost:
            raise RunError(f"the CUDA device was lost: {self.lost}", hint=_AFTER_LOSS)
        code = getattr(self._functions, name)(*arguments)
        if code:
            raise self._error(name, code)

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """The handle that a function makes whose first argument is a pointer to it."""
        handle = c_void_p()
        self.call(name, byref(handle), *arguments)
        return handle

    def number(self, name: str, *arguments: Any) -> int:
        """The integer that a function puts where its first argument points."""
        number = c_int()
        self.call(name, byref(number), *arguments)
        return number.value

    def said(self, code: int) -> str:
        """An error as the driver names and describes it."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            failed = getattr(self._functions, name)(code, byref(text))
            if not failed and text.value:
                texts.append(text.value.decode(errors="replace"))
        return ": ".join(texts) or f"error {code}"

    def _error(self, name: str, code: int) -> RunError:
        said = self.said(code)
        if code == OUT_OF_MEMORY:
            return OutOfMemoryError(f"the CUDA device has no memory left ({said})")
        if code in LOST:
            self.lost = f"{name} failed ({said})"
            return RunError(f"the CUDA device was lost: {self.lost}", hint=_AFTER_LOSS)
        return RunError(f"CUDA's {name} failed ({said})")


_AFTER_LOSS = (
    "what only the device had is gone; load the last checkpoint in a new process"
)


def open_library() -> Library:
    """The driver library of this system, started; RunError in one sentence if none is
    there or it has no device."""
    name = _NAMES.get(sys.platform, "libcuda.so.1")
    try:
        handle = ctypes.CDLL(name)
        for function, arguments in FUNCTIONS.items():
            entry = getattr(handle, function)
            entry.argtypes, entry.restype = arguments, c_int
    except OSError:
        raise RunError(f"there is no CUDA device here: no {name}") from None
    except AttributeError as error:
        raise RunError(f"the CUDA driver is too old: {error}") from None
    return started(handle)


def started(functions: Functions) -> Library:
    """A library whose device 0 can be asked for."""
    library = Library(functions)
    code = functions.cuInit(0)
    if code:
        raise RunError(f"there is no CUDA device here: {library.said(code)}")
    if not library.number("cuDeviceGetCount"):
        raise RunError("there is no CUDA device here: the driver counts none")
    return library
