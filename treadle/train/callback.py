"""Callback: what is told how a training goes, and may steer it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.notebook import table
from treadle.viz.curve import curve_svg

if TYPE_CHECKING:
    from treadle.train.fitting import Fit

Logs = dict[str, float]
VALIDATION = "val_"
SHOWN = 20  # epochs in a notebook's table


class Callback:
    """Override what you want to hear of; `self.fit` is the training, `self.model` the
    Model. Setting `self.model.stop_training` ends it after the batch.

    `state` and `restore` carry what a callback remembers through a snapshot.
    """

    fit: Fit
    last = False  # whether it is called after those that are not
    writes = False  # whether it writes files: of several ranks the first is told alone

    @property
    def model(self) -> Any:
        """The Model that is trained."""
        return self.fit.model

    def on_train_begin(self) -> None:
        """Before the first epoch."""

    def on_train_end(self) -> None:
        """After the last epoch."""

    def close(self) -> None:
        """After the training, also where an error ended it."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Before an epoch, numbered from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """After an epoch and its validation; what is put into `logs` is kept."""

    def on_batch_begin(self, batch: int) -> None:
        """Before a batch, numbered from 0 in its epoch."""

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        """After the step of a batch, with its loss and the epoch's means so far."""

    def on_test_begin(self) -> None:
        """Before the validation of an epoch."""

    def on_test_end(self, logs: Logs) -> None:
        """After the validation of an epoch, with its logs."""

    def state(self) -> dict[str, Any]:
        """Numbers and arrays that `restore` goes on from."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore what `state` returned, as arrays."""


class LambdaCallback(Callback):
    """A callback made of functions: LambdaCallback(on_epoch_end=print).

    >>> LambdaCallback(on_epoch_begin=print).on_epoch_begin(3)
    3
    """

    def __init__(
        self,
        on_train_begin: Callable[[], Any] | None = None,
        on_train_end: Callable[[], Any] | None = None,
        on_epoch_begin: Callable[[int], Any] | None = None,
        on_epoch_end: Callable[[int, Logs], Any] | None = None,
        on_batch_begin: Callable[[int], Any] | None = None,
        on_batch_end: Callable[[int, Logs], Any] | None = None,
        on_test_begin: Callable[[], Any] | None = None,
        on_test_end: Callable[[Logs], Any] | None = None,
    ) -> None:
        hooks = dict(locals())
        for name in hooks:
            if name.startswith("on_") and hooks[name] is not None:
                setattr(self, name, hooks[name])


class History(Callback):
    """The logs of each epoch: name -> values.

    >>> history = History()
    >>> history.take(0, {"loss": 2.0}); history.take(1, {"loss": 1.0})
    >>> history.epoch, history.history
    ([0, 1], {'loss': [2.0, 1.0]})
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def __getitem__(self, name: str) -> list[float]:
        if not isinstance(name, str):
            raise ArgumentError(f"logs are known by their names, not {name!r}")
        return self.history[name]

    def take(self, epoch: int, logs: Logs) -> None:
        """Keep the logs of one epoch."""
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))

    def curves(self) -> list[str]:
        """A picture of each number over the epochs, with that of the validation."""
        curves = []
        for name, values in self.history.items():
            if name.removeprefix(VALIDATION) in self.history and name[:4] == VALIDATION:
                continue
            series = {name: values}
            if VALIDATION + name in self.history:
                series[VALIDATION + name] = self.history[VALIDATION + name]
            curves.append(curve_svg(series, name, x_label="epoch"))
        return curves

    def _repr_html_(self) -> str:
        head = ["epoch", *self.history]
        rows = [
            [str(row["epoch"] + 1), *(f"{row.get(n, math.nan):.5g}" for n in head[1:])]
            for row in self.rows()
        ]
        shown = (
            rows if len(rows) <= SHOWN else [*rows[: SHOWN - 5], ["..."], *rows[-5:]]
        )
        curves = "".join(self.curves()) if len(rows) > 1 else ""
        return curves + table(shown, head, right=range(len(head)))

    def rows(self) -> list[Logs]:
        """The logs of each epoch, with its number."""
        rows: list[Logs] = []
        for k, epoch in enumerate(self.epoch):
            logs = {n: v[k] for n, v in self.history.items() if len(v) > k}
            rows.append({"epoch": epoch, **logs})
        return rows

    def state(self) -> dict[str, Any]:
        # Files keep names in order of the alphabet: the place says which came first.
        logs = {
            f"log {k:03d} {name}": values
            for k, (name, values) in enumerate(self.history.items())
        }
        return {"epochs": np.array(self.epoch, np.int64), **logs}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.epoch = state["epochs"].tolist()
        self.history = {
            name.split(" ", 2)[2]: values.astype(np.float64).tolist()
            for name, values in sorted(state.items())
            if name.startswith("log ")
        }
