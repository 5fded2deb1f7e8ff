"""Tally: sums of metrics over the batches of all ranks, in the order of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from treadle.base.arrays import Array
from treadle.distributed.communicator import Communicator
from treadle.train.metrics import Metric


class Tally:
    """The sums of metrics over batches that ranks share out: each batch is summed by
    itself, and these sums are added in the order of the batches' numbers, so that every
    number of ranks comes to the bits of one.

    >>> from treadle.distributed.communicator import Alone
    >>> from treadle.train.metrics import Mean
    >>> mean = Mean("loss")
    >>> tally = Tally([mean])
    >>> for number, loss in enumerate([1.0, 3.0]):
    ...     with tally.batch(number):
    ...         mean.add(loss)
    >>> tally.gather(Alone()); mean.result()
    2.0
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = list(metrics)
        self._rows: list[Array] = []  # a batch's number, and its sums
        self._total = self._sums()
        self._here = self._total  # with this rank's batches, as far as it knows

    def _sums(self) -> Array:
        sums = [np.asarray(m.sums, np.float64).reshape(-1) for m in self.metrics]
        return np.concatenate(sums)

    def _put(self, sums: Array) -> None:
        """Have the metrics hold these sums."""
        for metric in self.metrics:
            part, sums = np.split(sums, [metric.sums.size])
            metric.sums = part.reshape(metric.sums.shape).copy()

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """A block in which the metrics take in the batch of this number."""
        self._put(np.zeros_like(self._total))
        try:
            yield
            sums = self._sums()
            self._rows.append(np.concatenate([[float(number)], sums]))
            self._here = self._here + sums
        finally:
            self._put(self._here)

    def gather(self, communicator: Communicator) -> None:
        """Have the metrics hold the sums over the batches of all ranks; all call it."""
        width = 1 + self._total.size
        parts = communicator.messages(b"".join(row.tobytes() for row in self._rows))
        every = np.frombuffer(b"".join(parts)).reshape(-1, width)
        for row in every[np.argsort(every[:, 0], kind="stable")]:
            self._total = self._total + row[1:]
        self._rows, self._here = [], self._total
        self._put(self._total)

    def begin(self) -> None:
        """Begin anew from what the metrics hold, on all ranks the same."""
        self._rows = []
        self._total = self._here = self._sums()
