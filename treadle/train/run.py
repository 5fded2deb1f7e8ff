"""A training run and its settings: steps, accuracy, snapshots to go on from."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ModelFileError, OptionError, RunError
from treadle.base.options import options
from treadle.data.dataset import ArrayDataset, Images
from treadle.data.loader import Loader
from treadle.distributed.communicator import Communicator
from treadle.distributed.fixed import all_reduce
from treadle.distributed.parallel import DataParallel
from treadle.distributed.world import world
from treadle.graph.frame import no_grad
from treadle.io.checkpoint import Checkpoint, load_checkpoint
from treadle.io.files import guarded, write_atomically
from treadle.io.tensors import save_arrays
from treadle.nn.functional import cross_entropy
from treadle.nn.module import Module
from treadle.ops.create import constant
from treadle.train.networks import network, optimizer
from treadle.train.snapshot import CHECKPOINTS, restore_snapshot, save_snapshot
from treadle.viz.curve import curve_svg


@dataclass(frozen=True)
class Settings:
    """The options of `treadle train`; `lr` None is the optimizer's usual rate.

    The `batch` images of a step are `shards` parts, which ranks share out.

    >>> Settings().changed(epochs=3, network=None).epochs
    3
    """

    data: str = "digits"
    data_dir: str | None = None
    network: str = "lenet"
    optimizer: str = "adam"
    lr: float | None = None
    epochs: int = 15
    batch: int = 32
    shards: int = 1
    seed: int = 0
    engine: str = "auto"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "shards"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name} is at least 1")
        if self.batch % self.shards:
            raise OptionError(
                f"--batch {self.batch} is not a multiple of {self.shards} shards"
            )
        if not 0 <= self.seed < 2**63:
            raise OptionError("--seed is a whole number from 0, below 2**63")
        if self.lr is not None and not (math.isfinite(self.lr) and self.lr > 0):
            raise OptionError(f"--lr is a positive number, not {self.lr}")

    def changed(self, **changes: Any) -> Settings:
        """These settings with those changes that are not None."""
        chosen = {name: value for name, value in changes.items() if value is not None}
        return Settings(**{**asdict(self), **chosen})

    def resumed(self, **changes: Any) -> Settings:
        """The settings a run goes on with: what decides its bits may not change."""
        for name in ("data", "network", "optimizer", "lr", "batch", "shards", "seed"):
            value, had = changes.get(name), getattr(self, name)
            if value is not None and value != had:
                raise OptionError(
                    f"the run has --{name} {had}; it cannot become {value}"
                )
        return self.changed(**changes)

    def facts(self) -> dict[str, Any]:
        """The settings as JSON can say them."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Any, place: str) -> Settings:
        """The settings that `facts` gave; ModelFileError names `place` otherwise."""
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int,),
            "str": (str,),
            "str | None": (str, type(None)),
            "float | None": (float, type(None)),
        }
        expected = {f.name: kinds[str(f.type)] for f in fields(cls)}
        if not isinstance(facts, Mapping) or set(facts) != set(expected):
            raise ModelFileError(f"{place}: the run's settings are not complete")
        for name, types in expected.items():
            if not isinstance(facts[name], types) or isinstance(facts[name], bool):
                raise ModelFileError(f"{place}: {name} cannot be {facts[name]!r}")
        return cls(**facts)


_EVERY = 20.0  # seconds between snapshots within an epoch
_AT_ONCE = 250  # held-out images

Batch = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


@dataclass(frozen=True)
class TrainingStep:
    """One step that was made: where it stands, its loss, its images and seconds."""

    epoch: int
    number: int
    of: int
    loss: float
    images: int
    seconds: float


def accuracy(model: Module, data: ArrayDataset, comm: Communicator) -> float:
    """The share of examples whose label has the greatest output, without dropout; each
    rank looks at some of them."""
    right, share = 0, slice(comm.rank, None, comm.size)
    model.eval()
    with no_grad():
        for begin in range(0, len(data), _AT_ONCE)[share]:
            x, y = data[begin : begin + _AT_ONCE]
            right += int((model(constant(x)).numpy().argmax(1) == y).sum())
    model.train()
    return int(all_reduce(comm, np.array(right))) / len(data)


def saved_run(folder: Path) -> tuple[Checkpoint, Settings]:
    """The newest snapshot of the run in a folder, and what the run was asked for."""
    point = load_checkpoint(folder / CHECKPOINTS)
    if point is None:
        raise ModelFileError(f"{folder}: there is no run to resume")
    place = os.fspath(folder / CHECKPOINTS / f"step-{point.step}")
    return point, Settings.from_facts(point.facts.get("settings"), place)


@contextmanager
def training(
    settings: Settings, images: Images, folder: Path, point: Checkpoint | None = None
) -> Iterator[TrainingRun]:
    """A run under its engine and seed: new, or going on from a snapshot."""
    with options(engine=settings.engine, seed=settings.seed):
        run = TrainingRun(settings, images, folder)
        if point is not None:
            run.restore(point)
        yield run


class TrainingRun:
    """A network, its optimizer and its place in the data, kept in a folder.

    Ranks share out the shards of each step, if there are some; all of them make the
    same steps, and rank 0 writes the model.
    """

    def __init__(self, settings: Settings, images: Images, folder: Path) -> None:
        self.settings = settings
        self.images = images
        self.folder = folder
        self.losses: list[float] = []
        self.accuracies: list[float] = []
        self.saved_step: int | None = None
        self._saved_at = time.monotonic()
        self.model = network(settings.network, images.shape, images.classes)
        inner, shards = optimizer(settings.optimizer, settings.lr), settings.shards
        self.comm = world()
        self.optimizer = (
            DataParallel(inner, self.model, shards=shards)
            if max(shards, self.comm.size) > 1
            else inner
        )
        self._share = shards // self.comm.size  # shards of this rank in a step
        self.loader = Loader(
            images.train,
            settings.batch // shards,
            seed=settings.seed,
            shard=(self.comm.rank, self.comm.size, shards),
        )

    @property
    def steps_in_epoch(self) -> int:
        """The steps of an epoch, of all ranks together."""
        return len(self.loader) // self._share

    @property
    def left(self) -> int:
        """The steps still to make."""
        return max(0, self.settings.epochs * self.steps_in_epoch - len(self.losses))

    def steps(self) -> Iterator[TrainingStep]:
        """Train to the last epoch; after each, take the accuracy and save."""
        while (done := len(self.accuracies)) < self.settings.epochs:
            at_end = self.loader.position == len(self.loader)
            # A snapshot behind an epoch's last batch lacks its accuracy only.
            left = iter(() if at_end and self.loader.epoch == done else self.loader)
            for batches in zip(*[left] * self._share, strict=True):
                yield self._step(batches)
                if self.agrees(time.monotonic() - self._saved_at > _EVERY):
                    self.save()
            right = accuracy(self.model, self.images.held_out, self.comm)
            self.accuracies.append(right)
            self.save()
            self.export()

    def agrees(self, flag: bool) -> bool:
        """What rank 0 says, between two steps."""
        return bool(self.comm.broadcast(np.array(flag), 0))

    def _step(self, batches: Sequence[Batch]) -> TrainingStep:
        begin = time.perf_counter()
        losses = [
            float(self.optimizer.step(cross_entropy(self.model(constant(x)), y)))
            for x, y in batches
        ]
        loss = float(self.comm.all_gather(np.array(losses)).mean())
        if not math.isfinite(loss):
            raise RunError(
                f"the loss is {loss} at step {len(self.losses) + 1}",
                hint="try a smaller --lr",
            )
        self.losses.append(loss)
        return TrainingStep(
            epoch=self.loader.epoch + 1,
            number=self.loader.position // self._share,
            of=self.steps_in_epoch,
            loss=loss,
            images=sum(len(x) for x, _ in batches) * self.comm.size,
            seconds=time.perf_counter() - begin,
        )

    # -- what is kept --------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot of everything the next step depends on."""
        step = len(self.losses)
        self._saved_at = time.monotonic()
        if step == self.saved_step:
            return
        history = {
            "losses": np.array(self.losses, np.float64),
            "accuracies": np.array(self.accuracies, np.float64),
        }
        save_snapshot(
            self.folder / CHECKPOINTS,
            step,
            self.model,
            self.optimizer,
            self.loader,
            history,
            {"settings": self.settings.facts()},
        )
        self.saved_step = step

    def restore(self, point: Checkpoint) -> None:
        """Stand where the snapshot was taken; ModelFileError if it does not fit."""
        folder = self.folder / CHECKPOINTS
        history = restore_snapshot(
            folder, point, self.model, self.optimizer, self.loader
        )
        losses, accuracies = history.get("losses"), history.get("accuracies")
        if losses is None or accuracies is None:
            raise ModelFileError(f"{folder}/step-{point.step}: there are no losses")
        self.losses = losses.astype(np.float64).tolist()
        self.accuracies = accuracies.astype(np.float64).tolist()
        self.saved_step = point.step

    def export(self) -> None:
        """Write model.safetensors and the picture of the losses; rank 0 does."""
        if self.comm.rank:
            return
        settings, images = self.settings, self.images
        about = {
            "network": settings.network,
            "shape": "x".join(map(str, images.shape)),
            "classes": str(images.classes),
            "data": images.name,
        }
        path = self.folder / "model.safetensors"
        with guarded(self.folder, ModelFileError):
            self.folder.mkdir(parents=True, exist_ok=True)
        save_arrays(path, self.model.state_dict(), about)
        title = f"{settings.network} on {images.name} with {settings.optimizer}"
        if self.accuracies:
            title += f": {self.accuracies[-1]:.1%} of held-out images right"
        picture = curve_svg(
            {"loss": self.losses}, title, x_label="step", y_label="cross entropy"
        )
        with guarded(self.folder / "loss.svg", ModelFileError):
            write_atomically(self.folder / "loss.svg", picture.encode())
