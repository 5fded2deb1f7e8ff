"""Numbered snapshots of a run; the manifest of each is its commit point."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ModelFileError
from treadle.io.atomic import sweep, sync_directory, temporary_name, write_atomically
from treadle.io.files import PathLike, guarded, open_regular, read_json
from treadle.io.tensors import load_arrays, save_arrays

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]

Array = np.ndarray[Any, Any]

_VERSION = 1
_MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{1,18})")
_LARGEST_MANIFEST = 1 << 24


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot: arrays by part and name, and metadata as JSON."""

    step: int
    parts: dict[str, dict[str, Array]]
    facts: dict[str, Any]


def save_checkpoint(
    directory: PathLike,
    step: int,
    parts: Mapping[str, Mapping[str, Array]],
    facts: Mapping[str, Any],
    *,
    keep: int = 2,
) -> Path:
    """Write snapshot `step` and drop all but the newest `keep`; raises ModelFileError.

    Parts are written and synced, then the manifest with their digests, then the folder
    gets its name: a kill at any moment leaves every earlier snapshot as it was.
    """
    root = Path(directory)
    target = root / f"step-{step}"
    with guarded(root, ModelFileError):
        root.mkdir(parents=True, exist_ok=True)
        if target.exists():  # replacing it could lose both
            raise ModelFileError(f"{target}: this snapshot is already there")
        for name in os.listdir(root):
            owner = re.match(r"\.(step-\d+)\.tmp-", name)
            for leftover in sweep(root / owner[1]) if owner else ():
                shutil.rmtree(leftover, ignore_errors=True)
        temporary = temporary_name(target)
        temporary.mkdir()
        try:
            _write(temporary, step, parts, facts)
            os.rename(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(root)
        for old in _steps(root)[:-keep]:
            shutil.rmtree(root / f"step-{old}")
    return target


def load_checkpoint(directory: PathLike) -> Checkpoint | None:
    """The newest snapshot of a directory, its digests compared; None without one."""
    root = Path(directory)
    with guarded(root, ModelFileError):
        steps = _steps(root) if root.is_dir() else []
    return _read(root / f"step-{steps[-1]}", steps[-1]) if steps else None


def _steps(root: Path) -> list[int]:
    found = (_NAME.fullmatch(name) for name in os.listdir(root))
    return sorted(int(match[1]) for match in found if match)


def _write(
    folder: Path,
    step: int,
    parts: Mapping[str, Mapping[str, Array]],
    facts: Mapping[str, Any],
) -> None:
    digests: dict[str, str] = {}
    for name, arrays in parts.items():
        path = folder / f"{name}.npz"
        save_arrays(path, arrays)
        digests[name] = _digest(path)
    manifest = {
        "version": _VERSION,
        "step": step,
        "parts": digests,
        "facts": dict(facts),
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    write_atomically(folder / _MANIFEST, text.encode())


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
            or not all(re.fullmatch(r"[a-z_]{1,40}", name) for name in digests)
        ):
            raise ValueError("the manifest does not describe this snapshot")
    parts: dict[str, dict[str, Array]] = {}
    for name, digest in digests.items():
        part = folder / f"{name}.npz"
        if _digest(part) != digest:
            raise ModelFileError(f"{part}: its digest is not the manifest's")
        parts[name], _ = load_arrays(part)
    return Checkpoint(step, parts, facts)


def _digest(path: Path) -> str:
    with open_regular(path, ModelFileError) as file, guarded(path, ModelFileError):
        return hashlib.file_digest(file, "sha256").hexdigest()
