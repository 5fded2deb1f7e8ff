"""Folders of runs: a new one for a new run, the newest for a resumed one."""

from __future__ import annotations

import itertools
from pathlib import Path

from treadle.base.errors import OptionError
from treadle.io.files import PathLike

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
