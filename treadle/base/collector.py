"""Python's cyclic collector, held back while much is built and little goes."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

__all__ = ["HeldBack"]


class _State:
    """Of all threads: how many blocks hold the collector back, and how it was."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.blocks = 0
        self.enabled = False


_state = _State()


class HeldBack:
    """A block in which the collector does not run by itself; then it is as it was.

    A compilation makes a million objects, hardly any of them in cycles: they are freed
    by their counts, and going through what lives of them again and again costs a tenth
    of it all. Blocks may stand in one another and run in several threads.

    >>> with HeldBack():
    ...     gc.isenabled()
    False
    """

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds = False

    def __enter__(self) -> None:
        with _state.lock:
            if not _state.blocks:
                _state.enabled = gc.isenabled()
            _state.blocks += 1
            self._holds = True
            gc.disable()

    def __exit__(self, *_: Any) -> None:
        with _state.lock:
            if not self._holds:
                return
            self._holds = False
            _state.blocks -= 1
            if not _state.blocks and _state.enabled:
                gc.enable()

    def __del__(self) -> None:
        # An interrupt may come before the block has begun, and then nothing ends it.
        self.__exit__()


def _after_fork() -> None:
    """In a forked child, where the threads with the blocks are not."""
    global _state
    if _state.blocks and _state.enabled:
        gc.enable()
    _state = _State()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
