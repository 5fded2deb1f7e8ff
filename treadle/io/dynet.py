"""DyNet's text format: a line for each parameter's header, one for its numbers."""

from __future__ import annotations

import math
import re
from typing import BinaryIO

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import float32
from treadle.io.files import check_shape
from treadle.io.format import (
    MAX_ITEMS,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    by_name,
)

_WIDTH = 16  # characters of a number with its sign and the blank after it
_MOST_DIMENSIONS = 7
_LONGEST_NUMBER = 64
_CHUNK = 1 << 18
_LONGEST_HEADER = 8192
_HEADER = re.compile(
    rb"#(Lookup)?Parameter# /?([^ #]+) \{([0-9,]*)\} ([0-9]{1,18})"
    rb"(?: (ZERO_GRAD|FULL_GRAD))?\n"
)
_NUMBERS = re.compile(
    rb"\s*(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|inf|nan)\s+)*+"
)


class DyNet(Format):
    """The format of DyNet's ParameterCollection.save and populate.

    Names lose the slash they begin with there. A lookup parameter of n rows has its
    rows last in such a file and first here. Gradients in a file are passed over.
    """

    name = "dynet"
    endings = (".dynet", ".data")
    dtypes = frozenset({float32})
    instead = "convert with x.astype('float32'), or use .npz"
    keeps_text = False

    def knows(self, lead: bytes) -> bool:
        return lead.startswith((b"#Parameter# ", b"#LookupParameter# "))

    def listing(self, source: Opened) -> Listing:
        items: list[Item] = []
        tables: set[str] = set()
        while raw := source.file.readline(_LONGEST_HEADER):
            if len(items) == MAX_ITEMS:
                raise ValueError(f"more than {MAX_ITEMS} parameters are refused")
            item, is_table = _item(source, raw, len(items) + 1)
            items.append(item)
            if is_table:
                tables.add(item.name)
        if not items:
            raise ValueError("the file holds no parameter")

        def read(item: Item) -> Array:
            return _numbers(source, item, item.name in tables)

        return Listing(by_name(items, source), {}, read, frozenset(tables))

    def check(self, name: str, array: Array) -> None:
        super().check(name, array)
        wrong = ""
        if " " in name or "#" in name:
            wrong = "names hold no blank and no '#' in DyNet's format"
        elif not 1 <= array.ndim <= _MOST_DIMENSIONS:
            wrong = (
                f"DyNet's format has 1 to {_MOST_DIMENSIONS} dimensions, not "
                f"{array.ndim}; reshape it, or use .npz"
            )
        elif not np.isfinite(array).all():
            wrong = "DyNet cannot read numbers that are not finite; .npz keeps them"
        if wrong:
            raise ValueError(f"{name!r}: {wrong}")

    def write(self, file: BinaryIO, contents: Contents) -> None:
        # As DyNet, which fills a collection by the order in the file: tables last.
        for name in sorted(contents.arrays, key=contents.tables.__contains__):
            array, is_table = contents.arrays[name], name in contents.tables
            if is_table:
                array = np.moveaxis(array, 0, -1)
            extents = ",".join(map(str, array.shape))
            kind = "LookupParameter" if is_table else "Parameter"
            size = _WIDTH * array.size + 1
            head = f"#{kind}# /{name} {{{extents}}} {size} ZERO_GRAD\n"
            file.write(head.encode())
            flat = array.reshape(-1, order="F")
            for begin in range(0, flat.size, _CHUNK):
                part = flat[begin : begin + _CHUNK].tolist()
                file.write("".join([f"{x:+.8e} " for x in part]).encode())
            file.write(b"\n")


def _item(source: Opened, raw: bytes, number: int) -> tuple[Item, bool]:
    """The parameter of a header, whether it is a table; the file is past its lines."""
    with source.about(f"parameter {number}"):
        match = _HEADER.fullmatch(raw)
        if match is None:
            raise ValueError(f"{raw[:60]!r} is no header of a parameter")
        try:
            name = match[2].decode()
        except UnicodeDecodeError:
            raise ValueError("its name is not UTF-8") from None
    with source.about(name[:60]):
        extents = match[3].split(b",") if match[3] else []
        if len(extents) > _MOST_DIMENSIONS or not all(0 < len(n) < 16 for n in extents):
            raise ValueError(f"{match[3][:60].decode()!r} is not a shape")
        shape = tuple(map(int, extents))
        check_shape(shape, float32)
        if match[1] and not shape:
            raise ValueError("a lookup parameter has rows")
        full = match[5] == b"FULL_GRAD"
        declared, needed = int(match[4]), _WIDTH * math.prod(shape) + 1
        if declared != needed * (2 if full else 1):
            raise ValueError(
                f"{declared} bytes are declared, {list(shape)} takes {needed}"
            )
        place = source.file.tell()
        # Infinities and NaN take fewer characters than the header says; never more.
        for _ in range(2 if full else 1):
            _skip_line(source, 2 * math.prod(shape) + 1, needed)
        if match[1]:
            shape = shape[-1:] + shape[:-1]
        return Item(name, shape, float32, place), bool(match[1])


def _skip_line(source: Opened, shortest: int, longest: int) -> None:
    """Pass over a line of so many bytes at least and at most."""
    length = 0
    while part := source.file.readline(min(_CHUNK, longest + 1 - length)):
        length += len(part)
        if part.endswith(b"\n"):
            if length < shortest:
                raise ValueError(f"its line of {length} bytes is too short")
            return
        if length > longest:
            raise ValueError(f"its line is longer than {longest} bytes")
    raise EOFError("the file ends within its numbers")


def _numbers(source: Opened, item: Item, is_table: bool) -> Array:
    """The numbers of a line, first index fastest; a table's rows one after another."""
    flat = np.empty(math.prod(item.shape), float32)
    source.file.seek(item.place)
    done, rest, ended = 0, b"", False
    while not ended:
        part = source.file.readline(_CHUNK)
        ended = not part or part.endswith(b"\n")
        text = rest + part
        cut = len(text) if ended else text.rfind(b" ") + 1
        text, rest = text[:cut], text[cut:]
        if len(rest) > _LONGEST_NUMBER or not _NUMBERS.fullmatch(text):
            raise ValueError("not all it holds are numbers")
        words = text.split()
        if done + len(words) > flat.size:
            raise ValueError(f"there are more than {flat.size} numbers")
        with np.errstate(over="ignore"):
            flat[done : done + len(words)] = np.array(words, np.float64)
        done += len(words)
    if done != flat.size:
        raise ValueError(f"there are {done} numbers, not {flat.size}")
    if is_table:
        rows, *rest_shape = item.shape
        table = flat.reshape([rows, *rest_shape[::-1]])
        axes = [0, *range(len(rest_shape), 0, -1)]
        return np.ascontiguousarray(table.transpose(axes))
    return np.ascontiguousarray(flat.reshape(item.shape, order="F"))
