"""MpiCommunicator: MPI moves the bytes; a deadline ends the wait for a lost rank."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.extras import extra
from treadle.base.locks import lock
from treadle.distributed.communicator import Communicator, DistributedError
from treadle.distributed.watch import Watch
from treadle.graph.origin import capture

__all__ = ["MpiCommunicator"]

Array = np.ndarray[Any, Any]

_YIELDS = 200  # looks at a request before the processor is left to others
_PAUSE = 1e-4  # seconds
_FORWARDED = 0.5  # seconds in which a launcher passes on what a rank has said


class MpiCommunicator(Communicator):
    """The ranks that one launcher has started.

    A call that waits longer than `timeout` seconds raises a DistributedError, which
    names the ranks that did not come. An exception that nobody catches ends all ranks.
    """

    def __init__(self) -> None:
        mpi = self._mpi = extra("mpi4py.MPI", "mpi")
        self._comm = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        self._lock = lock()
        self._watch = Watch(mpi.COMM_WORLD.Dup(), mpi)
        self._name = ""
        self._sent: list[tuple[Any, Array]] = []
        self._lost = False
        end_all_on_error(mpi.COMM_WORLD.Abort)

    def name_call(self, name: str) -> None:
        self._name = name

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

    def _done(self, kind: str, start: Any) -> None:
        """Start a call and wait until it is done, or until it is too late."""
        with self._lock:
            if self._lost:
                raise DistributedError("an earlier call has failed: ranks are lost")
            self._watch.enter(self._name or kind, capture())
            request = start()
            begin, looks = time.monotonic(), 0
            while not request.Test():
                looks += 1
                time.sleep(0 if looks < _YIELDS else _PAUSE)
                if looks % _YIELDS == 0:
                    self._watch.answer()
                    if time.monotonic() - begin > self.timeout:
                        self._lost = True
                        raise self._watch.late(self.timeout)
            self._watch.leave()


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
