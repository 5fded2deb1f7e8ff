"""Kernels in a device's memory: translated once, then read from disk.

What the driver makes of PTX lies in the cache of machine code, by the kernel's digest,
the device's compute capability and the driver's version.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_size_t, c_void_p
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import treadle
from treadle.base.errors import RunError
from treadle.engines.gpu.cuda.builder import entry_of, text_of
from treadle.engines.gpu.cuda.library import Library
from treadle.engines.gpu.cuda.ptx import architecture, ptx_of
from treadle.engines.native.codegen.cache import disk_cache, key
from treadle.engines.native.codegen.texts import sources
from treadle.loops.digest import digest
from treadle.loops.kernel import Kernel

if TYPE_CHECKING:
    from treadle.engines.gpu.work import Work

_PTX = 1  # the kind of what is linked
_LOG, _LOG_BYTES = 5, 6  # options: where errors are told, and how much room is there
_ROOM = 4096


class CudaKernel:
    """A kernel on a device; its module is unloaded some time after it is gone."""

    def __init__(
        self,
        function: c_void_p,
        items: int,
        module: c_void_p,
        spent: deque[c_void_p],
    ) -> None:
        self.function, self.items = function, items
        self._module = module
        self._spent = spent

    def __del__(self) -> None:
        self._spent.append(self._module)


class Modules:
    """The kernels of one device that somebody holds, by the work they do."""

    def __init__(
        self, library: Library, capability: tuple[int, int], version: int
    ) -> None:
        self._library = library
        self._target = architecture(capability)
        self._facts = (*map(str, capability), str(version))
        self._entries: WeakValueDictionary[Work, CudaKernel] = WeakValueDictionary()
        # Finalizers may run within any statement, so they only make a note.
        self._spent: deque[c_void_p] = deque()

    def entry(self, work: Work) -> CudaKernel:
        """The kernel of some work, from memory, from disk, or translated now."""
        while self._spent:
            self._library.call("cuModuleUnload", self._spent.popleft())
        entry = self._entries.get(work)
        if entry is None:
            module = self._library.handle(
                "cuModuleLoadDataEx", self._image(work), 0, None, None
            )
            name = entry_of(work).encode()
            function = self._library.handle("cuModuleGetFunction", module, name)
            entry = CudaKernel(function, work.items, module, self._spent)
            self._entries[work] = entry
        return entry

    def text(self, work: Work) -> str:
        """The PTX of some work."""
        return ptx_of(text_of(work), self._target)

    def _image(self, work: Work) -> bytes:
        """The file that the device runs."""
        cache, state = disk_cache(), sources()
        if cache is None or not state:
            return self._linked(self.text(work))
        facts = (treadle.__version__, state, *self._facts, entry_of(work))
        place = key("cubin", *facts, *_facts_of(work.computes))
        content = cache.read(place)
        if content is None:
            content = self._linked(self.text(work))
            cache.write(place, content)
        return content

    def _linked(self, ptx: str) -> bytes:
        """PTX as the driver's own assembler translates it."""
        log = ctypes.create_string_buffer(_ROOM)
        options = (ctypes.c_int * 2)(_LOG, _LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _ROOM)
        state = c_void_p()
        self._library.call("cuLinkCreate_v2", 2, options, values, byref(state))
        try:
            data = ptx.encode() + b"\0"
            self._library.call(
                "cuLinkAddData_v2",
                *(state, _PTX, data, len(data), b"treadle.ptx", 0, None, None),
            )
            image, size = c_void_p(), c_size_t()
            self._library.call("cuLinkComplete", state, byref(image), byref(size))
            return ctypes.string_at(image, size.value)
        except RunError as error:
            message = c_char_p(ctypes.addressof(log)).value or b""
            if message:
                error.hint = error.hint or message.decode(errors="replace").strip()
            raise
        finally:
            if not self._library.lost:
                self._library.call("cuLinkDestroy", state)


def _facts_of(computes: Any) -> Iterator[str]:
    """All that some work is equal to others by, the same in all processes."""
    yield type(computes).__qualname__
    whole = isinstance(computes, Kernel) or not is_dataclass(computes)
    parts = (
        [computes] if whole else [getattr(computes, f.name) for f in fields(computes)]
    )
    for x in parts:
        yield digest(x) if isinstance(x, Kernel) else repr(x)
