"""Callbacks that watch one number of the logs: whether it still gets better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ModelFileError
from treadle.io.files import PathLike, guarded
from treadle.io.tensors import save_arrays
from treadle.train.callbacks import Callback, Logs

_GREATER = ("accuracy", "f1", "precision", "recall", "auc")


class Monitor(Callback):
    """Watches `monitor`: `best` so far, and `wait`, the epochs since it got better.

    `mode` is "min", "max" or "auto", which takes "max" for accuracies and their like.
    """

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        if mode not in ("auto", "min", "max"):
            raise ArgumentError(f'mode is "auto", "min" or "max", not {mode!r}')
        if mode == "auto":
            mode = "max" if monitor.endswith(_GREATER) else "min"
        self.monitor, self.mode, self.min_delta = monitor, mode, abs(min_delta)
        self.start()

    def start(self) -> None:
        """Forget what was seen."""
        self.best = -math.inf if self.mode == "max" else math.inf
        self.wait = 0

    def on_train_begin(self) -> None:
        self.start()

    def value(self, logs: Logs) -> float:
        """The number that is watched."""
        if self.monitor not in logs:
            raise ArgumentError(
                f"{type(self).__name__} watches {self.monitor!r}, which is not logged",
                hint=f"logged: {', '.join(logs)}; val_... needs validation data",
            )
        return float(logs[self.monitor])

    def better(self, value: float) -> bool:
        """Whether the value is better than the best, which it becomes then."""
        away = value - self.best if self.mode == "max" else self.best - value
        if not away > self.min_delta:
            return False
        self.best = value
        return True

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "wait": self.wait}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.best, self.wait = float(state["best"]), int(state["wait"])


class EarlyStopping(Monitor):
    """Ends the training when `monitor` did not get better for `patience` epochs.

    With `restore_best_weights` the model has then the weights of its best epoch. A
    `baseline` has to be beaten; the first `start_from_epoch` epochs do not count.

    >>> EarlyStopping("val_accuracy", patience=3).mode
    'max'
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        self.baseline, self.patience = baseline, patience
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        super().__init__(monitor, mode, min_delta)

    def start(self) -> None:
        super().start()
        if self.baseline is not None:
            self.best = self.baseline
        self.stopped_epoch: int | None = None
        self.weights: dict[str, np.ndarray[Any, Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if epoch < self.start_from_epoch:
            return
        if self.better(self.value(logs)):
            self.wait = 0
            if self.restore_best_weights:
                self.weights = self.model.module.state_dict()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self) -> None:
        if self.weights:
            self.model.module.load_state_dict(self.weights)

    def state(self) -> dict[str, Any]:
        kept = {f"weights {name}": array for name, array in self.weights.items()}
        return {**super().state(), **kept}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        super().restore(state)
        self.weights = {
            name.removeprefix("weights "): array
            for name, array in state.items()
            if name.startswith("weights ")
        }


class ReduceLROnPlateau(Monitor):
    """Multiplies the rate by `factor` when `monitor` did not get better for `patience`
    epochs; then waits `cooldown` epochs. The rate does not fall below `min_lr`.

    >>> ReduceLROnPlateau(factor=0.5).patience
    10
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if not 0.0 < factor < 1.0:
            raise ArgumentError(f"factor is between 0 and 1, got {factor}")
        self.factor, self.patience = factor, patience
        self.cooldown, self.min_lr = cooldown, min_lr
        super().__init__(monitor, mode, min_delta)

    def start(self) -> None:
        super().start()
        self.rest = 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        logs["lr"] = self.model.optimizer.lr
        if self.rest:
            self.rest -= 1
            self.wait = 0
        if self.better(self.value(logs)):
            self.wait = 0
        elif not self.rest:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce()

    def _reduce(self) -> None:
        optimizer = self.model.optimizer
        for group in optimizer.groups:
            if group.own_rate is None:
                raise ArgumentError("ReduceLROnPlateau sets a rate; this is a schedule")
            group.lr = max(float(group.lr) * self.factor, self.min_lr)
        self.rest, self.wait = self.cooldown, 0

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rest": self.rest}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        super().restore(state)
        self.rest = int(state["rest"])


class ModelCheckpoint(Monitor):
    """Writes the weights after each epoch, or after every so many steps, whole or not
    at all; with `save_best_only` when `monitor` got better.

    The path ends in .safetensors or .npz and may hold {epoch} (from 1), {step} and the
    names of logs. To go on after a crash, see BackupAndRestore.

    >>> ModelCheckpoint("best.npz", save_best_only=True).monitor
    'val_loss'
    """

    writes = True

    def __init__(
        self,
        path: PathLike,
        monitor: str = "val_loss",
        save_best_only: bool = False,
        mode: str = "auto",
        every: int | str = "epoch",
    ) -> None:
        if every != "epoch" and (not isinstance(every, int) or every < 1):
            raise ArgumentError(f'every is "epoch" or a number of steps, not {every!r}')
        self.path, self.save_best_only, self.every = path, save_best_only, every
        super().__init__(monitor, mode, 0.0)

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if isinstance(self.every, int) and self.fit.steps % self.every == 0:
            self._consider(self.fit.epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.every == "epoch":
            self._consider(epoch, logs)

    def _consider(self, epoch: int, logs: Logs) -> None:
        if self.save_best_only and not self.better(self.value(logs)):
            return
        try:
            path = str(self.path).format(
                **{"epoch": epoch + 1, "step": self.fit.steps, **logs}
            )
        except (KeyError, IndexError) as missing:
            raise ArgumentError(
                f"{self.path} names {missing}, which is not logged",
                hint=f"logged: {', '.join(['epoch', 'step', *logs])}",
            ) from missing
        with guarded(Path(path).parent, ModelFileError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, self.model.module.state_dict())
