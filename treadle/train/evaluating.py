"""Evaluation: the loss and the metrics of a Model over batches, by one rank or more."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from treadle.distributed.parallel import DataParallel
from treadle.graph.frame import no_grad
from treadle.train.batches import Batch, Batches, size_of
from treadle.train.metrics import Mean
from treadle.train.tally import Tally

if TYPE_CHECKING:
    from treadle.train.model import Model


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
