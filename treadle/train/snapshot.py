"""Snapshots: everything the next step of a training depends on, written at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ModelFileError, TreadleError
from treadle.base.options import current
from treadle.data.loader import Loader
from treadle.distributed.parallel import DataParallel
from treadle.io.checkpoint import Checkpoint, save_checkpoint
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
