"""Callbacks: what is told how a training goes, may steer it, and what it keeps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.errors import ArgumentError, ModelFileError, RunError
from treadle.base.notebook import table
from treadle.io.checkpoint import load_checkpoint
from treadle.io.files import PathLike, guarded, write_atomically
from treadle.optim.average import WeightAverage
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

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The head and the rows of a table of the epochs."""
        head = ["epoch", *self.history]
        return head, [
            [str(row["epoch"] + 1), *(f"{row.get(n, math.nan):.5g}" for n in head[1:])]
            for row in self.rows()
        ]

    def _repr_html_(self) -> str:
        head, rows = self.cells()
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


class BackupAndRestore(Callback):
    """Snapshots from which fit goes on bit for bit, after a kill at any moment.

    One is written after each epoch, and within it every so many steps or `seconds`:
    parameters, optimizer, place in the data, draws, what callbacks remember, logs. A
    later fit with the same folder, model and data goes on from the newest; one that
    is complete returns its history at once.
    """

    last = True

    def __init__(
        self, folder: PathLike, every: int | None = None, seconds: float | None = None
    ) -> None:
        if every is not None and every < 1:
            raise ArgumentError(f"every is a number of steps, not {every}")
        self.folder, self.every, self.seconds = Path(folder), every, seconds
        self._saved_step = -1
        self._saved_at = time.monotonic()

    def on_train_begin(self) -> None:
        self._saved_step, self._saved_at = -1, time.monotonic()
        point = load_checkpoint(self.folder)
        if point is not None:
            self.fit.restore(self.folder, point)
            self._saved_step = self.fit.steps

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if self.every is None and self.seconds is None:
            return
        due = self.every is not None and self.fit.steps % self.every == 0
        if self.seconds is not None:
            due = due or time.monotonic() - self._saved_at > self.seconds
        if self.fit.agrees(due):
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self._save()

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        # At the end of an epoch that was just saved: validation is made again then.
        if self.fit.steps > self._saved_step:
            self.fit.save(self.folder)
            self._saved_step = self.fit.steps


class LearningRateScheduler(Callback):
    """Sets the rate before each epoch to schedule(epoch, rate).

    >>> LearningRateScheduler(lambda epoch, lr: lr * 0.5).schedule(0, 1.0)
    0.5
    """

    def __init__(self, schedule: Callable[[int, float], float]) -> None:
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int) -> None:
        for group in self.model.optimizer.groups:
            if group.own_rate is None:
                raise ArgumentError("a rate is set by epoch or is a schedule, not both")
            group.lr = float(self.schedule(epoch, float(group.lr)))

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        logs["lr"] = self.model.optimizer.lr


class CSVLogger(Callback):
    """Writes the logs of all epochs so far as a table, whole after each epoch.

    >>> CSVLogger("log.csv").separator
    ','
    """

    writes = True

    def __init__(self, path: PathLike, separator: str = ",") -> None:
        self.path, self.separator = Path(path), separator

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        # This epoch is taken into the history when all callbacks have added their logs.
        rows = [*self.fit.history.rows(), {"epoch": epoch, **logs}]
        names = list(dict.fromkeys(name for row in rows for name in row))
        lines = [
            names,
            *([repr(row[n]) if n in row else "" for n in names] for row in rows),
        ]
        text = "".join(self.separator.join(line) + "\n" for line in lines)
        with guarded(self.path, ModelFileError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, text.encode())


class TerminateOnNaN(Callback):
    """Ends the training at a loss that is not finite."""

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if not math.isfinite(logs["batch_loss"]):
            self.model.stop_training = True


class ThrowOnDivergence(Callback):
    """A guard against divergence (Marian's --throw-on-divergence).

    Raises RunError when the mean loss of the last `short` steps is more than
    `deviations` standard deviations above that of the last `window`.

    >>> ThrowOnDivergence(1000, 10, 5.0).window
    1000
    """

    def __init__(
        self, window: int = 1000, short: int = 10, deviations: float = 5.0
    ) -> None:
        if not 1 <= short < window:
            raise ArgumentError(f"{short} steps are compared to {window}: take fewer")
        self.window, self.short, self.deviations = window, short, deviations
        self.losses: list[float] = []

    def on_train_begin(self) -> None:
        self.losses = []

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        self.losses = [*self.losses[-(self.window - 1) :], logs["batch_loss"]]
        if len(self.losses) < self.window:
            return
        now = float(np.mean(self.losses[-self.short :]))
        usual, spread = float(np.mean(self.losses)), float(np.std(self.losses))
        if not now <= usual + self.deviations * spread:
            raise RunError(
                f"the loss diverges: {now:.4g} over {self.short} steps, {usual:.4g} "
                f"over {self.window}",
                hint="try a smaller rate or a longer warm-up",
            )

    def state(self) -> dict[str, Any]:
        return {"losses": np.array(self.losses, np.float64)}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.losses = state["losses"].tolist()


class SwapAverages(Callback):
    """Takes averages of the weights every `every` steps; validation uses them, and with
    `keep` the model has them in the end.

    >>> w = td.param("w", init=1.0)
    >>> SwapAverages(td.optim.ExponentialAverage([w]), keep=False).every
    1
    """

    def __init__(
        self, average: WeightAverage, every: int = 1, keep: bool = True
    ) -> None:
        self.average, self.every, self.keep = average, every, keep

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if self.fit.steps % self.every == 0:
            self.average.update()

    def on_test_begin(self) -> None:
        self._swap()

    def on_test_end(self, logs: Logs) -> None:
        self._swap()

    def on_train_end(self) -> None:
        if self.keep:
            self._swap()

    def _swap(self) -> None:
        if int(self.average.count):
            self.average.swap()

    def state(self) -> dict[str, Any]:
        return self.average.state_dict()

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.average.load_state_dict(state)
