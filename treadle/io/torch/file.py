"""The .pt format: a zip archive of a pickle and the bytes of storages."""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from treadle.base.arrays import Array
from treadle.io.files import MAX_RATIO, check_shape, read_json
from treadle.io.format import (
    MAX_ITEMS,
    MAX_TEXT,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    by_name,
)
from treadle.io.npz import check_directory
from treadle.io.torch.pickle import STORAGES, StorageView, loads, written

_LONGEST_PICKLE = 1 << 26
_DEEPEST = 64
_LONGEST = 1024  # characters of a path
MOST_VALUES = 1 << 17
_METADATA = ".treadle.json"
_HEADER = struct.Struct("<4s5H3L2H")  # of a member, where it lies


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies: the byte of its first element, the elements from that one to
    its last, and its strides in elements."""

    begin: int
    span: int
    strides: tuple[int, ...]


class Torch(Format):
    """torch.save's .pt and .pth: the tensors of what was saved, by their path.

    A path joins the keys of dicts and the places in lists by dots. Numbers and text
    are metadata. Refused by name: whatever is no tensor, number, text, dict or list,
    files from before torch 1.6, TorchScript, compressed and big-endian ones.
    """

    name = ".pt"
    endings = (".pt", ".pth")
    dtypes = frozenset(STORAGES.values())
    mappable = True

    def knows(self, lead: bytes) -> bool:
        return lead.startswith(b"PK\3\4") and b"/data.pkl" in lead

    def listing(self, source: Opened) -> Listing:
        _check_kind(source)
        check_directory(source)
        source.file.seek(0)
        archive = zipfile.ZipFile(source.file)
        members = {m.filename: m for m in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise ValueError("a member is given twice")
        pickles = [name for name in members if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError("it is not a file of torch.save: there is no data.pkl")
        home = pickles[0].removesuffix("data.pkl")
        if f"{home}constants.pkl" in members:
            raise ValueError("it is TorchScript, which is a program: save a state_dict")
        order = members.get(f"{home}byteorder")
        if order is not None and _bytes(source, order) != b"little":
            raise ValueError("its numbers are not little-endian")
        with source.about("data.pkl"):
            if members[pickles[0]].file_size > _LONGEST_PICKLE:
                raise ValueError("the pickle is too long")
            said = loads(_bytes(source, members[pickles[0]]))
        items: list[Item] = []
        facts: dict[str, str] = {}
        for name, value in _values(said):
            if isinstance(value, StorageView):
                if len(items) >= MAX_ITEMS:
                    raise ValueError(f"more than {MAX_ITEMS} arrays are refused")
                with source.about(name[:60]):
                    items.append(_item(source, members, home, name, value))
            else:
                facts[name] = value if isinstance(value, str) else repr(value)
        if f"{home}{_METADATA}" in members:
            with source.about(_METADATA):
                facts |= _facts(source, members[f"{home}{_METADATA}"])
        declared = sum(item.nbytes for item in items)
        if declared > MAX_RATIO * source.size:
            raise ValueError(f"{declared} bytes are not in the file")
        return Listing(by_name(items, source), facts, partial(_array, source))

    def write(self, file: BinaryIO, contents: Contents) -> None:
        """An archive that `torch.load` reads as a dict of tensors, without the text."""
        arrays, facts = contents.arrays, contents.metadata
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            archive.writestr(zipfile.ZipInfo("archive/data.pkl"), written(arrays))
            archive.writestr(zipfile.ZipInfo("archive/byteorder"), b"little")
            if facts:
                text = json.dumps(dict(sorted(facts.items())), ensure_ascii=False)
                archive.writestr(zipfile.ZipInfo(f"archive/{_METADATA}"), text)
            for k, array in enumerate(arrays.values()):
                member = zipfile.ZipInfo(f"archive/data/{k}")
                with archive.open(member, "w", force_zip64=True) as stream:
                    stream.write(array.reshape(-1).view(np.uint8).data)
            archive.writestr(zipfile.ZipInfo("archive/version"), b"3\n")


def _check_kind(source: Opened) -> None:
    """Refuse pickles by their name."""
    if source.file.read(1) == b"\x80":
        raise ValueError(
            "it is a pickle, as torch wrote before 1.6, which would have to run: "
            "torch.load and torch.save it once more"
        )


def _values(said: Any) -> Iterator[tuple[str, Any]]:
    """Each tensor, number and text in what a pickle says, by its path."""
    said = {"tensor": said} if isinstance(said, StorageView) else said
    if not isinstance(said, (dict, list, tuple)):
        raise ValueError(f"it holds a {type(said).__name__}, and no tensors by name")
    stack = [_below("", said)]
    count = 0
    while stack:
        for path, value in stack[-1]:
            count += 1
            if count > MOST_VALUES or len(stack) > _DEEPEST or len(path) > _LONGEST:
                raise ValueError("it is nested too deeply, or holds too much")
            if isinstance(value, (dict, list, tuple)):
                stack.append(_below(path, value))
                break
            if isinstance(value, (StorageView, str, int, float)):
                yield path, value
        else:
            stack.pop()


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return ((f"{path}.{k}" if path else str(k), below) for k, below in pairs)


def _item(
    source: Opened,
    members: Mapping[str, zipfile.ZipInfo],
    home: str,
    name: str,
    view: StorageView,
) -> Item:
    """The item of a tensor, whose elements all lie in its storage."""
    member = members.get(f"{home}data/{view.storage.key}")
    if member is None:
        raise ValueError(f"its storage {view.storage.key[:20]!r} is not in the file")
    check_shape(view.shape, view.dtype)
    steps = zip(view.shape, view.strides, strict=True)
    span = 1 + sum((n - 1) * step for n, step in steps) if 0 not in view.shape else 0
    begin = _begin(source, member)
    size = view.dtype.itemsize
    if (view.offset + span) * size > member.file_size:
        raise ValueError(
            f"it ends at element {view.offset + span} of a storage of "
            f"{member.file_size} bytes"
        )
    place = _Place(begin + view.offset * size, span, view.strides)
    return Item(name, view.shape, view.dtype, place)


def _begin(source: Opened, member: zipfile.ZipInfo) -> int:
    """The place of a member's bytes, which lie in the file as they are."""
    if member.flag_bits & 0x1 or member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("its storage is compressed or encrypted")
    source.file.seek(member.header_offset)
    header = _HEADER.unpack(source.take(_HEADER.size, "a member's header"))
    begin = member.header_offset + _HEADER.size + header[-2] + header[-1]
    known = header[0] == b"PK\3\4" and member.file_size == member.compress_size
    if not known or begin + member.file_size > source.size:
        raise ValueError("its storage is not in the file")
    return begin


def _facts(source: Opened, member: zipfile.ZipInfo) -> dict[str, str]:
    """The metadata of a file that Treadle has written, in a member of its own."""
    if member.file_size > MAX_TEXT:
        raise ValueError(f"{member.file_size} bytes of text are refused")
    facts: dict[str, str] = read_json(_bytes(source, member))
    known = isinstance(facts, dict)
    if not known or not all(isinstance(text, str) for text in facts.values()):
        raise ValueError("the metadata is not text by name")
    return facts


def _bytes(source: Opened, member: zipfile.ZipInfo) -> bytes:
    source.file.seek(_begin(source, member))
    return source.take(member.file_size, member.filename[-40:])


def _array(source: Opened, item: Item) -> Array:
    """The array of a tensor, copied into order where it is a part of its storage."""
    place: _Place = item.place
    if not item.nbytes or place.strides == _in_order(item.shape):
        return source.array(replace(item, place=place.begin))
    flat = source.array(Item(item.name, (place.span,), item.dtype, place.begin))
    steps = tuple(step * item.dtype.itemsize for step in place.strides)
    part = np.lib.stride_tricks.as_strided(flat, item.shape, steps, writeable=False)
    return part if source.view is not None else np.ascontiguousarray(part)


def _in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
