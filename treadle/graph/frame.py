"""Frames: pending assignments of a thread, and what a trace has read."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from treadle.base.locks import lock
from treadle.base.options import change, modes, restore
from treadle.graph.leaves import Argument
from treadle.graph.marks import count_scopes
from treadle.graph.serials import newest_serial
from treadle.graph.tensor import Notes, Tensor, track, watchers
from treadle.graph.thread import Frame, local, native_calls, thread_state

if TYPE_CHECKING:
    from treadle.graph.operators import Operand
    from treadle.graph.variable import Variable

__all__ = [
    "explicit_updates",
    "metadata",
    "no_grad",
]

# Bare: the one around it looks each answer up among its enumerations.
_getsignal = _signal.getsignal


def in_handler(opener: int = 0, plain: dict[int, CodeType] | None = None) -> bool:
    """Return True if a signal handler is running, called from within the frame of this
    id: what it does has nothing to do with what it has interrupted. Code that was
    looked at before and is that of no handler is `plain`, by id: hashing takes long."""
    if threading.current_thread() is not threading.main_thread():
        return False
    running: dict[int, CodeType] = {}
    at: FrameType | None = sys._getframe()
    while at is not None and id(at) != opener:
        running[id(at.f_code)] = at.f_code
        at = at.f_back
    if plain is not None and running.keys() <= plain.keys():
        return False
    codes = set()
    for handler in set(map(_getsignal, range(1, signal.NSIG))):
        while isinstance(handler, partial):
            handler = handler.func
        if callable(handler):
            function = handler if hasattr(handler, "__code__") else handler.__call__
            codes.add(id(getattr(function, "__code__", None)))
    runs = not codes.isdisjoint(running)
    if plain is not None and not runs:
        plain |= running
    return runs


class TraceFrame(Frame):
    """A frame in which Variables are read as arguments of the traced body."""

    __slots__ = ("name", "opener", "plain", "reads", "start")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.tracing = True
        self.name = name
        # Of who opens it, by `tracing` or in a trace, which goes on meanwhile.
        at = sys._getframe()
        for _ in range(3):
            at = at.f_back or at
        self.opener = id(at)
        self.plain: dict[int, CodeType] = {}
        self.start = newest_serial()
        self.reads: dict[int, tuple[Variable, Tensor]] = {}

    def record(self, variable: Variable, update: Tensor) -> None:
        if in_handler(self.opener, self.plain):
            thread_state().frames[0].record(variable, update)
        else:
            super().record(variable, update)

    @property
    def assigned(self) -> list[Variable]:
        """The Variables that are assigned in this trace."""
        return [x.op.variable for x in self.versions.values()]  # type: ignore[attr-defined]

    def has_made(self, xs: Iterable[Operand]) -> bool:
        """Whether all of these are nodes of this trace, which assigns nothing."""
        return not self.versions and all(x.node().serial > self.start for x in xs)

    def read(self, variable: Variable) -> Tensor:
        if in_handler(self.opener, self.plain):
            return thread_state().frames[0].read(variable)
        known = self.versions.get(id(variable))
        if known is not None:
            return known
        if id(variable) not in self.reads:
            argument = Tensor(Argument(-1), (), variable.type)
            argument.mark = {"variable": variable, "trace": self.name}
            self.reads[id(variable)] = variable, argument
        return self.reads[id(variable)][1]


def _top() -> Frame:
    """The frame that reads and assignments of this thread go to."""
    frames = local.state.frames
    frame = frames[-1]
    if isinstance(frame, TraceFrame) and in_handler(frame.opener, frame.plain):
        return frames[0]
    return frame


top: Callable[[], Frame] = _top
if native_calls is not None:
    native_calls.bind_top(_top)
    top = native_calls.top


@contextmanager
def pushed(frame: Frame) -> Iterator[Frame]:
    """Run a block in a frame; an exception drops what was assigned in it."""
    frames = thread_state().frames
    depth = len(frames)
    try:
        try:
            frames.append(frame)
            yield frame
        finally:
            del frames[depth:]
    finally:  # once more, as an interrupt may have come before it
        del frames[depth:]


@contextmanager
def explicit_updates() -> Iterator[None]:
    """Inside, an assignment runs only where its Update is named.

    >>> w = td.Variable(0)
    >>> with td.explicit_updates():
    ...     update = w.assign(w + 1)
    >>> int(w), int(update), int(w)
    (0, 1, 1)
    """
    token = change(explicit=modes.get().explicit + 1)
    try:
        yield
    finally:
        restore(token, "explicit")


_notes: ContextVar[Notes | None] = ContextVar("metadata of treadle", default=None)


def _note(node: Tensor) -> None:
    """Give a new node the notes of the scopes around its task."""
    notes = _notes.get()
    if notes is not None:
        inner = node._metadata
        node._metadata = notes if inner is None else Notes(notes, **inner)
        if not notes.closed:
            track(node)


_noting = _constant = 0  # scopes of metadata, and those without gradients
_lock = lock()


def _watch(more: int) -> None:
    """Have `_note` see new nodes while any task needs it."""
    global _noting
    with _lock:
        _noting += more
        # As it is found, not as it should be: Ctrl-C may have come in between.
        if _noting and _note not in watchers:
            watchers.append(_note)
        elif not _noting and _note in watchers:
            watchers.remove(_note)


def _count(more: int) -> None:
    """Have new nodes marked while any task is without gradients."""
    global _constant
    with _lock:
        _constant += more
        count_scopes(_constant)


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside, new nodes are constants for every derivative and keep no recipe.

    >>> x = td.param("x", init=2.0)
    >>> with td.no_grad():
    ...     target = x * 3
    >>> float(td.grad(x * target, [x])[0])
    6.0
    """
    _count(1)
    token = change(no_grad=modes.get().no_grad + 1)
    try:
        yield
    finally:
        restore(token, "no_grad")
        _count(-1)


@contextmanager
def apart() -> Iterator[None]:
    """Inside, new nodes are not those of the scopes around: what is made of others."""
    state = thread_state()
    before, state.notes = state.notes, None
    token = change(no_grad=0) if modes.get().no_grad else None
    outer = _notes.set(None) if _notes.get() is not None else None
    try:
        yield
    finally:
        state.notes = before
        if outer is not None:
            _notes.reset(outer)
        if token is not None:
            modes.reset(token)


@contextmanager
def tracing(name: str) -> Iterator[TraceFrame]:
    """Inside, a graph is made that is kept for all who look for it: it reads and notes
    nothing of what is around.
    """
    with apart(), pushed(TraceFrame(name)) as frame:
        assert isinstance(frame, TraceFrame)
        yield frame


@contextmanager
def metadata(**notes: Any) -> Iterator[None]:
    """Inside, new nodes carry these notes; inner blocks add to outer ones.

    >>> with td.metadata(layer="first"):
    ...     y = td.constant(1.0) + 2
    >>> y.metadata
    {'layer': 'first'}
    """
    _watch(1)
    token = _notes.set(Notes(_notes.get() or (), **notes))
    try:
        yield
    finally:
        with suppress(ValueError):  # the collector closes it in another task
            _notes.reset(token)
        _watch(-1)
