"""Fit: epochs and steps of a Model, with callbacks, validation and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base import trees
from treadle.base.errors import ArgumentError, ModelFileError
from treadle.distributed.parallel import DataParallel
from treadle.io.checkpoint import Checkpoint
from treadle.train.batches import Batch, Batches, by_class, size_of
from treadle.train.callbacks import Callback, History, Logs
from treadle.train.evaluating import Tally
from treadle.train.metrics import Mean
from treadle.train.snapshot import restore_snapshot, save_snapshot

if TYPE_CHECKING:
    from treadle.train.model import Model

Validation = Callable[[], Logs]


class Fit:
    """One training of a Model: where it stands, and what it tells its callbacks."""

    def __init__(
        self,
        model: Model,
        batches: Batches,
        epochs: int,
        steps_per_epoch: int | None,
        validation: Validation | None,
        validation_freq: int,
        callbacks: Sequence[Callback],
        split: int,
        flush: bool = False,
        class_weight: Mapping[int, float] | None = None,
    ) -> None:
        self.model, self.batches, self.epochs = model, batches, epochs
        self.validation, self.validation_freq = validation, validation_freq
        self.split, self.flush, self.class_weight = split, flush, class_weight
        optimizer = model.optimizer
        self.parallel = optimizer if isinstance(optimizer, DataParallel) else None
        self.ranks = self.parallel.communicator.size if self.parallel else 1
        self.steps_per_epoch = self._share_of(steps_per_epoch)
        self.history = History()
        self.callbacks = sorted(callbacks, key=lambda c: c.last)
        self.epoch = self.position = self.steps = 0
        self.loss = Mean("loss")
        self.tally = Tally([self.loss, *model.metrics]) if self.parallel else None
        for callback in [*self.callbacks, self.history]:
            callback.fit = self
        first = self.parallel is None or self.parallel.communicator.rank == 0
        self._called = [c for c in self.callbacks if first or not c.writes]
        self._batch_begin = self._overriding("on_batch_begin")
        self._batch_end = self._overriding("on_batch_end")

    def _share_of(self, steps: int | None) -> int | None:
        """This rank's part of the batches of an epoch, which are whole updates: then
        every number of ranks takes the same ones."""
        if steps is None or self.parallel is None:
            return steps
        shards = self.parallel.shards
        if steps % shards:
            raise ArgumentError(
                f"an epoch of {steps} batches is no whole number of updates, each of "
                f"which has {shards}, one a shard",
                hint="steps_per_epoch counts the batches of all ranks",
            )
        return steps // self.ranks

    def _overriding(self, hook: str) -> list[Any]:
        """The callbacks' methods of that name that do something."""
        methods = [getattr(callback, hook) for callback in self._called]
        silent = getattr(Callback, hook)
        return [f for f in methods if getattr(f, "__func__", f) is not silent]

    @property
    def steps_in_epoch(self) -> int | None:
        """The batches of an epoch, if that is known."""
        return self.steps_per_epoch or self.batches.count

    def run(self) -> History:
        """Train to the last epoch, or until a callback ends it."""
        self.model.stop_training = False
        try:
            for callback in self._called:
                callback.on_train_begin()
            while self.epoch < self.epochs and not self.model.stop_training:
                self._one_epoch()
            for callback in self._called:
                callback.on_train_end()
        finally:
            for callback in self._called:
                callback.close()
        return self.history

    def _one_epoch(self) -> None:
        model, epoch = self.model, self.epoch
        if self.position == 0:
            self.loss.reset()
            for metric in model.metrics:
                metric.reset()
            if self.tally is not None:
                self.tally.begin()
            for callback in self._called:
                callback.on_epoch_begin(epoch)
        model.module.train()
        self._batches_of_epoch()
        if not self.position:
            raise ArgumentError(
                "an epoch has no batch",
                hint="a generator makes batches once: give steps_per_epoch or a list",
            )
        if self.flush:
            model.optimizer.flush()
        elif self.parallel is not None:
            self.parallel.join()
        self._gather()
        logs = self._results()
        if self.validation is not None and (epoch + 1) % self.validation_freq == 0:
            logs |= self._validated()
        self.epoch, self.position = epoch + 1, 0
        for callback in self._called:
            if callback.last and len(self.history.epoch) <= epoch:
                self.history.take(epoch, logs)
            callback.on_epoch_end(epoch, logs)
        if len(self.history.epoch) <= epoch:
            self.history.take(epoch, logs)

    def _batches_of_epoch(self) -> None:
        loader, counted = self.batches.loader, self.steps_per_epoch is not None
        if loader and self.position and not counted and loader.position == len(loader):
            return  # restored behind the epoch's last batch
        before = -1
        while self._left() != 0 and not self.model.stop_training:
            if self.position == before:  # an epoch of the loader had no batch
                return
            before = self.position
            for batch in self.batches.epoch(before):
                self._batch(batch)
                if self._left() == 0 or self.model.stop_training:
                    return
            if loader is None or not counted:
                return

    def _left(self) -> int | None:
        """The batches still to take in this epoch, where their number was given."""
        steps = self.steps_per_epoch
        return None if steps is None else steps - self.position

    def _batch(self, batch: Batch) -> None:
        for begin in self._batch_begin:
            begin(self.position)
        parts = [batch] if self.split == 1 else list(_parts(batch, self.split))
        for part in parts:
            number = self.parallel.number if self.parallel else 0
            value, prediction = self.model.step(by_class(part, self.class_weight))
            with self.tally.batch(number) if self.tally else nullcontext():
                self.loss.add(value, size_of(part))
                for metric in self.model.metrics:
                    metric.update(part[1], prediction, part[2])
        self.position += 1
        self.steps += 1
        if self._batch_end:
            logs = {"batch_loss": float(value), **self._results()}
            for end in self._batch_end:
                end(self.position - 1, logs)

    def _gather(self) -> None:
        """Have the sums of an epoch so far be those of all ranks."""
        if self.parallel is not None and self.tally is not None:
            self.tally.gather(self.parallel.communicator)

    def _results(self) -> Logs:
        results = {"loss": self.loss.result()}
        for metric in self.model.metrics:
            results[metric.name] = metric.result()
        return results

    def _validated(self) -> Logs:
        assert self.validation is not None
        # The metrics' sums of the epoch are read already: validation takes them over.
        for callback in self._called:
            callback.on_test_begin()
        logs = {f"val_{name}": value for name, value in self.validation().items()}
        for callback in self._called:
            callback.on_test_end(logs)
        return logs

    # -- snapshots -----------------------------------------------------------------

    def agrees(self, due: bool) -> bool:
        """Whether a snapshot is due, as rank 0 decides; never within an update."""
        if self.parallel is None:
            return due
        flag = np.array([due and not self.parallel.waits])
        return bool(self.parallel.communicator.broadcast(flag, 0)[0])

    def save(self, folder: Path) -> None:
        """Write a snapshot of everything the next step depends on; all ranks do."""
        self._gather()
        history: dict[str, np.ndarray[Any, Any]] = {"loss": self.loss.sums}
        for k, metric in enumerate(self.model.metrics):
            history[f"metric.{k}"] = metric.sums
        for k, callback in enumerate([self.history, *self.callbacks]):
            for name, value in callback.state().items():
                history[f"callback.{k}.{name}"] = np.asarray(value)
        facts = {  # counts are those of all ranks, which may be others later on
            "epoch": self.epoch,
            "position": self.position * self.ranks,
            "callbacks": [type(c).__name__ for c in self.callbacks],
            "stopped": self.model.stop_training,
        }
        save_snapshot(
            folder,
            self.steps * self.ranks,
            self.model.module,
            self.model.optimizer,
            self.batches.loader,
            history,
            facts,
        )

    def restore(self, folder: Path, point: Checkpoint) -> None:
        """Stand where a snapshot was taken; ModelFileError if it does not fit."""
        place, facts = folder / f"step-{point.step}", point.facts
        names = [type(c).__name__ for c in self.callbacks]
        if facts.get("callbacks") != names:
            raise ModelFileError(
                f"{place}: the callbacks were {facts.get('callbacks')}, not {names}"
            )
        epoch, position = facts.get("epoch"), facts.get("position")
        if not isinstance(epoch, int) or not isinstance(position, int):
            raise ModelFileError(f"{place}: the place in the training is missing")
        history = restore_snapshot(
            folder, point, self.model.module, self.model.optimizer, self.batches.loader
        )
        try:
            self.loss.sums = np.array(history["loss"], np.float64)
            for k, metric in enumerate(self.model.metrics):
                metric.sums = np.array(history[f"metric.{k}"], np.float64)
            for k, callback in enumerate([self.history, *self.callbacks]):
                prefix = f"callback.{k}."
                callback.restore(
                    {n.removeprefix(prefix): a for n, a in history.items()
                     if n.startswith(prefix)}
                )  # fmt: skip
        except KeyError as missing:
            raise ModelFileError(f"{place}: there is no {missing}") from missing
        if self.tally is not None:
            self.tally.begin()
        self.epoch, self.position = epoch, position // self.ranks
        self.steps = point.step // self.ranks
        self.model.stop_training = bool(facts.get("stopped"))


def _parts(batch: Batch, count: int) -> list[Batch]:
    """A batch as up to `count` batches of its examples in order."""
    leaves, structure = trees.flatten(batch)
    cuts = np.array_split(np.arange(size_of(batch)), count)
    return [
        trees.unflatten(structure, [leaf[c[0] : c[-1] + 1] for leaf in leaves])
        for c in cuts
        if len(c)
    ]
