"""A libcuda without a card: it keeps memory of its own and interprets PTX.

Work is put off until something waits for it, so that what a copy misses goes wrong.
`refuse` makes a function fail from some call on.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.engines.cuda.assembly import Module, read
from tests.engines.cuda.machine import launch
from tests.engines.cuda.memory import Fault, GlobalMemory

__all__ = ["Emulated"]

_NAMES = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
_INVALID, _FULL, _NO_CONTEXT, _BAD_PTX, _FAULT = 1, 2, 201, 218, 700
_ATTRIBUTES = {75: 8, 76: 0}
_IMAGE = b"emulated "  # what a linked image begins with


class Emulated:
    """The functions of libcuda that the driver calls, and counts of the calls."""

    def __init__(self, capacity: int = 64 << 20, devices: int = 1) -> None:
        self.memory = GlobalMemory(capacity)
        self.devices = devices
        self.calls: dict[str, int] = {}
        self.refusals: dict[str, tuple[int, int]] = {}
        self.modules: dict[int, tuple[Module, dict[str, int]]] = {}
        self.functions: dict[int, tuple[int, str]] = {}
        self.waiting: deque[Callable[[], None]] = deque()
        self.entered = False
        self.fault = ""  # what went wrong in a kernel
        self._handles = 0x1000
        self._lost = 0
        self._texts: dict[int, bytes] = {}

    def refuse(self, name: str, code: int, after: int = 0) -> None:
        """Let a function fail with a code once it has been called so often more."""
        self.refusals[name] = self.calls.get(name, 0) + after, code

    def __getattr__(self, name: str) -> Callable[..., int]:
        rule = getattr(type(self), f"_{name.removesuffix('_v2')}", None)
        if rule is None or not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            count = self.calls[name] = self.calls.get(name, 0) + 1
            after, code = self.refusals.get(name, (count, 0))
            if name.startswith("cuGet"):
                return int(rule(self, *arguments))
            if self._lost:
                return self._lost
            if count > after:
                return code
            free = ("cuInit", "cuGet", "cuDevice", "cuDriver", "cuCtx")
            if not self.entered and not name.startswith(free):
                return _NO_CONTEXT
            return int(rule(self, *arguments) or self._lost)

        return call

    def _handle(self, target: Any) -> int:
        self._handles += 0x10
        target._obj.value = self._handles
        return self._handles

    # -- the device --------------------------------------------------------------------

    def _cuInit(self, flags: int) -> int:
        return 0 if self.devices else 100

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = 1  # of no real driver, whose files lie in the same cache

    def _cuGetErrorName(self, code: int, text: Any) -> int:
        return self._said(code, text, 0)

    def _cuGetErrorString(self, code: int, text: Any) -> int:
        return self._said(code, text, 1)

    def _said(self, code: int, text: Any, which: int) -> int:
        if code not in _NAMES:
            return _INVALID
        text._obj.value = _NAMES[code][which].encode()
        return 0

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = self.devices

    def _cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0 if number < self.devices else 101

    def _cuDeviceGetName(self, text: Any, size: int, device: int) -> None:
        text.value = b"Emulated device"

    def _cuDeviceGetAttribute(self, value: Any, which: int, device: int) -> None:
        value._obj.value = _ATTRIBUTES[which]

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        self._handle(context)

    def _cuDevicePrimaryCtxRelease(self, device: int) -> None:
        self.entered = False

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self.entered = True

    # -- memory ------------------------------------------------------------------------

    def _cuMemGetInfo(self, free: Any, total: Any) -> None:
        free._obj.value = self.memory.free_bytes
        total._obj.value = len(self.memory.cells)

    def _cuMemAlloc(self, address: Any, size: int) -> int:
        if not size:
            return _INVALID
        address._obj.value = self.memory.allocate(size)
        return 0 if address._obj.value else _FULL

    def _cuMemFree(self, address: int) -> int:
        self.settle()
        return 0 if self.memory.free(address) else _INVALID

    def _cuMemcpyHtoD(self, target: int, source: int, size: int) -> None:
        self.settle()
        data = np.frombuffer(ctypes.string_at(source, size), np.uint8)
        self._guarded(lambda: self._put(target, data))

    def _put(self, address: int, data: Any) -> None:
        self.memory.window(address, len(data))[:] = data

    def _cuMemcpyDtoH(self, target: int, source: int, size: int) -> None:
        self.settle()

        def copy() -> None:
            data = self.memory.window(source, size).tobytes()
            ctypes.memmove(target, data, size)

        self._guarded(copy)

    def _cuMemcpyDtoDAsync(self, target: int, source: int, size: int, s: Any) -> None:
        self.waiting.append(
            lambda: self._put(target, self.memory.window(source, size).copy())
        )

    def _cuMemsetD8Async(self, target: int, byte: int, size: int, s: Any) -> None:
        self.waiting.append(lambda: self._put(target, np.full(size, byte, np.uint8)))

    # -- what is put off ---------------------------------------------------------------

    def settle(self) -> None:
        """Run all that waits."""
        while self.waiting:
            self._guarded(self.waiting.popleft())

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._lost:
            return
        try:
            work()
        except Fault as fault:
            self.fault, self._lost = str(fault), _FAULT

    # -- modules -----------------------------------------------------------------------

    def _cuLinkCreate(self, count: int, options: Any, values: Any, state: Any) -> None:
        self._texts[self._handle(state)] = b""
        self._log = values[0]

    def _cuLinkAddData(self, state: Any, kind: int, data: bytes, *rest: Any) -> int:
        text = data.rstrip(b"\0")
        if b".entry" not in text:
            ctypes.memmove(self._log, b"ptxas fatal : no entry\0", 23)
            return _BAD_PTX
        self._texts[state.value] = _IMAGE + text
        return 0

    def _cuLinkComplete(self, state: Any, image: Any, size: Any) -> None:
        text = self._texts[state.value]
        self._kept = ctypes.create_string_buffer(text, len(text))
        image._obj.value = ctypes.addressof(self._kept)
        size._obj.value = len(text)

    def _cuLinkDestroy(self, state: Any) -> None:
        del self._texts[state.value]

    def _cuModuleLoadDataEx(self, module: Any, image: bytes, *rest: Any) -> int:
        if not image.startswith(_IMAGE):
            return 200
        made = read(image[len(_IMAGE) :].decode())
        constants = {}
        for v in made.variables:
            if v.space in ("global", "const"):
                constants[v.name] = self.memory.allocate(v.bytes)
                start = np.frombuffer(v.start.ljust(v.bytes, b"\0"), np.uint8)
                self._put(constants[v.name], start)
        for entry in made.entries.values():
            entry.variables += [v for v in made.variables if v.space == "shared"]
        self.modules[self._handle(module)] = made, constants
        return 0

    def _cuModuleUnload(self, module: Any) -> None:
        self.settle()
        _, constants = self.modules.pop(module.value)
        for address in constants.values():
            self.memory.free(address)

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        if name.decode() not in self.modules[module.value][0].entries:
            return 500
        self.functions[self._handle(function)] = module.value, name.decode()
        return 0

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        groups, _, _, items, *_ = rest[:7]
        pointers = rest[8]
        number, name = self.functions[function.value]
        module, constants = self.modules[number]
        entry = module.entries[name]
        if not groups or items != entry.items:
            return _INVALID
        parameters = [
            int.from_bytes(ctypes.string_at(pointers[k], size), "little")
            for k, (_, size) in enumerate(entry.parameters)
        ]

        def run() -> None:
            launch(self.memory, constants, entry, groups, parameters)

        self.waiting.append(run)
        return 0
