"""MpiCommunicator: MPI moves the bytes; a deadline ends the wait for a lost rank."""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.events import span, watchers
from treadle.base.extras import extra
from treadle.base.locks import lock
from treadle.distributed.channel import Channel
from treadle.distributed.communicator import CHANNELS, Communicator, DistributedError
from treadle.distributed.watch import Call, Watch
from treadle.graph.origin import Origin, capture

_PATIENCE = 5e-3, 2e-4  # seconds of looks at a request before the processor is left
_PAUSE = 1e-4  # to others for so many, where somebody waits and where nobody does
_LOOKS = 64  # at a request between those at the clock
_TRADE = 1  # the tag of what is traded
_FORWARDED = 0.5  # seconds in which a launcher passes on what a rank has said

_UNSEEN = nullcontext()
_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


class MpiCommunicator(Communicator):
    """The ranks that one launcher has started.

    A call that waits longer than `timeout` seconds raises a DistributedError, which
    names the ranks that did not come, and so does the end of the program. An exception
    that nobody catches ends all ranks.
    """

    def __init__(self, other: MpiCommunicator | None = None, channel: str = "") -> None:
        mpi = self._mpi = extra("mpi4py.MPI", "mpi")
        ranks: Any = mpi.COMM_WORLD if other is None else other._comm
        self._comm: Any = ranks.Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        self._lock = lock()
        self._watch: Watch = Watch(ranks.Dup(), mpi) if other is None else other._watch
        self._channel, self._calls = channel, 0
        self._name = ""
        self._named = np.zeros(1, np.int64), np.zeros((self.size, 1), np.int64)
        self._sent: list[tuple[Any, Array]] = []
        self._lost = False
        self._urgent = other is None
        self._channels: dict[str, Channel] = {}
        if other is None:
            # Now, as all ranks do so at once: later they may do so in another order.
            for name in CHANNELS:
                self._channels[name] = Channel(MpiCommunicator(self, name), name)
            end_all_on_error(mpi.COMM_WORLD.Abort)
            atexit.register(self._finalize, os.getpid())

    def name_call(self, name: str, together: bool = False) -> None:
        self._name = name
        if together:
            self._check_name()

    def _check_name(self) -> None:
        """Raise where other ranks are in a call of another name: MPI would pair them,
        and take the bytes of one for those of the other."""
        name, every = self._named
        name[0] = zlib.crc32(self._name.encode())
        self._done("all_gather", lambda: self._comm.Iallgather(name, every))
        if (every != name[0]).any():
            call = Call(self._channel, self._calls, self._name, self._line())
            with self._watch.within(call):
                raise self._watch.differ(call)

    def channel(self, name: str) -> Channel:
        channel = self._channels[name]
        channel.comm.timeout = self.timeout
        return channel

    def hurry(self, urgent: bool) -> None:
        self._urgent = urgent

    def all_gather(self, x: Array) -> Array:
        y = np.empty((self.size, *x.shape), x.dtype)
        if x.size:
            buffers = self._bytes(x), self._bytes(y)
            self._done("all_gather", lambda: self._comm.Iallgather(*buffers))
        return y

    def all_to_all(self, x: Array) -> Array:
        y = np.empty(x.shape, x.dtype)
        if x.size:
            buffers = self._bytes(x), self._bytes(y)
            self._done("all_to_all", lambda: self._comm.Ialltoall(*buffers))
        return y

    def trade(self, outgoing: Sequence[Array], incoming: Sequence[Array]) -> None:
        others = [k for k in range(self.size) if k != self.rank]

        def start() -> Any:
            requests = [
                self._comm.Irecv(self._bytes(incoming[k]), k, _TRADE)
                for k in others
                if incoming[k].size
            ]
            requests += [
                self._comm.Isend(self._bytes(outgoing[k]), k, _TRADE)
                for k in others
                if outgoing[k].size
            ]
            return requests

        self._done("trade", start)

    def broadcast(self, x: Array, root: int) -> Array:
        y = np.array(x, order="C")
        if y.size:
            buffer = self._bytes(y)
            self._done("broadcast", lambda: self._comm.Ibcast(buffer, root))
        return y

    def send(self, x: Array, to: int) -> None:
        y = np.array(x, order="C")  # the caller's may change before it is received
        with self._lock:
            self._sent = [pair for pair in self._sent if not pair[0].Test()]
            self._sent.append((self._comm.Isend(self._bytes(y), to), y))

    def receive(self, like: Array, source: int) -> Array:
        y = np.empty(like.shape, like.dtype)
        self._done(
            f"recv from rank {source}", lambda: self._comm.Irecv(self._bytes(y), source)
        )
        return y

    def _bytes(self, x: Array) -> Any:
        """An array as MPI takes it: bytes, whatever its dtype."""
        flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        return [flat, self._mpi.BYTE]  # counts follow, by ranks where it is parted

    def _line(self) -> Origin:
        return self.origin if self.origin[0] is not None else capture()

    def _done(self, kind: str, start: Callable[[], Any]) -> None:
        """Start a call and wait until it is done, or until it is too late."""
        name = self._name or kind
        origin = self._line()
        with self._lock, span(name, "exchange", (origin,)) if watchers else _UNSEEN:
            if self._lost:
                raise DistributedError("an earlier call has failed: ranks are lost")
            self._wait(name, origin, start)

    def _wait(self, name: str, origin: Origin, start: Callable[[], Any]) -> None:
        self._calls += 1
        call = Call(self._channel, self._calls, name, origin)
        with self._watch.within(call):
            requests = start()
            if not isinstance(requests, list):
                requests = [requests]
            begin, looks = time.monotonic(), 0
            while not self._mpi.Request.Testall(requests):
                looks += 1
                waited = 0.0
                if looks % _LOOKS == 0 or not self._urgent:
                    waited = time.monotonic() - begin
                late = waited > _PATIENCE[0 if self._urgent else 1]
                if late:
                    time.sleep(_PAUSE)
                else:
                    _yield()
                if looks % _LOOKS == 0:
                    self._watch.answer()
                    if waited > self.timeout:
                        self._lost = True
                        raise self._watch.late(call, self.timeout)

    def _finalize(self, process: int) -> None:
        """Wait for all ranks at the end of the program, and finalize MPI, which would
        wait without end for one that is missing."""
        mpi = self._mpi
        if os.getpid() != process or mpi.Is_finalized():
            return
        try:
            self._wait("MPI_Finalize", (None, 0), self._watch.barrier)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            mpi.COMM_WORLD.Abort(1)  # where the program has a hook of its own
        if extra("mpi4py", "mpi").rc.finalize is not False:
            # A rank may stop yet, when no other one can ask for it.
            with ending_after(self.timeout):
                mpi.Finalize()


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """End this process, and so all ranks, where MPI waits inside for longer: it has no
    deadlines, and lets no Python run."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def end_all_on_error(abort: Callable[[int], object]) -> None:
    """Have an exception that nobody catches end all ranks, as others wait for this."""
    before = sys.excepthook

    def end(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        sys.stderr.flush()
        sys.stdout.flush()
        time.sleep(_FORWARDED)
        abort(1)

    sys.excepthook = end
