"""Numbered snapshots of a run; the manifest of each is its commit point."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from treadle.base.arrays import Array
from treadle.base.errors import ModelFileError
from treadle.io.files import (
    PathLike,
    guarded,
    open_regular,
    read_json,
    sweep,
    sync_directory,
    temporary_name,
    write_atomically,
)
from treadle.io.tensors import load_arrays, save_arrays

_VERSION = 1
_MANIFEST = "manifest.json"
_PART = re.compile(r"[a-z_]{1,40}(\.\d{1,6})?")  # of one rank, where several wrote
_NAME = re.compile(r"step-(\d{1,18})")
_LARGEST_MANIFEST = 1 << 24


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot: arrays by part and name, and metadata as JSON."""

    step: int
    parts: dict[str, dict[str, Array]]
    facts: dict[str, Any]


class WriterGroup(Protocol):
    """Processes that write one snapshot, by number."""

    rank: int

    def messages(self, message: bytes) -> list[bytes]:
        """The messages of all ranks, by rank."""


def save_checkpoint(
    directory: PathLike,
    step: int,
    parts: Mapping[str, Mapping[str, Array]],
    facts: Mapping[str, Any],
    *,
    keep: int = 2,
    together: WriterGroup | None = None,
) -> Path:
    """Write snapshot `step` and drop all but the newest `keep`; raises ModelFileError.

    Parts are written and synced, then the manifest with their digests, then the folder
    gets its name: a kill at any moment leaves every earlier snapshot as it was. Ranks
    that write `together` give parts with arrays of their own each, into one folder that
    all of them see; what one cannot write, none has written.
    """
    root = Path(directory)
    target = root / f"step-{step}"
    if together is not None:
        _save_together(target, step, parts, facts, keep, together)
        return target
    with guarded(root, ModelFileError):
        temporary = _begun(target)
        try:
            _commit(temporary, target, step, _written(temporary, parts, ""), facts)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _drop(root, keep)
    return target


def _save_together(
    target: Path,
    step: int,
    parts: Mapping[str, Mapping[str, Array]],
    facts: Mapping[str, Any],
    keep: int,
    together: WriterGroup,
) -> None:
    """Each writes its parts between what the first one does before and after."""
    root, first = target.parent, together.rank == 0
    digests: dict[str, str] = {}
    temporary: Path | None = None

    def agree(action: Callable[[], object], by_all: bool) -> list[Any]:
        """The results of an action of all, or of the first; raises what one raises."""
        said: dict[str, Any] = {}
        try:
            if by_all or first:
                with guarded(root, ModelFileError):
                    said["done"] = action()
        except ModelFileError as problem:
            said["problem"] = str(problem.message)
        every = [json.loads(m) for m in together.messages(json.dumps(said).encode())]
        for rank, other in enumerate(every):
            if "problem" in other:
                if first and temporary is not None:
                    shutil.rmtree(temporary, ignore_errors=True)
                raise ModelFileError(f"rank {rank}: {other['problem']}")
        return [other.get("done") for other in every]

    temporary = root / agree(lambda: _begun(target).name, False)[0]
    written = {name: arrays for name, arrays in parts.items() if arrays}
    write = agree(lambda: _written(temporary, written, f".{together.rank}"), True)
    for some in write:
        digests |= some
    agree(lambda: _commit(temporary, target, step, digests, facts), False)
    if first:
        _drop(root, keep)


def _begun(target: Path) -> Path:
    """A new folder for what will be a snapshot; those that kills left are removed."""
    root = target.parent
    root.mkdir(parents=True, exist_ok=True)
    if target.exists():  # replacing it could lose both
        raise ModelFileError(f"{target}: this snapshot is already there")
    for name in os.listdir(root):
        owner = re.match(r"\.(step-\d+)\.tmp-", name)
        for leftover in sweep(root / owner[1]) if owner else ():
            shutil.rmtree(leftover, ignore_errors=True)
    temporary = temporary_name(target)
    temporary.mkdir()
    return temporary


def _drop(root: Path, keep: int) -> None:
    sync_directory(root)
    for old in _steps(root)[:-keep]:
        gone = temporary_name(root / f"step-{old}")  # a kill leaves no half of one
        os.rename(root / f"step-{old}", gone)
        shutil.rmtree(gone)


def load_checkpoint(directory: PathLike) -> Checkpoint | None:
    """The newest snapshot of a directory, its digests compared; None without one."""
    root = Path(directory)
    with guarded(root, ModelFileError):
        steps = _steps(root) if root.is_dir() else []
    return _read(root / f"step-{steps[-1]}", steps[-1]) if steps else None


def checkpoint_arrays(folder: PathLike) -> dict[str, Array]:
    """The arrays of a snapshot, or of the newest one in a folder of them, each by its
    part and its name; raises ModelFileError.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_checkpoint(folder, 3, {"model": {"w": np.ones(2)}}, {})
    ...     list(checkpoint_arrays(path)), list(checkpoint_arrays(folder))
    (['model.w'], ['model.w'])
    """
    path = Path(folder)
    step = _NAME.fullmatch(path.name)
    alone = step is not None and (path / _MANIFEST).exists()
    point = _read(path, int(step[1])) if step and alone else load_checkpoint(path)
    if point is None:
        raise ModelFileError(f"{path}: this folder holds no snapshot")
    return {
        f"{part}.{name}": array
        for part, arrays in point.parts.items()
        for name, array in arrays.items()
    }


def _steps(root: Path) -> list[int]:
    matches = (_NAME.fullmatch(name) for name in os.listdir(root))
    return sorted(int(match[1]) for match in matches if match)


def _written(
    folder: Path, parts: Mapping[str, Mapping[str, Array]], ending: str
) -> dict[str, str]:
    """The digests of parts, when they are written."""
    digests: dict[str, str] = {}
    for part, arrays in parts.items():
        name = part + ending
        path = folder / f"{name}.npz"
        save_arrays(path, arrays)
        digests[name] = _digest(path)
    return digests


def _commit(
    temporary: Path,
    target: Path,
    step: int,
    digests: Mapping[str, str],
    facts: Mapping[str, Any],
) -> None:
    """Write the manifest, and give the folder its name."""
    manifest = {
        "version": _VERSION,
        "step": step,
        "parts": dict(digests),
        "facts": dict(facts),
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    write_atomically(temporary / _MANIFEST, text.encode())
    os.rename(temporary, target)


def _read(folder: Path, step: int) -> Checkpoint:
    path = folder / _MANIFEST
    with open_regular(path, ModelFileError) as file, guarded(path, ModelFileError):
        if file.seek(0, 2) > _LARGEST_MANIFEST:
            raise ValueError("this is too large for a manifest")
        file.seek(0)
        manifest = read_json(file.read())
        if not isinstance(manifest, dict) or manifest.get("version") != _VERSION:
            raise ValueError(f"this is not a manifest of version {_VERSION}")
        digests, facts = manifest.get("parts"), manifest.get("facts")
        if (
            manifest.get("step") != step
            or not isinstance(digests, dict)
            or not isinstance(facts, dict)
            or not all(map(_PART.fullmatch, digests))
        ):
            raise ValueError("the manifest does not describe this snapshot")
    parts: dict[str, dict[str, Array]] = {}
    for name, digest in digests.items():
        part = folder / f"{name}.npz"
        if _digest(part) != digest:
            raise ModelFileError(f"{part}: its digest is not the manifest's")
        arrays, _ = load_arrays(part)
        whole = parts.setdefault(name.partition(".")[0], {})
        if whole.keys() & arrays.keys():
            raise ModelFileError(f"{part}: others have some of its arrays, too")
        whole |= arrays
    return Checkpoint(step, parts, facts)


def _digest(path: Path) -> str:
    with open_regular(path, ModelFileError) as file, guarded(path, ModelFileError):
        return hashlib.file_digest(file, "sha256").hexdigest()
