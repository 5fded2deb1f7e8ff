"""The thread pool that runs the steps of a program.

One native call runs all steps and lets go of Python's lock. Workers are Python threads
that enter native code once and stay there: they spin for some tens of microseconds (a
millisecond, where work came as soon before), then sleep in the kernel. A step is
published by one store; whoever is awake claims parts of it, and it is over when all its
parts are, so a worker that sleeps on or comes late costs nothing, and one that is gone
cannot make a run hang.

A run may also be queued for a worker, and its caller goes on; the next run of whatever
pool waits for it, so runs have an order.

Sleeping needs Linux and the instructions are those of x86-64 (`runner.py`); elsewhere
a pool is one thread.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from treadle.base.errors import RunError
from treadle.base.locks import around_fork, in_child, lock
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.execution.limits import NOTHING, Held, Limit
from treadle.engines.native.execution.runner import PORTABLE, QUEUE, TEXTS, THREADS
from treadle.engines.native.execution.workers import FAILED, OVER, ROOM, SIZE, WORKERS
from treadle.engines.native.system.host import cores, has_threads, host
from treadle.graph.claim import Claim
from treadle.graph.resident import LateError
from treadle.graph.resident import order as _order

__all__ = ["Done", "Pool", "Ticket", "arrived", "pool"]

_LINE = 64  # bytes of a cache line
_POINTER, _INTEGER = ctypes.c_void_p, ctypes.c_int64
_GIVEN = _INTEGER, _POINTER, _POINTER, _INTEGER, _POINTER, _POINTER, _POINTER
_RUN = ctypes.CFUNCTYPE(*_GIVEN)
_BRIEF = ctypes.PYFUNCTYPE(*_GIVEN)  # keeps Python's lock
_WORK = ctypes.CFUNCTYPE(None, _POINTER, _INTEGER)
_HALT = ctypes.CFUNCTYPE(None, _POINTER)
_QUEUE = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _INTEGER, _POINTER, _POINTER)
_WAIT = ctypes.CFUNCTYPE(None, _POINTER, _INTEGER)
Done = Callable[[bool], None]


@dataclass(frozen=True)
class Ticket:
    """The number of a run among all that were queued on a pool."""

    pool: Pool
    number: int

    @property
    def is_over(self) -> bool:
        """Whether this run is, which nobody may have been told yet."""
        state = self.pool._state
        return state is None or state.over.value >= self.number

    @property
    def is_queued(self) -> bool:
        """Whether native code has it, to the very instruction."""
        state = self.pool._state
        return state is None or state.queued.value >= self.number

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
        self.threads = max(1, threads) if _workers_exist() else 1
        self._native: Any = None  # the runner; None until started
        self._brief: Any = None  # the same, for what keeps Python's lock
        self._entry = 0, 0  # its address and that of the state
        self._state: _State | None = None
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
        how many of the next ones are chains of a region (`regions.py`; of others 0),
        and three unused. Stops after a step that leaves the int64 at `status_pointer`
        other than 0, and counts it. At `times_pointer`, if there is one, it is noted
        when each part ran (`runner.py`). What is written over is told by `claim`;
        what is `brief` keeps Python's lock.
        """
        if _queued or _late:
            arrived()
        native = self._native or self._start()
        native = self._brief if brief else native
        place = self._state.address if self._state else 0
        given = place, steps_pointer, count, args_pointer, status_pointer, times_pointer
        if claim is None:
            found: int = native(*given)
            return found
        status = _INTEGER.from_address(status_pointer)
        return claim.carry_out(native, given, lambda: bool(status.value))

    def entry(self) -> tuple[int, int]:
        """The addresses of the runner and of its pool, when all that is queued is over:
        for who keeps Python's lock while it runs."""
        if _queued or _late:
            arrived()
        if self._native is None:
            self._start()
        return self._entry

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
            if _late or any(x is not self or x._owner != caller for x in _queued):
                arrived()
            if len(self._jobs) == ROOM:
                self.reached(self._jobs[0].ticket.number)
            self._owner = caller
            pointers = steps_pointer, count, args_pointer, status_pointer
            ticket = Ticket(self, state.queued.value + 1)
            if claim is not None:
                claim.begin(lambda: ticket.is_queued, ticket)
            try:
                state.queue(state.address, *pointers)
                # After it: this thread may come to wait in between, in a finalizer.
                self._jobs.append(_Job(ticket, done, status_pointer, held))
                _queued.add(self)
            except BaseException:  # an interrupt: nobody may be told of what is queued
                if ticket.is_queued:
                    state.wait(state.address, ticket.number)
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
            self.reached(state.over.value)
        while 0 < self._held(limit) > most - bytes:
            with _order:
                own = [x.ticket.number for x in self._jobs if x.held.limit == limit]
                if own:
                    self.reached(own[0])

    def reached(self, number: int) -> None:
        """Be there until the run of that number is over, and all queued before it."""
        with _order:
            state = self._state
            if state and (self._jobs or state.over.value < number):
                self._wait(state, number)
            _tell()

    @property
    def helped(self) -> bool:
        """Whether there are workers."""
        if self._native is None:
            self._start()
        return self._state is not None and bool(self._state.workers)

    def _wait(self, state: _State, number: int) -> None:
        """Help until so many runs are over, and tell; all of them if one has failed."""
        if state.over.value < number:
            state.wait(state.address, number)
        # In this order: what is over has told before that it failed.
        over, failed = state.over.value, state.failed.value
        jobs = self._jobs if failed else ()
        bad = [x.ticket for x in jobs if _INTEGER.from_address(x.status).value]
        if bad:
            over = state.queued.value
            state.wait(state.address, over)
            state.failed.value = 0
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
            if self._native is None:
                functions = _functions()
                state = _State(self.threads)
                state.start(functions)
                self._state = state
                self._entry = functions["treadle_run"], state.address
                self._brief = _BRIEF(functions["treadle_run"])
                self._native = _RUN(functions["treadle_run"])
                if state.workers:
                    weakref.finalize(self, state.halt).atexit = False
            return self._native

    def _close(self) -> None:
        if self._state:
            self._state.halt()
            self._state.join()

    def _forget(self) -> None:
        """In a forked child, where the workers are not, and nothing is queued."""
        self._native = self._state = None


class _State:
    """What native code shares with the workers of one pool, and their threads."""

    def __init__(self, threads: int) -> None:
        self.memory = ctypes.create_string_buffer(SIZE + _LINE)
        self.address = -(-ctypes.addressof(self.memory) // _LINE) * _LINE
        self.threads = threads
        self.workers: list[threading.Thread] = []
        self.functions: dict[str, int] = {}
        # Runs ever queued; those that are over; the status of one that failed.
        self.queued = ctypes.c_int64.from_address(self.address + QUEUE)
        self.over = ctypes.c_int64.from_address(self.address + OVER)
        self.failed = ctypes.c_int64.from_address(self.address + FAILED)

    def start(self, functions: dict[str, int]) -> None:
        """Start the workers: as many as the system allows."""
        self.functions = functions  # their code stays loaded
        if "treadle_queue" in functions:
            self.queue = _QUEUE(functions["treadle_queue"])
            self.wait = _WAIT(functions["treadle_wait"])
        count = ctypes.c_int64.from_address(self.address + THREADS)
        count.value = 1
        for number in range(1, self.threads if has_threads() else 1):
            thread = threading.Thread(
                target=_work,
                args=(functions["treadle_work"], self.address, number, self.memory),
                name=f"treadle-{number}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                break
            self.workers.append(thread)
            count.value += 1

    def halt(self) -> None:
        """Tell the workers to leave; a run that goes on does without them."""
        if self.workers:
            _HALT(self.functions["treadle_halt"])(self.address)

    def join(self) -> None:
        for thread in self.workers:
            thread.join(1.0)


def _work(function: int, address: int, number: int, memory: object) -> None:
    """The life of a worker; `memory` is what the address is in."""
    _WORK(function)(address, number)


@cache
def _functions() -> dict[str, int]:
    """The native functions; kept, so that their code stays loaded."""
    texts = {**TEXTS, **WORKERS} if _workers_exist() else PORTABLE
    return compile_functions(texts, lasting=True)


@cache
def _workers_exist() -> bool:
    return sys.platform == "linux" and host().triple.startswith("x86_64")


_lock = lock()
_queued: set[Pool] = set()
_late: dict[int, LateError] = {}  # what threads are to be told of, by their numbers
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_shared: dict[int, Pool] = {}


def pool(threads: int = 0) -> Pool:
    """The process's pool of so many threads; of all its cores for 0, and at most."""
    found = _shared.get(threads)
    if found is None:
        most = cores()
        number = min(threads, most) if threads > 0 else most
        found = _shared.setdefault(number, Pool(number))
        _shared[threads] = found
    return found


def arrived() -> None:
    """Be there until all that is queued is over."""
    with _order:
        _finish()
        _tell()


def _finish() -> None:
    """Be there until all that is queued is over, and raise nothing."""
    for one in list(_queued):
        if one._state is not None:
            one._wait(one._state, one._state.queued.value)


def _tell() -> None:
    """Raise the error of a run that this thread has queued, or one that is gone."""
    if _late:
        there = {x.ident for x in threading.enumerate()} - {threading.get_ident()}
        for owner in [x for x in _late if x not in there]:
            raise _late.pop(owner)


@atexit.register
def _close_all() -> None:
    """Workers leave native code before the interpreter takes itself apart."""
    with contextlib.suppress(RunError):
        arrived()
    for one in list(_pools):
        with contextlib.suppress(RuntimeError):
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
