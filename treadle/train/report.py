"""Callbacks that show a training: for TensorBoard, and as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.notebook import table
from treadle.io.files import PathLike, write_atomically
from treadle.io.tensorboard import EventWriter
from treadle.train.callbacks import VALIDATION, Callback, History, Logs
from treadle.train.metrics import Confusion, confusion_matrix
from treadle.viz.page import Page, filled, library


def report_page(
    model: Any, history: History, confusion: Confusion | None, title: str
) -> Page:
    """The page of a Model and the logs of its epochs."""
    head, rows = history.cells()
    parts = [f"<p>{escape(repr(model))}</p>"]
    if rows:
        parts.append(_best(history))
        figures = "".join(f"<figure>{svg}</figure>" for svg in history.curves())
        parts.append(f"<h2>Learning curves</h2><div class='curves'>{figures}</div>")
    if confusion is not None:
        total = int(confusion.counts.sum())
        parts.append(f"<h2>Confusion of {total:,} examples</h2>")
        parts.append(confusion._repr_html_())
    parts.append(f"<h2>Network</h2>{model.summary()._repr_html_()}")
    if rows:
        parts.append(f"<h2>Epochs</h2>{table(rows, head, right=range(len(head)))}")
    style = library("page.css") + library("report.css")
    name, body = escape(title), "\n".join(parts)
    return Page(filled("report.html", title=name, style=style, body=body), height=900)


def _best(history: History) -> str:
    """The best epoch by the loss of the validation or, without one, of the training."""
    name = VALIDATION + "loss" if VALIDATION + "loss" in history.history else "loss"
    values = np.array(history.history.get(name, []), np.float64)
    if not np.isfinite(values).any():
        return "<p>No loss is finite.</p>"
    best = int(np.nanargmin(np.where(np.isfinite(values), values, math.nan)))
    return (
        f"<p>{len(history.epoch):,} epochs; the least {escape(name)}, "
        f"<b>{values[best]:.5g}</b>, after epoch {history.epoch[best] + 1}.</p>"
    )


class Report(Callback):
    """Writes a training's page after each epoch: curves, epochs, the network; at the
    end also what is confused in `examples` (inputs, classes), by the names `classes`.

    >>> Report("report.html").path.name
    'report.html'
    """

    last = True
    writes = True

    def __init__(
        self,
        path: PathLike,
        examples: tuple[Any, Any] | None = None,
        classes: Sequence[str] | None = None,
        title: str = "Training",
    ) -> None:
        self.path, self.examples = Path(path), examples
        self.classes, self.title = classes, title

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self._write(None)

    def on_train_end(self) -> None:
        if self.examples is not None:
            self._write(confusion_of(self.model, *self.examples, self.classes))

    def _write(self, confusion: Confusion | None) -> None:
        page = report_page(self.model, self.fit.history, confusion, self.title)
        write_atomically(self.path, page.html.encode())


def confusion_of(
    model: Any, x: Any, y: Any, classes: Sequence[str] | None = None
) -> Confusion:
    """The confusion matrix of a Model on examples."""
    count = None if classes is None else len(classes)
    return Confusion(confusion_matrix(y, model.predict(x), count), classes)


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
            run = "validation" if name.startswith(VALIDATION) else "train"
            self._log(run).scalar(name.removeprefix(VALIDATION), value, step)
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
