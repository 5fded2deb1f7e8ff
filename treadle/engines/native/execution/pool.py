"""The thread pool that runs the steps of a program.

One native call runs all steps and lets go of Python's lock (`core/pool.cpp`); without
the core a pool is one thread (`serial.py`).

A run may also be queued for a worker, and its caller goes on; the next run of whatever
pool waits for it, so runs have an order.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.base.errors import RunError
from treadle.base.locks import around_fork, in_child, lock
from treadle.core import native
from treadle.engines.native.execution.serial import SerialRunner
from treadle.engines.native.system.host import cores
from treadle.graph.claim import Claim
from treadle.graph.resident import LateError
from treadle.graph.resident import order as _order


class Limit(NamedTuple):
    """The limit of memory that all runs of a kind may hold."""

    kind: str
    bytes: int


class Held(NamedTuple):
    """The memory that a run holds until it is over."""

    bytes: int
    limit: Limit


NOTHING = Held(0, Limit("nothing", 0))


PARTS: int = 1 if native is None else native.POOL_PARTS  # of a step for each thread
ROOM: int = 0 if native is None else native.POOL_ROOM  # runs in the queue at most
Done = Callable[[bool], None]


@dataclass(frozen=True)
class Ticket:
    """The number of a run among all that were queued on a pool."""

    pool: Pool
    number: int

    @property
    def is_over(self) -> bool:
        """True if this run is, which nobody may have been notified of yet."""
        state = self.pool._state
        return state is None or bool(state.over >= self.number)

    @property
    def is_queued(self) -> bool:
        """True if native code has it, to the very instruction."""
        state = self.pool._state
        return state is None or bool(state.queued >= self.number)

    def wait(self) -> None:
        """Be there until this run is over, and all before it."""
        self.pool.reached(self.number)


class _Job(NamedTuple):
    """A run that was queued: who is told of it, and the address of its status."""

    ticket: Ticket
    done: Done
    status: int
    held: Held


class Pool:
    """The calling thread and `threads - 1` workers, which start at the first run.

    Any number of Python threads may run programs on one pool: while one has the
    workers the others run all their steps themselves. A forked child has workers of
    its own.
    """

    def __init__(self, threads: int) -> None:
        self.threads = 1 if native is None else max(1, threads)
        self._state: Any = None  # the core's pool; None until started
        self._jobs: deque[_Job] = deque()
        self._owner = 0  # the thread whose runs are queued
        self._lost = range(0)  # the runs that failed last, or were left out then
        _pools.add(self)

    def run(
        self,
        steps_pointer: int,
        count: int,
        args_pointer: int,
        status_pointer: int,
        times_pointer: int = 0,
        claim: Claim | None = None,
        brief: bool = False,
    ) -> int:
        """Run `count` step records in order; how many were run.

        steps_pointer: records of 8 int64: function, index of the step's arguments in
        the table at `args_pointer`, total items, grain (items that are worth a part),
        how many of the next ones are chains of a region (`core/pool.hpp`; of others 0),
        and three unused. Stops after a step that leaves the int64 at `status_pointer`
        other than 0, and counts it. At `times_pointer`, if there is one, it is noted
        when each part ran. What is written over is told by `claim`;
        what is `brief` keeps Python's lock.
        """
        if _queued or _late:
            arrived()
        state = self._state or self._start()
        call = state.run_brief if brief else state.run
        pointers = steps_pointer, count, args_pointer, status_pointer, times_pointer
        if claim is None:
            return call(*pointers)
        status = ctypes.c_int64.from_address(status_pointer)
        return claim.carry_out(call, pointers, lambda: bool(status.value))

    def entry(self) -> Any:
        """The core's pool, when all that is queued is over: for what it runs itself."""
        if _queued or _late:
            arrived()
        return self._state or self._start()

    def queue(
        self,
        steps_pointer: int,
        count: int,
        args_pointer: int,
        status_pointer: int,
        done: Done,
        held: Held = NOTHING,
        claim: Claim | None = None,
    ) -> Ticket:
        """`run`, to begin soon and beside what the caller does; it has to be `helped`.

        `done` is called by who waits for the end (`arrived`), with whether it went
        well: not if a status, or that of a run queued before, is other than 0. What the
        pointers point to has to live until then. Only runs of one thread are queued at
        a time, on one pool: nobody's are left out for another one's failure. What is
        written over is told by `claim`.
        """
        state, caller = self._state, threading.get_ident()
        assert state is not None
        with _order:
            if _late or any(x is not self or x._owner != caller for x in [*_queued]):
                arrived()
            jobs = [*self._jobs]
            if len(jobs) == ROOM:
                self.reached(jobs[0].ticket.number)
            jobs.clear()
            self._owner = caller
            pointers = steps_pointer, count, args_pointer, status_pointer
            ticket = Ticket(self, state.queued + 1)
            if claim is not None:
                claim.begin(lambda: ticket.is_queued, ticket)
            try:
                state.queue(*pointers)
                # After it: this thread may come to wait in between, in a finalizer.
                self._jobs.append(_Job(ticket, done, status_pointer, held))
                _queued.add(self)
            except BaseException:  # an interrupt: nobody may be told of what is queued
                if ticket.is_queued:
                    state.wait(ticket.number)
                raise
        return ticket

    def _held(self, limit: Limit) -> int:
        """The bytes that runs of a kind hold."""
        return sum(x.held.bytes for x in list(self._jobs) if x.held.limit == limit)

    def make_room(self, wanted: Held) -> None:
        """Be there until a run may hold this too: runs of its kind that go on hold no
        more than they shall, or nothing. Where that is much, those that are over give
        back what they held.
        """
        state, limit = self._state, wanted.limit
        most, bytes = limit.bytes, wanted.bytes
        if self._held(limit) <= most // 8 - bytes:
            return
        if state:
            self.reached(state.over)
        while 0 < self._held(limit) > most - bytes:
            with _order:
                tickets = [
                    x.ticket.number for x in [*self._jobs] if x.held.limit == limit
                ]
                if tickets:
                    self.reached(tickets[0])

    def reached(self, number: int) -> None:
        """Be there until the run of that number is over, and all queued before it."""
        with _order:
            state = self._state
            if state and (self._jobs or state.over < number):
                self._wait(state, number)
            _tell()

    @property
    def helped(self) -> bool:
        """True if there are workers."""
        return bool((self._state or self._start()).workers)

    def _wait(self, state: Any, number: int) -> None:
        """Help until so many runs are over, and tell; all of them if one has failed."""
        if state.over < number:
            state.wait(number)
        # In this order: what is over has told before that it failed.
        over, failed = state.over, state.failed
        jobs = self._jobs if failed else ()
        bad = [x.ticket for x in jobs if ctypes.c_int64.from_address(x.status).value]
        if bad:
            over = state.queued
            state.wait(over)
            state.failed = 0
            self._lost = range(bad[0].number, over + 1)
            error = LateError(
                "a step that went on beside Python read at a position out of range",
                hint="what it was to assign was dropped: Variables are as before it",
            )
            error.ticket = bad[0]
            _late.setdefault(self._owner, error)
        while self._jobs and self._jobs[0].ticket.number <= over:
            job = self._jobs.popleft()
            job.done(job.ticket.number not in self._lost)
        if not self._jobs:
            _queued.discard(self)

    def _start(self) -> Any:
        with _lock:
            if self._state is None:
                alone = native is None
                self._state = SerialRunner() if alone else native.Pool(self.threads)
            return self._state

    def _close(self) -> None:
        if self._state:
            self._state.close()

    def _forget(self) -> None:
        """In a forked child, where the workers are not, and nothing is queued."""
        self._state = None


_lock = lock()
_queued: set[Pool] = set()
_late: dict[int, LateError] = {}  # what threads are to be told of, by their numbers
if native is not None:
    native.bind_queue(_queued, _late)
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_shared: dict[int, Pool] = {}


def pool(threads: int = 0) -> Pool:
    """The process's pool of so many threads; of all its cores for 0, and at most."""
    shared = _shared.get(threads)
    if shared is None:
        most = cores()
        number = min(threads, most) if threads > 0 else most
        shared = _shared.setdefault(number, Pool(number))
        _shared[threads] = shared
    return shared


def arrived() -> None:
    """Be there until all that is queued is over."""
    with _order:
        _finish()
        _tell()


def _finish() -> None:
    """Be there until all that is queued is over, and raise nothing."""
    for one in list(_queued):
        if one._state is not None:
            one._wait(one._state, one._state.queued)


def _tell() -> None:
    """Raise the error of a run that this thread has queued, or one that is gone."""
    if _late:
        there = {x.ident for x in threading.enumerate()} - {threading.get_ident()}
        for owner in [x for x in [*_late] if x not in there]:
            raise _late.pop(owner)


@atexit.register
def _close_all() -> None:
    """Workers leave native code before the interpreter takes itself apart."""
    with contextlib.suppress(RunError):
        arrived()
    for one in list(_pools):
        one._close()


def _before_fork() -> None:
    """Nothing is queued, and nobody queues, while a process forks."""
    _order.acquire()
    _finish()


def _forget_all() -> None:
    for one in list(_pools):
        one._forget()


around_fork(_before_fork, _order.release)
in_child(_forget_all)
