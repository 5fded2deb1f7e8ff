"""The state of a thread while it builds graphs."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import compress
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from treadle.base.locks import lock
from treadle.base.options import modes
from treadle.core import native

if TYPE_CHECKING:
    from treadle.graph.tensor import Notes, Tensor
    from treadle.graph.variable import Variable

_committed = attrgetter("committed")


class Noting(Protocol):
    """An observer that is notified of the updates about to run."""

    def carried_out(self, updates: Sequence[Tensor]) -> None: ...


# The newest versions of Variables, by id, that were assigned and not yet carried out:
# every thread sees them.
_assigned: dict[int, Tensor] = {}
_waiting: set[int] = set()  # the serials of updates that nobody has carried out
# What threads that are gone have assigned: for the next run.
_orphans: list[Tensor] = []
assigning = lock()  # held from the look at a version to the assignment that follows it


class Frame:
    """Versions of Variables that are seen before they are committed, and those of them
    that are to be carried out here.

    `runs` tells whether an optimizer's step in this trace has to run at the call.
    """

    __slots__ = ("marks", "pending", "runs", "tracing", "versions", "waiting")

    def __init__(
        self,
        versions: dict[int, Tensor] | None = None,
        waiting: set[int] | None = None,
    ) -> None:
        self.tracing = False
        self.runs = False
        self.versions: dict[int, Tensor] = {} if versions is None else versions
        self.waiting: set[int] = set() if waiting is None else waiting
        self.pending: list[Tensor] = []
        self.marks: WeakSet[Noting] | None = None  # while nobody asks to be told

    def read(self, variable: Variable) -> Tensor:
        """The version a new expression reads."""
        known = self.versions.get(id(variable))  # first: it is committed, then let go
        return variable.committed if known is None else known

    def read_all(self, variables: Iterable[Variable]) -> Iterable[Tensor]:
        """The versions a new expression reads, of several, all at one moment."""
        every = list(variables)
        if self.tracing:
            return [self.read(v) for v in every]
        versions = list(map(_committed, every))
        while self.versions:
            known = list(map(self.versions.get, map(id, every)))
            again = list(map(_committed, every))
            if all(map(is_, versions, again)):
                pairs = zip(versions, known, strict=True)
                return [x if new is None else new for x, new in pairs]
            versions = again
        return versions

    def record(self, variable: Variable, update: Tensor) -> None:
        """Make an Update the current version and remember to run it."""
        self.waiting.add(update.serial)
        self.versions[id(variable)] = update
        self.pending.append(update)

    def take(self) -> list[Tensor]:
        """The pending updates in creation order; nobody sees them any more."""
        taken = self.carry()
        self.forget(taken)
        return taken

    def carry(self) -> list[Tensor]:
        """The pending updates in creation order, which are to be carried out now: until
        then they are seen."""
        taken, self.pending = self.pending, []
        for mark in self.marks or ():
            mark.carried_out(taken)
        return taken

    def alone(self) -> bool:
        """Return True if all versions that are seen are to be carried out here, in no
        transaction."""
        if not self.versions:
            return True
        if modes.get().transactions:
            return False
        if native is not None:
            return native.alone(self)
        newest = {id(x.op.variable): id(x) for x in self.pending}  # type: ignore[attr-defined]
        seen = self.versions.copy()  # other threads assign
        return newest == {k: id(x) for k, x in seen.items()}

    def drop(self, updates: Sequence[Tensor]) -> None:
        """See what was carried out no more."""
        gone = set(map(id, updates))
        before, self.pending = self.pending, []  # a signal handler may add to either
        self.pending[:0] = [x for x in before if id(x) not in gone]
        for mark in self.marks or ():
            mark.carried_out(updates)
        self.forget(updates)

    def forget(self, updates: Iterable[Tensor]) -> None:
        """See the versions before these updates, where no later ones are seen."""
        every = list(updates)
        if native is not None:
            native.forget_updates(self, every)
            return
        ordered = sorted(every, key=attrgetter("serial"), reverse=True)
        self.waiting.difference_update(map(attrgetter("serial"), ordered))
        for update in ordered:
            key = id(update.op.variable)  # type: ignore[attr-defined]
            seen: Tensor | None = update
            # What is seen instead may have been dropped meanwhile, by another thread.
            while seen is not None and seen.serial not in self.waiting:
                below = self._below(seen)
                _replace(self.versions, key, seen, below)
                seen = below

    def _below(self, update: Tensor) -> Tensor | None:
        """The last update before one that is yet to be carried out: it was made from
        that, or from some that were dropped."""
        while update.inputs:
            update = update.inputs[0]
            if update.serial in self.waiting:
                return update
            if update.stored is not None:
                break
        return None


def _replace(
    versions: dict[int, Tensor], key: int, version: Tensor, other: Tensor | None
) -> None:
    """Have another version, or none, seen in the place of one that still is. One call
    of C does it: no assignment of a thread or a signal handler comes between."""
    still = compress([key], map(is_, map(versions.get, [key]), [version]))
    if other is None:
        list(map(versions.pop, still))
    else:
        list(map(versions.__setitem__, still, [other]))


class _Base(Frame):
    """The frame of a thread outside of all blocks; it dies with the thread."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_assigned, _waiting)

    def __del__(self) -> None:
        if _orphans is not None:  # modules are empty at exit
            _orphans.extend(getattr(self, "pending", ()))


def orphans() -> list[Tensor]:
    """The pending updates of threads that have ended, to be carried out now."""
    taken: list[Tensor] = []
    while _orphans:
        with suppress(IndexError):  # another thread has taken it
            taken.append(_orphans.pop())
    return taken[::-1]


class ThreadState:
    """The state of one thread; `notes` are those of its new nodes, and its runs tell
    `observers` and a `recorder` (runtime/recorder.py). The scopes around are those of
    its tasks (`Modes` of base/options.py)."""

    __slots__ = ("frames", "notes", "observers", "recorder")

    def __init__(self) -> None:
        self.notes: Notes | None = None
        self.observers: list[Any] = []
        self.recorder: Any = None
        self.frames: list[Frame] = [_Base()]


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


local = _Local()


def thread_state() -> ThreadState:
    """The state of the thread that asks."""
    return local.state


# Libraries of lighter threads put their own class in the place of `threading.local`:
# then the core cannot know whose state it has asked for last, and Python makes calls.
native_calls = native if issubclass(_Local, _thread._local) else None
if native_calls is not None:
    native_calls.bind_states(thread_state, ThreadState, Frame)
