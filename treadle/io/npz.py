"""NumPy's .npz without pickle: every member checked before it is allocated."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Mapping
from typing import IO, Any, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.dtypes import DType
from treadle.base.errors import ModelFileError
from treadle.io.files import (
    MAX_BYTES,
    MAX_RATIO,
    FileError,
    PathLike,
    check_name,
    check_shape,
    fill,
    guarded,
    open_regular,
)

__all__ = ["read_npz", "write_npz"]

Array = np.ndarray[Any, Any]

_MAGIC = b"\x93NUMPY"
_ENTRY = re.compile(
    r"\s*'(descr|fortran_order|shape)'\s*:\s*"
    r"('[^'\\]{1,16}'|True|False|\([\dL,\s]*\))\s*(?:,|$)"
)


def read_npz(
    path: PathLike, *, error: FileError = ModelFileError, max_bytes: int = MAX_BYTES
) -> dict[str, Array]:
    """The arrays of an .npz file by name; raises `error` for anything unusual.

    Refused: pickles, encryption, methods other than stored and deflate, a member
    given twice, names that are paths, sizes that do not fit the array's header.
    """
    arrays: dict[str, Array] = {}
    with open_regular(path, error) as file, guarded(path, error):
        size = file.seek(0, 2)
        if size == 0:
            raise ValueError("the file is empty")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            declared = sum(member.file_size for member in members)
            if declared > max_bytes:
                raise ValueError(f"{declared} bytes declared, {max_bytes} allowed")
            for member in members:
                with guarded(path, error, repr(member.filename[:60])):
                    name = _checked(member, size)
                    if name in arrays:
                        raise ValueError("the name is given twice")
                    with archive.open(member) as stream:
                        arrays[name] = _read_member(stream, member.file_size)
    return arrays


def write_npz(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays as .npz to an open file; equal arrays give equal bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, arrays[name], allow_pickle=False)


def _checked(member: zipfile.ZipInfo, size: int) -> str:
    """The array's name, after everything the directory says about it is in order."""
    if member.orig_filename != member.filename or not member.filename.endswith(".npy"):
        raise ValueError("this is not an array of NumPy's")
    name = member.filename.removesuffix(".npy")
    if name != "__metadata__":
        check_name(name)
    if member.flag_bits & 0x1:
        raise ValueError("the member is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("the member is neither stored nor deflated")
    stored = member.compress_type == zipfile.ZIP_STORED
    limit = member.compress_size * (1 if stored else MAX_RATIO)
    if member.compress_size > size or member.file_size > limit:
        raise ValueError("the sizes declared for the member do not fit the file")
    return name


def _read_member(stream: IO[bytes], size: int) -> Array:
    lead = stream.read(8)
    if len(lead) != 8 or lead[:6] != _MAGIC or lead[6] not in (1, 2, 3):
        raise ValueError("this is not an array of NumPy's")
    form = "<H" if lead[6] == 1 else "<I"
    (length,) = struct.unpack(form, stream.read(struct.calcsize(form)))
    if length > 10_000:
        raise ValueError(f"a header of {length} bytes is too long")
    header = stream.read(length)
    dtype, fortran, shape = _parse_header(header.decode("latin-1"))
    begin = 8 + struct.calcsize(form) + length
    if begin + check_shape(shape, dtype) != size:
        raise ValueError(
            f"{dtype.name}{list(shape)} does not take the {size - begin} bytes it has"
        )
    array = fill(stream, shape[::-1] if fortran else shape, dtype)
    if stream.read(1):  # also has the checksum compared
        raise ValueError("there is more than the array")
    array = array.T if fortran else array
    return array.astype(dtype.newbyteorder("="), copy=False)


def _parse_header(text: str) -> tuple[DType, bool, tuple[int, ...]]:
    """dtype, order and shape from the literal NumPy writes, without evaluating it."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError("the array's header is not a dictionary")
    body = body[1:-1].strip()
    entries: dict[str, str] = {}
    position = 0
    while position < len(body):
        entry = _ENTRY.match(body, position)
        if entry is None or entry[1] in entries:
            raise ValueError("the array's header cannot be read (objects are refused)")
        entries[entry[1]] = entry[2]
        position = entry.end()
    descr, order = entries.get("descr", ""), entries.get("fortran_order", "")
    if not descr.startswith("'") or order not in ("True", "False"):
        raise ValueError("the array's header is not complete")
    shape = entries.get("shape", "")
    if not shape.startswith("("):
        raise ValueError("the array's header is not complete")
    numbers = shape[1:-1].replace("L", "").split(",")
    return (
        _parse_dtype(descr[1:-1]),
        order == "True",
        tuple(int(n) for n in numbers if n.strip()),
    )


def _parse_dtype(text: str) -> DType:
    if not re.fullmatch(r"[<>|=]?[biufc]\d{1,2}|\|?\?", text):
        raise ValueError(
            f"the dtype {text!r} is refused; numbers and truth values only"
        )
    try:
        dtype = np.dtype(text)
    except TypeError:
        raise ValueError(f"{text!r} is not a dtype") from None
    if dtype.newbyteorder("=") not in dtypes.ALL:
        raise ValueError(f"arrays of {dtype.name} are not supported")
    return dtype
