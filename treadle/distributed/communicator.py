"""Communicator: what the ranks of one program say to each other, as NumPy arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError, RunError
from treadle.distributed.channel import Channel
from treadle.graph.origin import Origin

# Of gradients while others are made, and of the collectives in graphs.
CHANNELS = ("treadle-exchange", "treadle-collectives")


class DistributedError(RunError):
    """Ranks that did not come, or that do not agree."""


class Communicator:
    """The ranks of one program, 0 to size - 1, of which this process is `rank`.

    Every method but `send` and `receive` is a collective: all ranks call it, in the
    same order, with arrays of the same shape and dtype. Results are arrays of the
    caller's own.
    """

    rank: int = 0
    size: int = 1
    timeout: float = 60.0
    origin: Origin = (None, 0)  # the line that errors name, for calls of no line

    def all_gather(self, x: Array) -> Array:
        """The arrays of all ranks: [size, *x.shape], by rank."""
        raise NotImplementedError

    def all_to_all(self, x: Array) -> Array:
        """x[k] goes to rank k; row r of the result is what rank r has sent here."""
        raise NotImplementedError

    def trade(self, outgoing: Sequence[Array], incoming: Sequence[Array]) -> None:
        """outgoing[k] goes to rank k, and incoming[r] is filled with what rank r has
        for this one: parts of arrays in C order, where they are. Those of the rank
        itself are not looked at, and lengths may differ.
        """
        raise NotImplementedError

    def broadcast(self, x: Array, root: int) -> Array:
        """The array of rank `root`, on all ranks."""
        raise NotImplementedError

    def send(self, x: Array, to: int) -> None:
        """Send to one rank, without waiting until it receives."""
        raise NotImplementedError

    def receive(self, like: Array, source: int) -> Array:
        """A received array of the shape and dtype of `like`, sent by a rank."""
        raise NotImplementedError

    def messages(self, message: bytes) -> list[bytes]:
        """The messages of all ranks, of any length, by rank."""
        lengths = self.all_gather(np.array([len(message)], np.int64))[:, 0]
        padded = np.zeros(int(lengths.max()), np.uint8)
        padded[: len(message)] = np.frombuffer(message, np.uint8)
        rows = self.all_gather(padded)
        return [row[:n].tobytes() for row, n in zip(rows, lengths, strict=True)]

    def barrier(self) -> None:
        """Wait until all ranks have come here."""
        self.all_gather(np.zeros(1, np.uint8))

    def name_call(self, name: str, together: bool = False) -> None:
        """Say what the next calls are a part of, for errors that name it. A call that
        all ranks make `together` raises where others are in one of another name."""

    def channel(self, name: str) -> Channel:
        """The same ranks for another thread, one of CHANNELS, whose calls meet none of
        this one's."""
        raise NotImplementedError

    def hurry(self, urgent: bool) -> None:
        """Say whether somebody waits for the calls of another thread: processors are
        left to others where nobody does."""

    def check_rank(self, rank: int, what: str) -> int:
        """The number of a rank; ArgumentError where there is none."""
        if not isinstance(rank, int) or not 0 <= rank < self.size:
            raise ArgumentError(
                f"{what} is a rank from 0 to {self.size - 1}, not {rank!r}"
            )
        return rank


class Alone(Communicator):
    """One rank, without MPI: what it sends, it receives itself.

    >>> Alone().all_gather(np.array([1, 2])).tolist()
    [[1, 2]]
    """

    def __init__(self) -> None:
        self._sent: deque[Array] = deque()

    def all_gather(self, x: Array) -> Array:
        return np.array(x)[None]

    def all_to_all(self, x: Array) -> Array:
        return np.array(x)

    def trade(self, outgoing: Sequence[Array], incoming: Sequence[Array]) -> None:
        pass

    def channel(self, name: str) -> Channel:
        return Channel(Alone(), name)

    def broadcast(self, x: Array, root: int) -> Array:
        return np.array(x)

    def send(self, x: Array, to: int) -> None:
        self._sent.append(np.array(x))

    def receive(self, like: Array, source: int) -> Array:
        if not self._sent:
            raise DistributedError(
                "the only rank receives what it has not sent",
                hint="start more ranks: treadle launch -n 2 program.py",
            )
        return self._sent.popleft()
