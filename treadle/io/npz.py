"""NumPy's .npz without pickle: every member checked before it is allocated."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import IO, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.io.files import MAX_RATIO, check_name, check_shape, fill, read_json
from treadle.io.format import (
    AXES,
    MAX_TEXT,
    SPECIAL,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    by_name,
    special_text,
)

Shape = tuple[int, ...]

_MAGIC = b"\x93NUMPY"
_ENTRY = re.compile(
    r"\s*'(descr|fortran_order|shape)'\s*:\s*"
    r"('[^'\\]{1,16}'|True|False|\([\dL,\s]*\))\s*(?:,|$)"
)
_METADATA = "__metadata__"
_LARGEST_DIRECTORY = 1 << 22  # what zipfile makes of it stays below 64 MiB
_END, _END64, _LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"


class Npz(Format):
    """NumPy's .npz; what NumPy has no word for is told in a member __metadata__.

    Refused: pickles, encryption, methods other than stored and deflate, a member
    given twice, names that are paths, sizes that do not fit the array's header.
    """

    name = ".npz"
    endings = (".npz",)
    dtypes = frozenset(dtypes.ALL)

    def knows(self, lead: bytes) -> bool:
        return lead.startswith((b"PK\3\4", _END))

    def listing(self, source: Opened) -> Listing:
        check_directory(source)
        source.file.seek(0)
        archive = zipfile.ZipFile(source.file)
        items: list[Item] = []
        text: list[Item] = []
        for member in archive.infolist():
            with source.about(member.filename[:60]):
                name = _checked(member, source.size)
                with archive.open(member) as stream:
                    shape, dtype, _ = _head(stream, member.file_size)
                if name == _METADATA or name.startswith(SPECIAL):
                    if member.file_size > MAX_TEXT:
                        raise ValueError(
                            f"{member.file_size} bytes of text are refused"
                        )
                    if name == _METADATA:  # no name for an item
                        name = SPECIAL + _METADATA
                    text.append(Item(name, shape, dtype, member))
                else:
                    items.append(Item(name, shape, dtype, member))
        metadata = {
            name.removeprefix(SPECIAL): special_text(name, _array(archive, item))
            for name, item in by_name(text, source).items()
        }
        named = by_name(items, source)
        if _METADATA in metadata:
            with source.about(_METADATA):
                named = _with_dtypes(metadata.pop(_METADATA), named, metadata)
        return Listing(named, metadata, partial(_array, archive))

    def check(self, name: str, array: Array) -> None:
        super().check(name, array)
        if name.startswith(SPECIAL):
            raise ValueError(f"{name!r}: such names are for text; pass it as metadata")

    def write(self, file: BinaryIO, contents: Contents) -> None:
        arrays, facts = contents.arrays, dict(contents.metadata)
        names = facts.pop(AXES, None)  # under a name that Marian's readers skip
        # NumPy's format has no bfloat16: kept as uint16.
        short = sorted(n for n, a in arrays.items() if a.dtype == dtypes.bfloat16)
        ready = {n: a.view(np.uint16) if n in short else a for n, a in arrays.items()}
        if facts or short:
            text = json.dumps({"metadata": facts, "bfloat16": short}, sort_keys=True)
            ready[_METADATA] = np.frombuffer(text.encode(), np.uint8)
        if names is not None:
            ready[SPECIAL + AXES] = np.frombuffer(names.encode(), np.uint8)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name in sorted(ready):
                member = zipfile.ZipInfo(f"{name}.npy")
                with archive.open(member, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, ready[name], allow_pickle=False)


def check_directory(source: Opened) -> None:
    """Refuse a directory that is larger than any archive of arrays has."""
    if source.size == 0:
        raise ValueError("the file is empty")
    source.file.seek(max(0, source.size - (1 << 16) - 128))
    tail = source.file.read()
    size, end = 0, tail.rfind(_END)
    if end >= 0 and len(tail) - end >= 22:
        (size,) = struct.unpack("<L", tail[end + 12 : end + 16])
        if tail[max(0, end - 20) : end].startswith(_LOCATOR):
            wide = tail.rfind(_END64, 0, end)
            size = _LARGEST_DIRECTORY + 1
            if wide >= 0 and end - wide >= 48:
                (size,) = struct.unpack("<Q", tail[wide + 40 : wide + 48])
    if size > _LARGEST_DIRECTORY:
        raise ValueError(f"a directory of {size} bytes is refused")


def _with_dtypes(
    text: str, items: Mapping[str, Item], facts: dict[str, str]
) -> dict[str, Item]:
    """The items with the dtypes that the file's own metadata say; adds to `facts`."""
    named = dict(items)
    try:
        extra = read_json(text.encode())
        for name in extra["bfloat16"]:
            item = named[name]
            if item.dtype != np.uint16:
                raise TypeError
            named[name] = Item(name, item.shape, dtypes.bfloat16, item.place)
        facts |= extra["metadata"]
        if not all(isinstance(v, str) for v in facts.values()):
            raise TypeError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("it cannot be read") from None
    return named


def _array(archive: zipfile.ZipFile, item: Item) -> Array:
    """The array of a member."""
    with archive.open(item.place) as stream:
        shape, dtype, fortran = _head(stream, item.place.file_size)
        array = fill(stream, shape[::-1] if fortran else shape, dtype)
        if stream.read(1):  # also has the checksum compared
            raise ValueError("there is more than the array")
    array = array.T if fortran else array
    array = array.astype(dtype.newbyteorder("="), copy=False)
    return array.view(item.dtype) if item.dtype == dtypes.bfloat16 else array


def _checked(member: zipfile.ZipInfo, size: int) -> str:
    """The array's name, after everything the directory says about it is in order."""
    if member.orig_filename != member.filename or not member.filename.endswith(".npy"):
        raise ValueError("this is not an array of NumPy's")
    name = member.filename.removesuffix(".npy")
    if name != _METADATA:
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


def _head(stream: IO[bytes], size: int) -> tuple[Shape, DType, bool]:
    """Shape, dtype and order of a member, which is as long as they say."""
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
    return shape, dtype, fortran


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
