"""Locks that a forked child finds free.

A lock that another thread holds while a process forks stays held in the child, by
nobody. So every lock of the library is made here, and one place renews them. What a
lock guards may be between two statements then, as after an interrupt: whoever takes the
lock next can go on all the same, or its owner holds it `around_fork`.
"""

from __future__ import annotations

import logging  # noqa: F401 - registers first, so its lock is taken after these
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

Call = Callable[[], object]
_locks: dict[int, weakref.ref[Any]] = {}
_gone: deque[weakref.ref[Any]] = deque()  # no Python runs where a lock dies
MOST = 64  # of those that are gone are known
_around: list[tuple[Call, Call]] = []
_in_child: list[Call] = []
_IMPORTS = ("treadle", "numpy", "llvmlite", "scipy")


def lock() -> Any:
    """A `threading.RLock` that only the thread which forks still has in the child.

    The same thread may come again in a signal handler or a finalizer, at any line.
    """
    new = threading.RLock()
    known = weakref.ref(new, _gone.append)
    _locks[id(known)] = known
    if len(_gone) > MOST:
        with suppress(IndexError):  # another thread takes the last
            while _gone:
                _locks.pop(id(_gone.popleft()), None)
    return new


def is_mine(one: Any) -> bool:
    """Whether this thread has a lock."""
    return one._is_owned()


def locks() -> list[Any]:
    """All locks that are alive."""
    return [alive for one in list(_locks.values()) if (alive := one()) is not None]


def around_fork(before: Call, after: Call) -> None:
    """Has `before` called before a fork, and `after` in both processes after it."""
    _around.append((before, after))


# A child of a fork would wait for ever for a module that another thread was importing.
importing = lock()
around_fork(importing.acquire, importing.release)


def imported(name: str) -> Any:
    """A module of the library that is loaded late, by one thread at a time.

    Threads that import parts of one package at once can each wait for the other: one of
    them gets a module that is not whole, or an error.
    """
    with importing:
        if package := name.rpartition(".")[0]:
            import_module(package)  # whole, should a statement be importing it
        return import_module(name)


def in_child(call: Call) -> None:
    """Has something called in a forked child, when all locks are free."""
    _in_child.append(call)


def _wait_for_imports() -> None:
    """Wait for modules that other threads are importing: in the child nobody would
    finish them, and whoever needs one would wait forever."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _IMPORTS:
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                import_module(name)


def _before() -> None:
    _wait_for_imports()
    for before, _ in _around:
        before()


def _after() -> None:
    for _, after in reversed(_around):
        after()


def _after_in_child() -> None:
    for one in locks():
        if not is_mine(one):
            one._at_fork_reinit()
    _after()
    for call in _in_child:
        call()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after, after_in_child=_after_in_child
    )
