"""A training as a page: its network, its curves, its epochs, what it confuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.notebook import table
from treadle.io.atomic import write_atomically
from treadle.io.files import PathLike
from treadle.train.callback import VALIDATION, Callback, History, Logs
from treadle.train.confusion import Confusion, confusion_matrix
from treadle.viz.page import Page, filled, library


def report_page(
    model: Any, history: History, confusion: Confusion | None, title: str
) -> Page:
    """The page of a Model and the logs of its epochs."""
    rows = history.rows()
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
        head = ["epoch", *history.history]
        cells = [
            [
                f"{row['epoch'] + 1:.0f}",
                *(f"{row.get(n, math.nan):.5g}" for n in head[1:]),
            ]
            for row in rows
        ]
        parts.append(f"<h2>Epochs</h2>{table(cells, head, right=range(len(head)))}")
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
