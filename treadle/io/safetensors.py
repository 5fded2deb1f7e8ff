"""The .safetensors format, its header checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.dtypes import DType
from treadle.base.errors import ModelFileError
from treadle.io.files import (
    MAX_BYTES,
    PathLike,
    check_name,
    check_shape,
    fill,
    guarded,
    open_regular,
)

__all__ = ["read_safetensors", "write_safetensors"]

Array = np.ndarray[Any, Any]

_MAX_HEADER = 100_000_000  # the format's own limit
_CODES: dict[DType, str] = {
    dtypes.bool_: "BOOL",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.uint8: "U8",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}


def read_safetensors(
    path: PathLike, *, max_bytes: int = MAX_BYTES
) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a .safetensors file by name, and its metadata."""
    error = ModelFileError
    with open_regular(path, error) as file, guarded(path, error):
        size = file.seek(0, 2)
        file.seek(0)
        lead = file.read(8)
        if len(lead) < 8:
            raise ValueError(f"{size} bytes are too few for a .safetensors file")
        length = int.from_bytes(lead, "little")
        if length > min(_MAX_HEADER, size - 8):
            raise ValueError(f"the header of {length} bytes does not fit the file")
        if size - 8 - length > max_bytes:
            raise ValueError(f"{size} bytes, {max_bytes} allowed")
        header = _parse(file.read(length))
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(
            isinstance(value, str) for value in metadata.values()
        ):
            raise ValueError("the metadata is not text by name")
        plan = _plan(path, header, size - 8 - length)
        arrays: dict[str, Array] = {}
        for name, shape, dtype in plan:
            with guarded(path, error, repr(name)):
                arrays[name] = fill(file, shape, dtype)
    return {name: arrays[name] for name in header}, metadata


def write_safetensors(
    file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays to an open file one by one; equal arrays give equal bytes.

    Names are sorted within equal width, widest first, so that every array is aligned.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    offset = 0
    for name in order:
        array = arrays[name]
        if array.dtype not in _CODES:
            raise ValueError(
                f"{name!r}: .safetensors has no {array.dtype.name}; .npz has"
            )
        end = offset + array.nbytes
        header[name] = {
            "dtype": _CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        flat = arrays[name].reshape(-1)
        file.write(flat.view(np.uint8).data)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice in the header")
    return found


def _parse(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"{"):
        raise ValueError("the header is not a dictionary")
    try:
        header = json.loads(raw.decode(), object_pairs_hook=_unique)
    except json.JSONDecodeError as problem:
        raise ValueError(f"the header cannot be read: {problem}") from None
    except UnicodeDecodeError:
        raise ValueError("the header is not UTF-8 text") from None
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    found: dict[str, Any] = header
    return found


def _plan(
    path: PathLike, header: dict[str, Any], size: int
) -> list[tuple[str, tuple[int, ...], DType]]:
    """Name, shape and dtype in the order of the data, which they fill exactly."""
    spans: list[tuple[int, int, str, tuple[int, ...], DType]] = []
    for name, entry in header.items():
        with guarded(path, ModelFileError, repr(name[:60])):
            check_name(name)
            if not isinstance(entry, dict) or set(entry) != {
                "dtype",
                "shape",
                "data_offsets",
            }:
                raise ValueError("an entry has a dtype, a shape and data_offsets")
            code, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
            if not isinstance(code, str) or code not in _BY_CODE:
                raise ValueError(f"the dtype {str(code)[:40]!r} is not known")
            if not isinstance(shape, list):
                raise ValueError("the shape is not a list")
            needed = check_shape(shape, _BY_CODE[code])
            if not (
                isinstance(span, list)
                and len(span) == 2
                and all(type(n) is int for n in span)
                and 0 <= span[0] <= span[1] <= size
            ):
                raise ValueError(f"the span {str(span)[:60]} is outside the data")
            if span[1] - span[0] != needed:
                raise ValueError(
                    f"{code}{shape} takes {needed} bytes, not {span[1] - span[0]}"
                )
            spans.append((span[0], span[1], name, tuple(shape), _BY_CODE[code]))
    spans.sort(key=lambda s: s[:2])
    end = 0
    for begin, stop, name, _, _ in spans:
        if begin != end and stop != begin:
            raise ValueError(f"{name!r}: its data overlap others or leave a hole")
        end = max(end, stop)
    if end != size:
        raise ValueError(f"the data are {size} bytes, the header names {end}")
    return [(name, shape, dtype) for _, _, name, shape, dtype in spans]
