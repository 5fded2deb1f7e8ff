"""ONNX files, read as what somebody else wrote; dtypes that are only stored."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, bfloat16
from treadle.base.errors import ModelFileError
from treadle.base.extras import extra
from treadle.io.files import (
    MAX_BYTES,
    PathLike,
    check_name,
    check_shape,
    fill,
    guarded,
    open_regular,
)

# By the number that ONNX has for each dtype, and how many bits one element has.
STORED: dict[int, np.dtype[Any]] = {
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
    27: np.dtype(ml_dtypes.float6_e2m3fn),
    28: np.dtype(ml_dtypes.float6_e3m2fn),
}
BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def packed_bytes(code: int, shape: tuple[int, ...]) -> int:
    """The bytes of an array whose elements are packed bit by bit."""
    return -(-math.prod(shape) * BITS.get(code, 8) // 8)


def unpack(raw: Array, code: int, shape: tuple[int, ...]) -> Array:
    """The array of packed bytes, the lowest bits first."""
    if code in BITS:
        width, count = BITS[code], math.prod(shape)
        bits = np.unpackbits(raw, bitorder="little")[: count * width]
        powers = (1 << np.arange(width)).astype(np.uint8)
        raw = (bits.reshape(count, width) * powers).sum(-1, dtype=np.uint8)
    return raw.view(STORED[code]).reshape(shape)


BUFFERS = "treadle.buffers"  # the note with the names of weights that are not trained
MAX_FILE = (1 << 31) - 1  # what protobuf can hold
_MOST_NODES = 100_000
_MOST_TENSORS = 65_536
DTYPES: dict[int, DType] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: bfloat16,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
# The field with the numbers of a tensor without raw bytes, and how they stand there.
_FIELDS = {
    1: ("float_data", np.float32),
    7: ("int64_data", np.int64),
    11: ("double_data", np.float64),
    12: ("uint64_data", np.uint64),
    13: ("uint64_data", np.uint64),
    14: ("float_data", np.float32),
    15: ("double_data", np.float64),
}


def source_of(source: PathLike | bytes | BinaryIO) -> tuple[str, Path | None, bytes]:
    """The name for errors, the folder of external data and the bytes of a model."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "<bytes>", None, _bounded(bytes(source))
    if hasattr(source, "read"):
        place = f"<{getattr(source, 'name', None) or 'file object'}>"
        with guarded(place, ModelFileError):
            raw = source.read(MAX_FILE + 1)
            if not isinstance(raw, bytes):
                raise ValueError("a model is read from a file opened for bytes")
            return place, None, _bounded(raw)
    with open_regular(source, ModelFileError) as file, guarded(source, ModelFileError):
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE:
            raise ValueError(f"{size} bytes are more than an ONNX file has")
        return os.fspath(source), Path(source).parent, file.read(size + 1)


def _bounded(raw: bytes) -> bytes:
    if len(raw) > MAX_FILE:
        raise ValueError("there are more bytes than an ONNX file has")
    return raw


def read_model(raw: bytes) -> Any:
    """The message that the bytes of a file hold, complete and within bounds."""
    message = extra("google.protobuf.message", "onnx")
    onnx = extra("onnx", "onnx")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except message.DecodeError:
        raise ValueError("this is not an ONNX model, or not all of it") from None
    _check(model)
    return model


def _check(model: Any) -> None:
    """Refuse what is no model, or one of parts that are not read."""
    graph = model.graph
    if not model.ir_version or not model.opset_import or not graph.output:
        raise ValueError("this is not an ONNX model: it has no version or no output")
    if len(graph.sparse_initializer):
        raise ValueError("it holds sparse weights, which are not read")
    _check_names(model)
    for what, count, most in (
        ("nodes", len(graph.node), _MOST_NODES),
        ("weights", len(graph.initializer), _MOST_TENSORS),
        ("inputs", len(graph.input), _MOST_TENSORS),
    ):
        if count > most:
            raise ValueError(f"{count} {what} are too many")


def _check_names(model: Any) -> None:
    """Refuse names that are no text: protobuf hands them out as bytes."""
    graph = model.graph
    for node in graph.node:
        names = [node.name, node.op_type, node.domain, *node.input, *node.output]
        if not all(isinstance(name, str) for name in names):
            raise ValueError("a name of a node is not UTF-8")
        if not all(isinstance(a.name, str) for a in node.attribute):
            raise ValueError(f"a name in node {node.name[:40]!r} is not UTF-8")
    for item in (*graph.initializer, *graph.input, *graph.output):
        if not isinstance(item.name, str):
            raise ValueError("a name of a weight or an input is not UTF-8")
    for item in model.metadata_props:
        if not isinstance(item.key, str) or not isinstance(item.value, str):
            raise ValueError("a note is not UTF-8")
    for item in graph.input:
        dims = item.type.tensor_type.shape.dim
        if not all(isinstance(d.dim_param, str) for d in dims):
            raise ValueError(f"input {item.name[:60]!r} has no proper shape")


def array_of(tensor: Any, folder: Path | None, limit: int = MAX_BYTES) -> Array:
    """The array of a tensor message; `folder` is where data beside the file may lie.

    Raises ValueError for what does not hold together.
    """
    if tensor.data_type in STORED:
        return _stored(tensor, folder, limit)
    dtype = DTYPES.get(tensor.data_type)
    if dtype is None:
        raise ValueError(f"the dtype with the number {tensor.data_type} is not read")
    shape = tuple(tensor.dims)
    size = check_shape(shape, dtype)
    if size > limit:
        raise ValueError(
            f"{size} bytes are more than the {limit} that may be asked for"
        )
    if tensor.data_location == 1:
        return _outside(tensor, folder, shape, dtype)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != size:
            raise ValueError(
                f"{len(tensor.raw_data)} bytes for {dtype}{list(shape)}, not {size}"
            )
        little = dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype
        array = np.frombuffer(tensor.raw_data, little).astype(dtype, copy=True)
    else:
        array = _listed(tensor, shape, dtype)
    if dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ValueError("a truth value is neither 0 nor 1")
    return array.reshape(shape)


def _stored(tensor: Any, folder: Path | None, limit: int) -> Array:
    """The array of a tensor of a dtype that is only stored."""
    code, shape = tensor.data_type, tuple(tensor.dims)
    if check_shape(shape, np.dtype(np.uint8)) > limit:
        raise ValueError(
            f"{shape} are more than the {limit} bytes that may be asked for"
        )
    size, byte = packed_bytes(code, shape), np.dtype(np.uint8)
    if tensor.data_location == 1:
        raw = _outside(tensor, folder, (size,), byte)
    elif tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        raw = np.array(tensor.int32_data, np.int32).astype(np.uint8)
    if len(raw) != size:
        raise ValueError(
            f"{len(raw)} bytes for {STORED[code]}{list(shape)}, not {size}"
        )
    return unpack(raw, code, shape).copy()


def _listed(tensor: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    """The numbers of a tensor that lists them one by one."""
    field, kept = _FIELDS.get(tensor.data_type, ("int32_data", np.int32))
    numbers = np.array(getattr(tensor, field), kept)
    count = int(np.prod(shape, dtype=object)) * (2 if dtype.kind == "c" else 1)
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} numbers for {dtype}{list(shape)}")
    if dtype.kind == "c":
        return numbers.view(dtype)
    if dtype.itemsize == 2 and tensor.data_type in (10, 16):
        return numbers.astype(np.uint16).view(dtype)
    return numbers.astype(dtype)


def _outside(
    tensor: Any, folder: Path | None, shape: tuple[int, ...], dtype: DType
) -> Array:
    """The numbers of a tensor that stand in a file beside the model's."""
    said: Mapping[str, str] = {e.key: e.value for e in tensor.external_data}
    if not all(isinstance(text, str) for pair in said.items() for text in pair):
        raise ValueError("where its data lies is not UTF-8")
    location = said.get("location", "")
    check_name(location)
    if folder is None or Path(location).is_absolute() or ":" in location:
        raise ValueError(f"data at {location[:60]!r} is not beside the model")
    place = Path(os.path.realpath(folder / location))
    if not place.is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"data at {location[:60]!r} is not beside the model")
    size = check_shape(shape, dtype)
    start, length = int(said.get("offset", 0)), int(said.get("length", size))
    try:
        return _read_outside(place, location, (start, length, size), shape, dtype)
    except ModelFileError as error:  # told under the model's name, not its own
        reason = error.message.removeprefix(f"{place}: ")
        raise ValueError(f"data at {location[:60]!r}: {reason}") from None


def _read_outside(
    place: Path,
    location: str,
    span: tuple[int, int, int],
    shape: tuple[int, ...],
    dtype: DType,
) -> Array:
    """The bytes of a span of a file, which is to have them."""
    start, length, size = span
    with open_regular(place, ModelFileError) as file:
        status = os.fstat(file.fileno())
        if status.st_nlink > 1:
            raise ValueError("a file of several names (hard links) is not read")
        end = status.st_size
        if length != size or start < 0 or start + size > end:
            raise ValueError(
                f"it has {end} bytes: none for {length} at {start} "
                f"as {dtype}{list(shape)}"
            )
        file.seek(start)
        return fill(file, shape, dtype)
