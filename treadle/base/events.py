"""Events of compilation and of runs, for those who watch.

While nobody watches, all this costs is a look at an empty list.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from treadle.base.locks import lock


class Event(NamedTuple):
    """Something that took from `begin` to `end`, in ns of `time.perf_counter_ns`.

    `kind`: "run" (of an engine), "compile" (a stage of it), "kernel" (a part of a
    step, on one thread) or "numpy" (an op by its NumPy rule). `number` tells the runs
    of steps apart. `origins` are those of what it computed, the first that of most;
    bytes and operations, 0 where they are not known, are the whole step's.
    """

    name: str
    kind: str
    begin: int
    end: int
    thread: str
    number: int = 0
    origins: tuple[Any, ...] = ()
    bytes: int = 0
    flops: int = 0


Log = list[Event]
watchers: list[Log] = []  # of all threads: appending to a list needs no lock
_lock = lock()


@contextmanager
def watch() -> Iterator[Log]:
    """A log of what happens within, in any thread."""
    log: Log = []
    with _lock:
        watchers.append(log)
    try:
        yield log
    finally:
        with _lock:
            watchers[:] = [other for other in watchers if other is not log]


def tell(event: Event) -> None:
    """Add an event to the logs."""
    for log in tuple(watchers):
        log.append(event)


@contextmanager
def span(
    name: str, kind: str, origins: tuple[Any, ...] = (), size: int = 0
) -> Iterator[None]:
    """Tell of what is done within; for those who have seen that somebody watches."""
    thread, begin = threading.current_thread().name, time.perf_counter_ns()
    try:
        yield
    finally:
        end = time.perf_counter_ns()
        tell(Event(name, kind, begin, end, thread, 0, origins, size))
