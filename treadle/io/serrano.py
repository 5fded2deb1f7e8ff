"""Serrano's parameters in FlatBuffers: a table of tensors, each a name and floats."""

from __future__ import annotations

import math
import struct
from typing import Any, BinaryIO

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import float32
from treadle.io.format import (
    MAX_ITEMS,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    by_name,
)

_MOST = (1 << 31) - 1  # bytes: places in a FlatBuffer are counted in 31 bits
_IDENTIFIER = b"SRNO"
_LONGEST_NAME = 4096  # bytes
_TENSORS = 0  # the field of the root
_UID, _VALUES, _SHAPE = 0, 1, 2  # the fields of a tensor


class Serrano(Format):
    """The FlatBuffers schema Params{tensors: [Tensor{uid: string, values: [float]}]}.

    Serrano keeps no shapes, so its arrays are vectors here. What Treadle writes has
    them in a third field, shape: [uint], which Serrano's reader passes over.
    """

    name = ".serrano"
    endings = (".fb", ".serrano")
    dtypes = frozenset([float32])
    keeps_text = False
    mappable = True

    def knows(self, lead: bytes) -> bool:
        return lead[4:8] == _IDENTIFIER  # Serrano writes none: its files say format=

    def listing(self, source: Opened) -> Listing:
        if source.size > _MOST:
            raise ValueError(f"{source.size} bytes are more than a FlatBuffer has")
        view = _View(source)
        root = view.table(view.target(0, "the root"), "the root")
        items: list[Item] = []
        if root[_TENSORS]:
            place, count = view.vector(root[_TENSORS], 4, "the tensors")
            if count > MAX_ITEMS:
                raise ValueError(f"{count} tensors are refused, {MAX_ITEMS} are not")
            items = [
                self._item(view, place + 4 * k, f"tensor {k + 1}") for k in range(count)
            ]
        if sum(item.nbytes for item in items) > source.size:
            raise ValueError("tensors share their values")
        return Listing(by_name(items, source), {}, source.array)

    def _item(self, view: _View, place: int, which: str) -> Item:
        with view.source.about(which):
            fields = view.table(view.target(place, "the tensor"), "the tensor")
            if not fields[_UID]:
                raise ValueError("it has no uid")
            uid = view.text(fields[_UID])
        with view.source.about(uid[:60]):
            if not fields[_VALUES]:
                return Item(uid, (0,), float32)
            values, count = view.vector(fields[_VALUES], 4, "the values")
            shape = (count,) if not fields[_SHAPE] else view.shape(fields[_SHAPE])
            if math.prod(shape) != count:
                raise ValueError(f"{count} values are not {list(shape)}")
            return Item(uid, shape, float32, values)

    def check(self, name: str, array: Array) -> None:
        super().check(name, array)
        if len(name.encode()) > _LONGEST_NAME:
            raise ValueError(f"{name[:60]!r}... is too long a name")

    def write(self, file: BinaryIO, contents: Contents) -> None:
        arrays = contents.arrays
        # Everything is laid out forward: what refers comes before what it refers to.
        vtables = struct.pack("<3H2x", 6, 8, 4) + struct.pack("<5H2x", 10, 16, 4, 8, 12)
        root = 8 + len(vtables)
        first = root + 8 + 4 + 4 * len(arrays)
        head = struct.pack("<I4s", root, _IDENTIFIER) + vtables
        head += struct.pack("<iI", root - 8, 4)  # its vtable is before, tensors follow
        head += struct.pack("<I", len(arrays))
        tables = [first + 16 * k for k in range(len(arrays))]
        at = len(head)
        head += b"".join(
            struct.pack("<I", t - at - 4 * k) for k, t in enumerate(tables)
        )
        place, names = first + 16 * len(arrays), b""
        rows: list[list[int]] = []
        for table, (name, array) in zip(tables, arrays.items(), strict=True):
            uid = name.encode()
            shape = struct.pack(f"<{1 + array.ndim}I", array.ndim, *array.shape)
            text = struct.pack("<I", len(uid)) + uid + b"\0"
            text += bytes(-len(text) % 4)
            rows.append(
                [table - 16, place - table - 4, 0, place + len(text) - table - 12]
            )
            names += text + shape
            place += len(text) + len(shape)
        for table, row, array in zip(tables, rows, arrays.values(), strict=True):
            row[2] = place - table - 8
            place += 4 + array.nbytes
        if place > _MOST:
            raise ValueError(f"{place} bytes are more than a FlatBuffer has; .npz does")
        file.write(head + b"".join(struct.pack("<i3I", *row) for row in rows) + names)
        for array in arrays.values():
            file.write(struct.pack("<I", array.size))
            file.write(array.reshape(-1).view(np.uint8).data)


class _View:
    """The places of a FlatBuffer, each looked at once it is known to be in the file."""

    def __init__(self, source: Opened) -> None:
        self.source = source

    def numbers(self, form: str, place: int, what: str) -> tuple[Any, ...]:
        size = struct.calcsize(form)
        if not 0 <= place <= self.source.size - size:
            raise ValueError(f"{what} is at {place}, outside {self.source.size} bytes")
        self.source.file.seek(place)
        return struct.unpack(form, self.source.take(size, what))

    def target(self, place: int, what: str) -> int:
        """The target of an offset that stands at a place."""
        (offset,) = self.numbers("<I", place, what)
        if not offset:
            raise ValueError(f"{what} is nowhere")
        return int(place + offset)

    def table(self, place: int, what: str) -> list[int]:
        """The places of the first fields of a table; 0 for one that is not there."""
        (back,) = self.numbers("<i", place, what)
        vtable = place - back
        size, inline = self.numbers("<2H", vtable, f"the layout of {what}")
        if size < 4 or size % 2 or inline < 4:
            raise ValueError(f"the layout of {what} has {size} bytes")
        count = min((size - 4) // 2, 3)
        fields = self.numbers(f"<{count}H", vtable + 4, f"the layout of {what}")
        if any(0 < field < 4 or field > inline - 4 for field in fields):
            raise ValueError(f"a field of {what} is outside of it")
        places = [place + field if field else 0 for field in fields]
        return places + [0] * (3 - count)

    def vector(self, place: int, width: int, what: str) -> tuple[int, int]:
        """The place of a vector's elements, and their number."""
        begin = self.target(place, what)
        (count,) = self.numbers("<I", begin, what)
        if count * width > self.source.size - begin - 4:
            raise ValueError(f"{what}, {count} of {width} bytes, end outside the file")
        return begin + 4, int(count)

    def text(self, place: int) -> str:
        begin, count = self.vector(place, 1, "the uid")
        if count > _LONGEST_NAME:
            raise ValueError(f"a uid of {count} bytes is refused")
        (raw,) = self.numbers(f"<{count}s", begin, "the uid")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise ValueError("its uid is not UTF-8") from None

    def shape(self, place: int) -> tuple[int, ...]:
        begin, ndim = self.vector(place, 4, "the shape")
        if ndim > 32:
            raise ValueError(f"{ndim} dimensions are too many")
        return self.numbers(f"<{ndim}I", begin, "the shape")
