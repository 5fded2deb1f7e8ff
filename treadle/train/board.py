"""The callback that logs a training for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.io.files import PathLike
from treadle.io.tensorboard import EventWriter
from treadle.train.callback import Callback, Logs

_VALIDATION = "val_"


class TensorBoard(Callback):
    """Logs a training for `tensorboard --logdir FOLDER`, which need not be installed.

    After each epoch its losses and metrics go to the runs "train" and "validation" of
    the folder, with `every` the loss of each so many steps to "train", and with
    `histograms` every so many epochs how the values of each parameter are spread. All
    are drawn over the number of steps made. A training that goes on from a snapshot
    takes back what was logged after that.

    `hparams` are the hyperparameters of the run (numbers, strings, bools), for
    TensorBoard's table of runs by their losses and metrics.

    >>> TensorBoard("runs/first", every=10).every
    10
    """

    writes = True

    def __init__(
        self,
        folder: PathLike,
        every: int | None = None,
        histograms: int = 0,
        hparams: Mapping[str, Any] | None = None,
    ) -> None:
        if (every is not None and every < 1) or histograms < 0:
            raise ArgumentError(
                "every is a number of steps, histograms one of epochs or 0, not "
                f"{every} and {histograms}"
            )
        self.folder, self.every, self.histograms = Path(folder), every, histograms
        self.hparams = hparams
        self._logs: dict[str, EventWriter] = {}
        self._resumed: int | None = None  # the steps made before, by a snapshot

    def on_train_begin(self) -> None:
        self._resumed = None
        if self.hparams is not None:
            names = ["loss", *(metric.name for metric in self.model.metrics)]
            runs = ["train"] + ["validation"] * (self.fit.validation is not None)
            metrics = [f"{run}:{name}" for run in runs for name in names]
            self._log("").hparams(self.hparams, metrics)

    def on_train_end(self) -> None:
        if self.hparams is not None:
            self._log("").end_hparams()

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if self.every is not None and self.fit.steps % self.every == 0:
            loss = logs["batch_loss"]
            self._log("train").scalar("batch_loss", loss, self.fit.steps)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        step = self.fit.steps
        for name, value in logs.items():
            run = "validation" if name.startswith(_VALIDATION) else "train"
            self._log(run).scalar(name.removeprefix(_VALIDATION), value, step)
        if self.histograms and (epoch + 1) % self.histograms == 0:
            for name, parameter in self.model.module.named_parameters():
                tag = name.replace(".", "/")
                self._log("train").histogram(tag, parameter.numpy(), step)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs = {}

    def state(self) -> dict[str, Any]:
        return {"steps": self.fit.steps}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._resumed = int(state["steps"])

    def _log(self, run: str) -> EventWriter:
        """The log of a run, begun when there is something for it."""
        if run not in self._logs:
            self._logs[run] = EventWriter(self.folder / run)
            if self._resumed is not None:
                self._logs[run].restart(self._resumed + 1)
        return self._logs[run]
