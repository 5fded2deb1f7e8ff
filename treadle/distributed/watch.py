"""Watch: which call each rank is in, told to those who have waited too long."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.base.locks import lock
from treadle.distributed.communicator import DistributedError
from treadle.graph.origin import Origin, describe

_LENGTH = 512  # bytes of a notice
_ANSWERS = 1.5  # seconds in which ranks that wait, too, say so
_ASKS, _TELLS = 1, 2


@dataclass(eq=False)
class Call:
    """A call in which this rank waits: its number among those of its channel."""

    channel: str
    number: int
    name: str
    origin: Origin
    heard: dict[int, dict[str, Any]] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """What other ranks compare and print."""
        call = {"channel": self.channel, "number": self.number, "name": self.name[:80]}
        return {**call, "where": describe(self.origin)[-250:]}


class Watch:
    """Notices between ranks that wait: the number, the name and the line of a call.

    They are sent after a deadline alone. Who waits answers, whatever channel it waits
    in; who does not answer is in no call: it computes, has stopped, or is gone.
    """

    def __init__(self, comm: Any, mpi: Any) -> None:
        self._comm, self._mpi = comm, mpi
        self._lock = lock()
        self._waiting: list[Call] = []
        self._sent: list[tuple[Any, Any]] = []

    @contextmanager
    def within(self, call: Call) -> Iterator[None]:
        """Answer that this rank is in a call."""
        with self._lock:
            self._waiting.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(call)

    def barrier(self) -> Any:
        """The request of a barrier that is paired with no other call."""
        return self._comm.Ibarrier()

    def answer(self) -> None:
        """Read the notices that have come, and answer those that ask."""
        mpi = self._mpi
        status = mpi.Status()
        with self._lock:
            while self._comm.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status):
                notice = np.zeros(_LENGTH, np.uint8)
                source, tag = status.source, status.tag
                self._comm.Recv(notice, source, tag)
                there = json.loads(notice.tobytes().rstrip(b"\0"))
                asked = there["asked"]
                for call in self._waiting:
                    if call.channel == asked:
                        call.heard[source] = there
                if tag == _ASKS:
                    # Of several calls, the one that is asked for.
                    call = min(self._waiting, key=lambda call: call.channel != asked)
                    self._tell(source, _TELLS, asked, call)

    def _tell(self, to: int, tag: int, asked: str, call: Call) -> None:
        text = json.dumps({"asked": asked, **call.facts()}).encode()[:_LENGTH]
        notice = np.zeros(_LENGTH, np.uint8)
        notice[: len(text)] = np.frombuffer(text, np.uint8)
        self._sent.append((self._comm.Isend(notice, to, tag), notice))

    def late(self, call: Call, timeout: float) -> DistributedError:
        """The error of a call that has waited for so many seconds."""
        return self._error(
            call,
            f"has waited {timeout:g} s",
            "ranks make the same calls in the same order; a rank that computes "
            "longer needs a longer timeout",
        )

    def differ(self, call: Call) -> DistributedError:
        """The error of a call that other ranks take for another one; they notice, too,
        and ask."""
        return self._error(
            call, "meets another call", "ranks make the same calls in the same order"
        )

    def _error(self, call: Call, what: str, hint: str) -> DistributedError:
        """An error of a call, with where the other ranks say that they are."""
        others = [k for k in range(self._comm.size) if k != self._comm.rank]
        with self._lock:
            for k in others:
                self._tell(k, _ASKS, call.channel, call)
        end = time.monotonic() + _ANSWERS
        while time.monotonic() < end and len(call.heard) < len(others):
            self.answer()
            time.sleep(0.01)
        missing = [k for k in others if k not in call.heard]
        elsewhere = [
            f"rank {k} is in {there['name']} (call {there['number']}), {there['where']}"
            for k, there in sorted(call.heard.items())
            if any(there[key] != x for key, x in call.facts().items() if key != "where")
        ]
        silent = [_ranks(missing)] if missing else []
        where = "; ".join([*silent, *elsewhere]) or "all ranks wait here"
        return DistributedError(
            f"{call.name} (call {call.number}) {what}: {where}", hint=hint
        ).located(call.name, where=describe(call.origin))


def _ranks(missing: list[int]) -> str:
    if len(missing) == 1:
        return f"rank {missing[0]} has not come"
    return f"ranks {', '.join(map(str, missing))} have not come"
