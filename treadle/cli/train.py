"""`treadle train`: a network on labeled images."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.base.errors import OptionError, TreadleError
from treadle.base.extras import extra
from treadle.base.options import current, engines, options
from treadle.cli.parser import command
from treadle.data.images import load_images
from treadle.distributed.communicator import DistributedError
from treadle.distributed.launch import launch
from treadle.distributed.share import shards_of
from treadle.distributed.world import rank, size
from treadle.engines.base import engine
from treadle.train.networks import NETWORKS, OPTIMIZERS, network, optimizer
from treadle.train.progress import show_progress
from treadle.train.run import Settings, TrainingRun, saved_run, training
from treadle.train.snapshot import folder_to_resume, new_folder

if TYPE_CHECKING:
    from rich.console import Console

_DEFAULT = Settings()
SHARDS = 4  # of a step, where ranks train: 1, 2 and 4 of them come to the same bits


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "train", "train a network on labeled images")
    d = _DEFAULT
    words = parser.add_argument
    words("--data", metavar="NAME", help="digits, fashion-mnist or PATH.npz (digits)")
    words("--data-dir", metavar="DIR", help="the folder with Fashion-MNIST's files")
    words("--network", metavar="NAME", help=f"{', '.join(NETWORKS)} ({d.network})")
    words(
        "--optimizer", metavar="NAME", help=f"{', '.join(OPTIMIZERS)} ({d.optimizer})"
    )
    words("--lr", type=float, metavar="RATE", help="learning rate (by the optimizer)")
    words(
        "--epochs", type=int, metavar="N", help=f"times through the data ({d.epochs})"
    )
    words("--batch", type=int, metavar="N", help=f"images in a step ({d.batch})")
    words("--ranks", type=int, metavar="N", help="processes that train together (1)")
    words("--shards", type=int, metavar="N",
          help="parts of a step for ranks: as many, the same bits (4)")  # fmt: skip
    words("--seed", type=int, metavar="N", help=f"same seed, same bits ({d.seed})")
    words("--engine", metavar="NAME", help=f"{', '.join(engines())} ({d.engine})")
    words("--output", metavar="DIR", help="where the run is kept (runs/DATA-NETWORK)")
    words("--resume", action="store_true", help="go on with the run saved last")
    parser.set_defaults(run=train)


def train(arguments: argparse.Namespace) -> int:
    """Train, save and show; a first Ctrl-C ends it where it can be resumed."""
    flags = vars(arguments)
    output, resume = flags.pop("output"), flags.pop("resume")
    ranks = _ranks(flags.pop("ranks"))
    del flags["command"], flags["run"]
    if resume:
        folder = folder_to_resume(output)
        point, saved = saved_run(folder)
        settings = saved.resumed(**flags)
    else:
        if flags["shards"] is None and ranks is not None:
            flags["shards"] = SHARDS if SHARDS % ranks == 0 else ranks
        chosen = current()  # what TREADLE_ENGINE and TREADLE_SEED say
        default = _DEFAULT.changed(engine=chosen.engine, seed=chosen.seed)
        point, settings = None, default.changed(**flags)
    if settings.data_dir is not None and settings.data != "fashion-mnist":
        raise OptionError("--data-dir goes with --data fashion-mnist")
    _check_names(settings)
    shards_of(settings.shards, ranks or 1)
    images = load_images(settings.data, settings.data_dir)
    if not resume:
        folder = new_folder(f"{images.name}-{settings.network}", output)
    console_of = extra("rich.console", "cli").Console
    if ranks is not None and ranks > size():
        words = _words(flags if resume else settings.facts(), resume)
        words += ["--ranks", str(ranks), "--output", str(folder)]
        return launch(ranks, "treadle", words, module=True, as_one=True)
    console: Console = console_of(soft_wrap=True, quiet=rank() > 0)
    with training(settings, images, folder, point) as run:
        how = f"going on at step {point.step}" if point else "a new run"
        who = "" if ranks is None else f" on {ranks} rank{'s' * (ranks > 1)}"
        console.print(
            f"{settings.network} on {images.name}: {len(images.train):,} images, "
            f"{len(images.held_out):,} held out; {how}{who} in {folder}",
            highlight=False,
        )
        used = engine(settings.engine)
        console.print(f"engine {used.name} on {used.device}", highlight=False)
        return _follow(run, console)


def _ranks(asked: int | None) -> int | None:
    """How many ranks train; None where nobody speaks of them."""
    if asked is not None and asked < 1:
        raise OptionError("--ranks is at least 1")
    if size() == 1:
        return asked
    if asked not in (None, size()):
        raise OptionError(f"--ranks {asked}, but {size()} ranks were started")
    return size()


def _words(flags: Mapping[str, Any], resume: bool) -> list[str]:
    """The words that ask another process for the same."""
    named = {k: v for k, v in flags.items() if v is not None}
    words = [w for k, v in named.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    return ["train", *words, *(["--resume"] if resume else [])]


def _check_names(settings: Settings) -> None:
    """Refuse unknown names, and engines that have no device here, before anything is
    read or made."""
    engine(settings.engine)
    with options(engine=settings.engine):
        network(settings.network, (1, 8, 8), 2)
        optimizer(settings.optimizer, settings.lr)


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """A list that a first Ctrl-C fills, so that the step at hand is finished.

    A second Ctrl-C interrupts at once.
    """
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(run: TrainingRun, console: Console) -> int:
    stopped = False
    try:
        with _interruptible() as asked:
            for _ in show_progress(run, console):
                if run.agrees(bool(asked)):
                    run.save()
                    stopped = True
                    break
    except KeyboardInterrupt:
        stopped = True
    except DistributedError:  # each rank has seen something else
        raise
    except TreadleError:
        if rank() > 0:  # of all ranks, and rank 0 says so
            return 1
        raise
    if stopped:
        if rank() == 0:
            print(f"treadle: interrupted; {_saved(run)}", file=sys.stderr)
        return 130
    run.export()
    if run.accuracies:
        console.print(
            f"held-out accuracy {run.accuracies[-1]:.1%} after "
            f"{len(run.losses):,} steps",
            highlight=False,
        )
    for name in ("model.safetensors", "loss.svg"):
        console.print(f"wrote {Path(run.folder) / name}", highlight=False)
    return 0


def _saved(run: TrainingRun) -> str:
    if run.saved_step is None:
        return "nothing was saved yet"
    ranks = f" --ranks {run.comm.size}" if run.comm.size > 1 else ""
    return (
        f"step {run.saved_step} is saved in {run.folder}; go on with "
        f"treadle train --resume{ranks} --output {run.folder}"
    )
