"""Snapshots, all that the next step depends on in one file, and folders of runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ModelFileError, OptionError, TreadleError
from treadle.base.options import current
from treadle.data.loader import Loader
from treadle.distributed.parallel import DataParallel
from treadle.io.checkpoint import Checkpoint, save_checkpoint
from treadle.io.files import PathLike
from treadle.nn.module import Module
from treadle.optim.optimizer import Optimizer

Arrays = Mapping[str, np.ndarray[Any, Any]]


def save_snapshot(
    folder: Path,
    step: int,
    model: Module,
    optimizer: Optimizer | DataParallel,
    loader: Loader | None,
    history: Arrays,
    facts: Mapping[str, Any],
) -> None:
    """Write snapshot `step`: parameters, optimizer, place in the data, draws, history.

    All ranks of a DataParallel call this, and each writes its share.
    `facts` are what JSON can say; "loader" and "draws" are added to them.
    """
    parts: dict[str, Arrays] = {"model": model.state_dict(), "history": history}
    together = None
    if isinstance(optimizer, DataParallel) and optimizer.communicator.size > 1:
        together = optimizer.communicator
        parts["model"] = optimizer.share_of(parts["model"])
        parts["optimizer"] = optimizer.state_part()
        parts["history"] = {} if together.rank else history
    else:
        parts["optimizer"] = optimizer.state_dict()
    place = {} if loader is None else {"loader": loader.state()}
    metadata = {**facts, **place, "draws": current().scope.count}
    save_checkpoint(folder, step, parts, metadata, together=together)


def restore_snapshot(
    folder: Path,
    point: Checkpoint,
    model: Module,
    optimizer: Optimizer | DataParallel,
    loader: Loader | None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Stand where the snapshot was taken, and its history; ModelFileError if it does
    not fit."""
    place = folder / f"step-{point.step}"
    facts = point.facts
    draws, stood = facts.get("draws"), facts.get("loader")
    try:
        history = point.parts["history"]
        model.load_state_dict(point.parts["model"])
        optimizer.load_state_dict(point.parts["optimizer"])
        if (
            not isinstance(draws, int)
            or isinstance(stood, Mapping) is (loader is None)
        ):  # fmt: skip
            raise ModelFileError("the place in the data is missing")
        if loader is not None and isinstance(stood, Mapping):
            loader.restore(stood)
    except KeyError as missing:
        raise ModelFileError(f"{place}: there is no {missing}") from missing
    except TreadleError as problem:
        raise ModelFileError(f"{place}: {problem.message}") from problem
    if not isinstance(optimizer, DataParallel):  # it has placed each rank's already
        current().scope.count = draws
    return history


CHECKPOINTS = "checkpoints"
_ROOT = "runs"


def _points(folder: Path) -> list[Path]:
    return sorted((folder / CHECKPOINTS).glob("step-*/manifest.json"))


def new_folder(name: str, output: PathLike | None = None) -> Path:
    """`output`, else runs/NAME, runs/NAME-2, ...: never one that holds a run."""
    if output is not None:
        folder = Path(output)
        if _points(folder):
            raise OptionError(
                f"{folder} holds a run already; add --resume to go on with it, "
                "or choose another --output"
            )
        return folder
    for k in itertools.count(1):
        folder = Path(_ROOT) / (name if k == 1 else f"{name}-{k}")
        if not _points(folder):
            break
    return folder


def folder_to_resume(output: PathLike | None = None) -> Path:
    """`output`, else the run below runs/ that was saved last."""
    if output is not None:
        folder = Path(output)
        if not _points(folder):
            raise OptionError(f"there is no run to resume in {folder}")
        return folder
    root = Path(_ROOT)
    candidates = sorted(root.iterdir()) if root.is_dir() else []
    runs = [(max(p.stat().st_mtime_ns for p in _points(f)), f)
            for f in candidates if _points(f)]  # fmt: skip
    if not runs:
        raise OptionError(f"there is no run to resume in {root}")
    return max(runs)[1]
