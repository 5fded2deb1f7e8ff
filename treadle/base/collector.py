"""The cyclic garbage collector, paused while much is built and little is freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from treadle.base.locks import in_child, lock

P = ParamSpec("P")
R = TypeVar("R")


class _State:
    """The blocks of all threads that pause the collector, and its state before.

    A block that an interrupt kept from its end is none any more when it is freed.
    """

    def __init__(self) -> None:
        self.lock = lock()
        self.blocks: dict[int, weakref.ref[CollectorPaused]] = {}
        self.enabled = False
        self.paused = False


_state = _State()


class CollectorPaused:
    """A block in which the garbage collector is paused; afterwards it is as it was.

    A compilation makes a million objects, hardly any of them in cycles: they are freed
    by their counts, and going through what lives of them again and again costs a tenth
    of it all. Blocks may stand in one another and run in several threads. One that is
    to be `alone` does nothing inside of or beside another: where threads are always in
    some of these, the collector has its turn whenever one ends.

    >>> with CollectorPaused():
    ...     gc.isenabled()
    False
    """

    __slots__ = ("__weakref__", "_alone", "_holds")

    def __init__(self, alone: bool = False) -> None:
        self._alone = alone
        self._holds = False

    def __enter__(self) -> None:
        try:
            with _state.lock:
                if self._alone and _state.blocks:
                    return
                blocks, key = _state.blocks, id(self)
                if not blocks:
                    before = _state.paused and _state.enabled
                    _state.enabled = gc.isenabled() or before
                blocks[key] = weakref.ref(self, partial(blocks.pop, key))
                self._holds = _state.paused = True
                gc.disable()
        except BaseException:  # an interrupt: the block does not begin
            self.__exit__()
            raise

    def __exit__(self, *_: Any) -> None:
        with _state.lock:
            if not self._holds:
                return
            self._holds = False
            _state.blocks.pop(id(self), None)
            if not _state.blocks:
                _state.paused = False
                if _state.enabled:
                    gc.enable()


def collector_paused(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator that pauses the garbage collector, unless a block does so already.

    A step makes thousands of objects that go with it. What the collector sees of them
    it takes for old ones, and too many old ones bring it to look at all there are.
    """

    @wraps(function)
    def within(*args: P.args, **kwargs: P.kwargs) -> R:
        with CollectorPaused(alone=True):
            return function(*args, **kwargs)

    return within


def _after_fork() -> None:
    """In a forked child, where the threads with the blocks are not."""
    global _state
    if _state.blocks and _state.enabled:
        gc.enable()
    _state = _State()


in_child(_after_fork)
