"""Pieces of memory from the system, which may be resized."""

from __future__ import annotations

import contextlib
import mmap
import sys
from typing import Any

import numpy as np

ALIGNMENT = 64
PAGE = mmap.PAGESIZE
HUGE = 1 << 21  # blocks of two huge pages or more begin at one
MAPPED = 1 << 17  # smaller blocks come from the C allocator


class Block:
    """A piece of memory; `memory` owns it, `offset` is where its first byte lies."""

    __slots__ = (
        "__weakref__",
        "address",
        "bytes",
        "memory",
        "note",
        "offset",
        "reserved",
    )

    def __init__(self, bytes: int) -> None:
        self.note: Any = None  # whatever its user wants to find again
        self.reserved = False  # while it is, its pool does not let go of it
        self.memory: Any
        if bytes < MAPPED:
            # No array: of arrays over arrays NumPy keeps only the innermost alive.
            self.memory, step = bytearray(bytes + ALIGNMENT), ALIGNMENT
        else:
            step = _step(bytes)
            self.memory = mapped(bytes + step - PAGE)
        self._begin(bytes, step)

    def resize(self, bytes: int) -> bool:
        """Become as large, if it can: the pages that it has move along."""
        if self.bytes < MAPPED or not sys.platform.startswith("linux"):
            return False
        step = _step(bytes)
        try:
            self.memory.resize(bytes + step - PAGE)
        except (BufferError, MemoryError, OSError, SystemError):
            return False  # BufferError: another thread has not quite let go of it
        self.note = None
        self._begin(bytes, step)
        return True

    def _begin(self, bytes: int, step: int) -> None:
        """Know where so many bytes begin in the memory, at a multiple of `step`."""
        self.bytes = bytes
        start = int(np.frombuffer(self.memory, np.uint8).ctypes.data)
        self.offset = -start % step
        self.address = start + self.offset
        if step == HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # All of it: what is mapped in pieces cannot be resized.
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self.memory.madvise(mmap.MADV_HUGEPAGE)


def _step(bytes: int) -> int:
    """The alignment of a mapped block of so many bytes."""
    return HUGE if bytes >= 2 * HUGE else PAGE


def mapped(bytes: int) -> mmap.mmap:
    """Pages of zeros, private to the process: a child of a fork has its own copy."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, bytes)


def rounded(bytes: int) -> int:
    """The class of a size: 64 bytes to a page, then pages, then 1/32 of the size."""
    if bytes <= PAGE:
        step = ALIGNMENT
    else:
        step = max(PAGE, (1 << bytes.bit_length()) >> 6)
    return (bytes + step - 1) // step * step
