"""Guard pages: buffers in pages of their own, between pages that no one may touch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.engines.native.execution.blocks import POISON
from treadle.engines.native.system.block import PAGE, mapped

CANARY = 0xA5


class Guarded:
    """Buffers in pages of their own, between pages that no one may touch.

    The end of each buffer touches a protected page, or with side="start" its start.
    The rest of its pages holds a pattern that `damaged` looks after.
    """

    reserved = False  # as blocks are for takers of their pool

    def __init__(self, sizes: Sequence[int], side: str = "end") -> None:
        self._protect = _mprotect()
        self._sizes = list(sizes)
        spans = [(size + PAGE - 1) // PAGE * PAGE for size in sizes]
        self.bytes = PAGE + sum(spans) + PAGE * len(spans)
        self.memory = mapped(self.bytes)
        self._view = np.frombuffer(self.memory, np.uint8)
        self._base = int(self._view.ctypes.data)
        self._closed = [False] * len(spans)
        self._spans: list[tuple[int, int]] = []
        self.offsets: list[int] = []
        self._seal(0, PAGE)
        at = PAGE
        for size, span in zip(sizes, spans, strict=True):
            self._spans.append((at, at + span))
            self.offsets.append(at if side == "start" else at + span - size)
            self._view[at : at + span] = CANARY
            self._view[self.offsets[-1] : self.offsets[-1] + size] = POISON
            self._seal(at + span, PAGE)
            at += span + PAGE

    def addresses(self) -> list[int]:
        """The addresses of the buffers."""
        return [self._base + offset for offset in self.offsets]

    def damaged(self, number: int) -> bool:
        """Return True if bytes beside a buffer, but inside its pages, were written."""
        if self._closed[number]:
            return False
        low, high = self._spans[number]
        begin = self.offsets[number]
        end = begin + self._sizes[number]
        beside = (self._view[low:begin], self._view[end:high])
        return any(bool((part != CANARY).any()) for part in beside)

    def close(self, number: int) -> None:
        """From now on any access to a buffer faults."""
        self._closed[number] = True
        low, high = self._spans[number]
        if high > low:
            self._seal(low, high - low)

    def _seal(self, at: int, bytes: int) -> None:
        if self._protect(self._base + at, bytes, 0):
            raise OSError(ctypes.get_errno(), "pages cannot be protected")


def _mprotect() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    protect = library.mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return protect
