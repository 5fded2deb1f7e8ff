"""Arrays by name in a file: `save_arrays` and `load_arrays`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.errors import ModelFileError
from treadle.io.atomic import write_atomically
from treadle.io.files import MAX_BYTES, PathLike, check_name, guarded
from treadle.io.npz import read_npz, write_npz
from treadle.io.safetensors import read_safetensors, write_safetensors

__all__ = ["load_arrays", "save_arrays"]

Array = np.ndarray[Any, Any]

_ENDINGS = (".npz", ".safetensors")
_METADATA = "__metadata__"


def save_arrays(
    path: PathLike,
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by name to a .safetensors or .npz file, whole or not at all.

    Equal arrays and metadata give equal bytes. Raises ModelFileError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/a.npz", {"w": np.arange(3)}, {"made by": "hand"})
    ...     load_arrays(f"{folder}/a.npz")
    ({'w': array([0, 1, 2])}, {'made by': 'hand'})
    """
    ending = _ending(path)
    facts = dict(metadata or {})
    with guarded(path, ModelFileError):
        ready = {check_name(name): _native(a, name) for name, a in arrays.items()}
        if not all(isinstance(v, str) for pair in facts.items() for v in pair):
            raise ValueError("metadata are text by name")

        def write(file: BinaryIO) -> None:
            if ending == ".npz":
                write_npz(file, _with_facts(ready, facts))
            else:
                write_safetensors(file, ready, facts)

        write_atomically(path, write)


def load_arrays(
    path: PathLike, *, max_bytes: int = MAX_BYTES
) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a .safetensors or .npz file by name, and its metadata.

    Nothing is allocated before every name, dtype, shape and span is known to fit the
    file; a file is data and never runs. Raises ModelFileError.
    """
    if _ending(path) == ".safetensors":
        return read_safetensors(path, max_bytes=max_bytes)
    arrays = read_npz(path, max_bytes=max_bytes)
    with guarded(path, ModelFileError):
        return _without_facts(arrays)


def _ending(path: PathLike) -> str:
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise ModelFileError(
            f"{os.fspath(path)}: the ending {ending!r} is not known",
            hint=f"known: {', '.join(_ENDINGS)}",
        )
    return ending


def _native(array: Array, name: str) -> Array:
    """Little-endian, contiguous, of a dtype Treadle has."""
    found = np.asarray(array, order="C")
    if found.dtype.newbyteorder("=") not in dtypes.ALL:
        raise ValueError(f"{name!r}: arrays of {found.dtype} cannot be saved")
    return found.astype(found.dtype.newbyteorder("<"), copy=False)


def _with_facts(arrays: dict[str, Array], facts: dict[str, str]) -> dict[str, Array]:
    """NumPy's format has no bfloat16 (kept as uint16) and no metadata (a member)."""
    short = sorted(n for n, a in arrays.items() if a.dtype == dtypes.bfloat16)
    ready = {n: a.view(np.uint16) if n in short else a for n, a in arrays.items()}
    if facts or short:
        text = json.dumps({"metadata": facts, "bfloat16": short}, sort_keys=True)
        ready[_METADATA] = np.frombuffer(text.encode(), np.uint8)
    return ready


def _without_facts(
    arrays: dict[str, Array],
) -> tuple[dict[str, Array], dict[str, str]]:
    raw = arrays.pop(_METADATA, None)
    if raw is None:
        return arrays, {}
    try:
        held = json.loads(raw.tobytes().decode())
        facts, short = held["metadata"], held["bfloat16"]
        for name in short:
            if arrays[name].dtype != np.uint16:
                raise TypeError
            arrays[name] = arrays[name].view(dtypes.bfloat16)
        if not all(isinstance(v, str) for v in facts.values()):
            raise TypeError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"the member {_METADATA!r} cannot be read") from None
    return arrays, facts
