"""Watch: which call each rank is in, told to those who have waited too long."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from treadle.distributed.communicator import DistributedError
from treadle.graph.origin import Origin, describe

_LENGTH = 512  # bytes of a notice
_ANSWERS = 1.5  # seconds in which ranks that wait, too, say so
_ASKS, _TELLS = 1, 2


class Watch:
    """Notices between ranks that wait: the number, the name and the line of a call.

    They are sent after a deadline alone. Who waits answers; who does not answer is in
    no call: it computes, has stopped, or is gone.
    """

    def __init__(self, comm: Any, mpi: Any) -> None:
        self._comm, self._mpi = comm, mpi
        self._number = 0
        self._name = ""
        self._origin: Origin = None, 0
        self._heard: dict[int, dict[str, Any]] = {}
        self._sent: list[tuple[Any, Any]] = []

    def enter(self, name: str, origin: Origin) -> None:
        """A call begins."""
        self._number += 1
        self._name, self._origin = name, origin

    def leave(self) -> None:
        """The call is done."""
        self._heard.clear()

    def answer(self) -> None:
        """Read the notices that have come, and answer those that ask."""
        mpi = self._mpi
        status = mpi.Status()
        while self._comm.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status):
            notice = np.zeros(_LENGTH, np.uint8)
            source, tag = status.source, status.tag
            self._comm.Recv(notice, source, tag)
            call = json.loads(notice.tobytes().rstrip(b"\0"))
            self._heard[source] = call
            if tag == _ASKS:
                self._tell(source, _TELLS)

    def _tell(self, to: int, tag: int) -> None:
        call = {"number": self._number, "name": self._name[:80]}
        where = describe(self._origin)
        text = json.dumps({**call, "where": where[-250:]}).encode()[:_LENGTH]
        notice = np.zeros(_LENGTH, np.uint8)
        notice[: len(text)] = np.frombuffer(text, np.uint8)
        self._sent.append((self._comm.Isend(notice, to, tag), notice))

    def late(self, timeout: float) -> DistributedError:
        """The error of a call that has waited for so many seconds."""
        return self._error(
            f"has waited {timeout:g} s",
            "ranks make the same calls in the same order; a rank that computes "
            "longer needs a longer timeout",
        )

    def differ(self) -> DistributedError:
        """The error of a call that other ranks take for another one; they notice, too,
        and ask."""
        return self._error(
            "meets another call", "ranks make the same calls in the same order"
        )

    def _error(self, what: str, hint: str) -> DistributedError:
        """An error of this call, with where the other ranks say that they are."""
        others = [k for k in range(self._comm.size) if k != self._comm.rank]
        for k in others:
            self._tell(k, _ASKS)
        end = time.monotonic() + _ANSWERS
        while time.monotonic() < end and len(self._heard) < len(others):
            self.answer()
            time.sleep(0.01)
        missing = [k for k in others if k not in self._heard]
        elsewhere = [
            f"rank {k} is in {call['name']} (call {call['number']}), {call['where']}"
            for k, call in sorted(self._heard.items())
            if (call["number"], call["name"]) != (self._number, self._name)
        ]
        silent = [_ranks(missing)] if missing else []
        where = "; ".join([*silent, *elsewhere]) or "all ranks wait here"
        return DistributedError(
            f"{self._name} (call {self._number}) {what}: {where}", hint=hint
        ).located(self._name, where=describe(self._origin))


def _ranks(missing: list[int]) -> str:
    if len(missing) == 1:
        return f"rank {missing[0]} has not come"
    return f"ranks {', '.join(map(str, missing))} have not come"
