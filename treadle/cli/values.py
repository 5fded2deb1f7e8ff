"""Values of words in commands: shapes, arrays, and networks of ONNX files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import as_dtype
from treadle.base.errors import DataFileError, DTypeError
from treadle.cli.parser import CommandError, UsageError
from treadle.graph.variable import Placeholder
from treadle.io.files import guarded, open_regular
from treadle.io.tensors import load_arrays

if TYPE_CHECKING:
    from treadle.io.onnx import OnnxModule


_SHAPE = re.compile(r"(?:([A-Za-z_]\w*)=)?([\d,x ]*|scalar)(?::(\w+))?")
_NAMED = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)


def placeholder_of(word: str, name: str) -> Placeholder:
    """The placeholder of `[NAME=]SHAPE[:DTYPE]`, such as 32,784 or ids=8:int64.

    >>> placeholder_of("ids=8,20:int64", "x").type, placeholder_of("scalar", "x").name
    (int64[8, 20], 'x')
    """
    match = _SHAPE.fullmatch(word.strip())
    if match is None or not match[2].strip():
        raise UsageError(
            f"{word!r} is no shape", hint="[NAME=]SIZES[:DTYPE], as in 32,784 or scalar"
        )
    sizes = [] if match[2] == "scalar" else re.split("[,x]", match[2].rstrip(", "))
    try:
        shape = [int(size) for size in sizes]
        dtype = as_dtype(match[3]) if match[3] else None
    except (ValueError, DTypeError) as error:
        raise UsageError(f"{word!r} is no shape: {error}") from None
    return Placeholder(tuple(shape), dtype, name=match[1] or name)


def is_array_file(word: str) -> bool:
    """Whether a word names a file of arrays, by its ending."""
    return word.lower().endswith((".npy", ".npz", ".safetensors"))


def _npy(path: str) -> Array:
    """The array of an .npy file; one that holds Python objects is refused."""
    with open_regular(path, DataFileError) as file, guarded(path, DataFileError):
        array = np.load(file, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
        raise CommandError(f"{path}: it is no .npy file of numbers")
    return array


def _value(word: str) -> Array:
    """The array of a file or of a value written out, as in 3.5 or [[1, 2], [3, 4]]."""
    if word.lower().endswith(".npy"):
        return _npy(word)
    if is_array_file(word):
        arrays, _ = load_arrays(word)
        if len(arrays) != 1:
            raise CommandError(
                f"{word}: it holds {len(arrays)} arrays, one is meant",
                hint="give the file without NAME= to take them by their names",
            )
        return next(iter(arrays.values()))
    try:
        array = np.asarray(json.loads(word))
    except (ValueError, RecursionError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        raise UsageError(
            f"{word[:60]!r} is no value",
            hint="a number, nested lists of numbers, FILE.npy or FILE.npz",
        )
    return array


def arrays_of(words: Sequence[str]) -> tuple[list[Array], dict[str, Array]]:
    """The arrays that `--input` gives: those in order, and those by name."""
    inputs: list[Array] = []
    named: dict[str, Array] = {}
    for word in words:
        match = _NAMED.fullmatch(word)
        if match is not None:
            arrays = {match[1]: _value(match[2])}
        elif is_array_file(word) and not word.lower().endswith(".npy"):
            arrays = dict(load_arrays(Path(word))[0])
        else:
            inputs.append(_value(word))
            continue
        twice = sorted(named.keys() & arrays.keys())
        if twice:
            raise UsageError(f"input {', '.join(twice)} is given twice")
        named |= arrays
    return inputs, named


def is_onnx(path: str) -> bool:
    """Return True if a name is that of an ONNX file, by its ending."""
    return path.lower().endswith(".onnx")


def network_of(path: str) -> OnnxModule:
    """The network of a file, as it is used: nothing in it trains."""
    # By name: no other command waits for the tables of importers.
    net: OnnxModule = import_module("treadle.io.onnx.load").from_onnx(path)
    net.eval()
    return net
