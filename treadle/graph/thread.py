"""What a thread has around it while it builds graphs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from treadle.graph.tensor import Notes, Tensor
    from treadle.graph.variable import Variable

__all__ = ["Frame", "ThreadState", "Undoing", "local", "thread_state"]

_committed = attrgetter("committed")


class Undoing(Protocol):
    """What is told of Variables before they are written."""

    def note(self, variable: Variable, update: Tensor | None = None) -> None: ...

    def note_grad(self, variable: Variable) -> None: ...


class Noting(Protocol):
    """What is told of the updates that are about to run."""

    def carried_out(self, updates: Sequence[Tensor]) -> None: ...


class Frame:
    """Versions of Variables that this thread sees before they are committed.

    `runs` tells whether an optimizer's step in this trace has to run at the call.
    """

    __slots__ = ("marks", "pending", "runs", "tracing", "versions")

    def __init__(self) -> None:
        self.tracing = False
        self.runs = False
        self.versions: dict[int, Tensor] = {}
        self.pending: list[Tensor] = []
        self.marks: WeakSet[Noting] | None = None  # while nobody asks to be told

    def read(self, variable: Variable) -> Tensor:
        """The version a new expression reads."""
        return self.versions.get(id(variable), variable.committed)

    def read_all(self, variables: Iterable[Variable]) -> Iterable[Tensor]:
        """The versions a new expression reads, of several."""
        if self.versions or self.tracing:
            return [self.read(v) for v in variables]
        return map(_committed, variables)

    def record(self, variable: Variable, update: Tensor) -> None:
        """Make an Update the current version and remember to run it."""
        self.versions[id(variable)] = update
        self.pending.append(update)

    def take(self) -> list[Tensor]:
        """The pending updates in creation order; the frame forgets them."""
        taken, self.pending = self.pending, []
        for mark in self.marks or ():
            mark.carried_out(taken)
        self.versions.clear()
        return taken


class ThreadState:
    """What one thread is doing; `notes` are what its new nodes carry. The scopes around
    are those of its tasks (`Modes` of base/options.py).

    Machine code reads it where it lies, and remembers whose it has read last.
    """

    __slots__ = ("frames", "notes")

    def __init__(self) -> None:
        self.notes: Notes | None = None
        self.frames: list[Frame] = [Frame()]


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


local = _Local()


def thread_state() -> ThreadState:
    """The state of the thread that asks."""
    return local.state
