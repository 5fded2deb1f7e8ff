"""The command `treadle`: train on images, tell what is installed and what is kept."""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from rich.console import Console

from treadle import __version__
from treadle.base import dtypes
from treadle.base.errors import ArgumentError, OptionError, TreadleError
from treadle.base.options import SETTINGS, current, engines, options
from treadle.data.catalog import load_images
from treadle.runtime.lower import cache_info, clear_cache
from treadle.train.folder import folder_to_resume, new_folder
from treadle.train.networks import NETWORKS, network
from treadle.train.optimizers import OPTIMIZERS, optimizer
from treadle.train.progress import show_progress
from treadle.train.run import Run, saved_run, training
from treadle.train.settings import Settings

__all__ = ["main"]

_DEFAULT = Settings()


class _Parser(argparse.ArgumentParser):
    """argparse, but a mistake is answered in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="treadle", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_train(commands)
    commands.add_parser("info", help="versions, engines, dtypes and options")
    cache = commands.add_parser("cache", help="machine code kept on disk")
    cache.add_argument("--clear", action="store_true", help="remove all of it")
    return parser


def _add_train(commands: Any) -> None:
    train = commands.add_parser(
        "train", help="train a network on labeled images", allow_abbrev=False
    )
    d = _DEFAULT
    add = train.add_argument
    add("--data", metavar="NAME", help="digits, fashion-mnist or PATH.npz (digits)")
    add("--data-dir", metavar="DIR", help="the folder with Fashion-MNIST's files")
    add("--network", metavar="NAME", help=f"{', '.join(NETWORKS)} ({d.network})")
    add("--optimizer", metavar="NAME", help=f"{', '.join(OPTIMIZERS)} ({d.optimizer})")
    add("--lr", type=float, metavar="RATE", help="learning rate (by the optimizer)")
    add("--epochs", type=int, metavar="N", help=f"times through the data ({d.epochs})")
    add("--batch", type=int, metavar="N", help=f"images in a step ({d.batch})")
    add("--seed", type=int, metavar="N", help=f"same seed, same bits ({d.seed})")
    add("--engine", metavar="NAME", help=f"{', '.join(engines())} ({d.engine})")
    add("--output", metavar="DIR", help="where the run is kept (runs/DATA-NETWORK)")
    add("--resume", action="store_true", help="go on with the run saved last")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, 1 (a file or a run failed), 2 (wrong use) or 130.

    >>> main(["info"]) # doctest: +ELLIPSIS
    treadle ...
    0
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    try:
        command = {"info": _info, "cache": _cache, "train": _train}[arguments.command]
        return command(arguments)
    except (OptionError, ArgumentError) as error:
        return _complain(error, 2)
    except TreadleError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        print("treadle: interrupted; nothing new was saved", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 1


def _complain(error: TreadleError, code: int) -> int:
    words = f"{error.message} ({error.hint})" if error.hint else error.message
    print("treadle:", " ".join(words.split()), file=sys.stderr)
    return code


def _cache(arguments: argparse.Namespace) -> int:
    if arguments.clear:
        clear_cache(disk=True)
    info = cache_info(disk=True)
    print(f"place      {info.disk or 'none'}")
    print(f"files      {info.disk_files:,}")
    print(f"bytes      {info.disk_bytes:,}")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    chosen = current()
    rows = {
        "treadle": __version__,
        "python": f"{platform.python_version()} on {platform.machine()}",
        "numpy": np.__version__,
        "engines": ", ".join(engines()),
        "networks": ", ".join(NETWORKS),
        "optimizers": ", ".join(OPTIMIZERS),
        "dtypes": ", ".join(dtype.name for dtype in dtypes.ALL),
        "options": ", ".join(f"{name}={getattr(chosen, name)}" for name in SETTINGS),
    }
    for name, value in rows.items():
        print(f"{name:11}{value}")
    return 0


def _train(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    output, resume = given.pop("output"), given.pop("resume")
    del given["command"]
    if resume:
        folder = folder_to_resume(output)
        point, saved = saved_run(folder)
        settings = saved.resumed(**given)
    else:
        chosen = current()  # what TREADLE_ENGINE and TREADLE_SEED say
        default = _DEFAULT.changed(engine=chosen.engine, seed=chosen.seed)
        point, settings = None, default.changed(**given)
    if settings.data_dir is not None and settings.data != "fashion-mnist":
        raise OptionError("--data-dir goes with --data fashion-mnist")
    _check_names(settings)
    images = load_images(settings.data, settings.data_dir)
    if not resume:
        folder = new_folder(f"{images.name}-{settings.network}", output)
    console = Console(soft_wrap=True)
    with training(settings, images, folder, point) as run:
        how = f"going on at step {point.step}" if point else "a new run"
        console.print(
            f"{settings.network} on {images.name}: {len(images.train):,} images, "
            f"{len(images.held_out):,} held out; {how} in {folder}",
            highlight=False,
        )
        return _follow(run, console)


def _check_names(settings: Settings) -> None:
    """Refuse unknown names before anything is read or made."""
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


def _follow(run: Run, console: Console) -> int:
    stopped = False
    try:
        with _interruptible() as asked:
            for _ in show_progress(run, console):
                if asked:
                    run.save()
                    stopped = True
                    break
    except KeyboardInterrupt:
        stopped = True
    if stopped:
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


def _saved(run: Run) -> str:
    if run.saved_step is None:
        return "nothing was saved yet"
    return (
        f"step {run.saved_step} is saved in {run.folder}; go on with "
        f"treadle train --resume --output {run.folder}"
    )
