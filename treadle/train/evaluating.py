"""Evaluation: the loss and the metrics summed over the batches of all ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from treadle.base.arrays import Array
from treadle.distributed.communicator import Communicator
from treadle.distributed.parallel import DataParallel
from treadle.graph.frame import no_grad
from treadle.train.batches import Batch, Batches, size_of
from treadle.train.metrics import Mean, Metric

if TYPE_CHECKING:
    from treadle.train.model import Model


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


def evaluated(model: Model, batches: Batches, steps: int | None) -> dict[str, float]:
    """The loss and the metrics over all examples; with a DataParallel, each rank
    computes its share of the batches, and all come to the bits of one."""
    mean, before = Mean("loss"), model.module.training
    for each in model.metrics:
        each.reset()

    def take(batch: Batch) -> None:
        prediction, loss = model.loss_of(batch)
        mean.add(float(loss), size_of(batch))
        for each in model.metrics:
            each.update(batch[1], prediction, batch[2])

    model.module.eval()
    try:
        with no_grad():
            if isinstance(model.optimizer, DataParallel):
                parallel = model.optimizer
                tally, comm = Tally([mean, *model.metrics]), parallel.communicator
                share = batches.share(comm.rank, comm.size, steps)
                with parallel.evaluating() as place_draws:
                    for number, batch in share:
                        place_draws(number)
                        with tally.batch(number):
                            take(batch)
                tally.gather(comm)
            else:
                for batch in itertools.islice(batches.epoch(), steps):
                    take(batch)
    finally:
        model.module.train(before)
    logs = {"loss": mean.result()}
    for each in model.metrics:
        logs[each.name] = each.result()
    return logs
