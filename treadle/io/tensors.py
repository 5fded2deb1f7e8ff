"""Arrays by name in a file of any format: `save_arrays` and `load_arrays`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from treadle.base import dtypes
from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ModelFileError
from treadle.io.dynet import DyNet
from treadle.io.files import (
    MAX_BYTES,
    FileError,
    PathLike,
    check_name,
    guarded,
    write_atomically,
)
from treadle.io.format import (
    AXES,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    named,
    written,
)
from treadle.io.marian import Marian
from treadle.io.npz import Npz
from treadle.io.safetensors import SafeTensors
from treadle.io.serrano import Serrano
from treadle.io.source import Buffer, is_buffer, opened, place_of
from treadle.io.torch import Torch

FORMATS: tuple[Format, ...] = (
    Torch(), Npz(), SafeTensors(), Marian(), DyNet(), Serrano(),
)  # fmt: skip
_LEAD = 64  # bytes that tell one format from another


def save_arrays(
    path: PathLike,
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by name to a file, whole or not at all; its ending says the format.

    Equal arrays and metadata give equal bytes. Raises ModelFileError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/a.npz", {"w": np.arange(3)}, {"made by": "hand"})
    ...     load_arrays(f"{folder}/a.npz")
    ({'w': array([0, 1, 2])}, {'made by': 'hand'})
    """
    write_file(path, Contents(arrays, metadata or {}))


def load_arrays(
    path: PathLike | Buffer,
    *,
    format: str | None = None,
    error: FileError = ModelFileError,
    max_bytes: int = MAX_BYTES,
) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a file by name, and its metadata.

    Nothing is allocated before every name, dtype, shape and span is known to fit the
    file; a file is data and never runs. Raises `error`.
    """
    with listed(path, format=format, error=error) as (source, listing):
        check_size(listing.items, max_bytes)
        arrays = {
            name: read_item(source, listing, item)
            for name, item in listing.items.items()
        }
        return arrays, dict(listing.metadata)


@contextmanager
def listed(
    source: PathLike | Buffer,
    *,
    format: str | None = None,
    error: FileError = ModelFileError,
    mapped: bool = False,
    key: str | bytes | None = None,
) -> Iterator[tuple[Opened, Listing]]:
    """A source open for reading with what it says it holds; whatever is wrong in it,
    then and while arrays are read, becomes `error`."""
    place = place_of(source)
    chosen = _named(format) if format else None
    if chosen is None and not is_buffer(source):
        chosen = _by_ending(place)
    with opened(source, error, mapped=mapped) as file:
        if chosen is None:
            chosen = _by_lead(file, place, error)
        if key is not None:
            chosen = chosen.under(key)
        if mapped and not chosen.mappable:
            can = ", ".join(f.name for f in FORMATS if f.mappable)
            raise ArgumentError(
                f"{chosen.name} is not read without a copy", hint=f"{can} can be"
            )
        yield file, named(file, chosen.listing(file))


def read_item(source: Opened, listing: Listing, item: Item) -> Array:
    """The array of an item; whatever is wrong with it names it."""
    with source.about(item.name[:60]):
        return listing.read(item)


def check_size(items: Mapping[str, Item], max_bytes: int) -> None:
    """Refuse arrays that take more memory than the caller allows."""
    declared = sum(item.nbytes for item in items.values())
    if declared > max_bytes:
        raise ValueError(f"{declared} bytes declared, {max_bytes} allowed")


def write_file(
    target: PathLike | BinaryIO,
    contents: Contents,
    format: str | None = None,
    key: str | bytes | None = None,
) -> None:
    """Write contents to a file, whole or not at all, or to an open binary file."""
    place = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
    chosen = _named(format) if format else _by_ending(place)
    if chosen is None:
        raise ModelFileError(
            f"{place or 'an open file'}: "
            f"the ending {Path(place).suffix!r} is not known",
            hint=f"known: {', '.join(_endings())}; or say format=",
        )
    writer = chosen if key is None else chosen.under(key)
    facts = contents.metadata
    with guarded(place or "the file", ModelFileError):
        arrays = {check_name(n): _native(a, n) for n, a in contents.arrays.items()}
        for name, array in arrays.items():
            chosen.check(name, array)
        if not all(isinstance(v, str) for pair in facts.items() for v in pair):
            raise ValueError("metadata are text by name")
        if facts and not chosen.keeps_text:
            raise ValueError(f"{chosen.name} keeps no metadata; .npz does")
        if AXES in facts:
            raise ValueError(f"the text {AXES!r} is for the names of axes")
        if contents.axes and not chosen.keeps_text:
            raise ValueError(
                f"{min(contents.axes)!r}: {chosen.name} keeps no axis names; .npz "
                "does, and arrays have none"
            )
        facts = {**facts, **written(contents.axes)}
        ready = Contents(arrays, facts, contents.tables)
        if place:
            write_atomically(place, lambda file: writer.write(file, ready))
        else:
            writer.write(cast(BinaryIO, target), ready)


def _endings() -> list[str]:
    return [ending for f in FORMATS for ending in f.endings]


def _named(name: str) -> Format:
    matching = [f for f in FORMATS if f.name.lstrip(".") == name.lstrip(".")]
    if not matching:
        known = ", ".join(f.name for f in FORMATS)
        raise ArgumentError(f"no format is named {name!r}", hint=f"known: {known}")
    return matching[0]


def _by_ending(path: PathLike) -> Format | None:
    ending = Path(path).suffix.lower()
    return next((f for f in FORMATS if ending in f.endings), None)


def _by_lead(source: Opened, place: str, error: FileError) -> Format:
    """The format that a file without a known ending begins like."""
    lead = source.file.read(_LEAD)
    source.file.seek(0)
    known = next((f for f in FORMATS if f.knows(lead)), None)
    if known is None:
        raise error(
            f"{place}: neither the ending nor the first bytes tell the format",
            hint=f"known: {', '.join(_endings())}",
        )
    return known


def _native(array: Any, name: str) -> Array:
    """Little-endian, contiguous, of a dtype Treadle has."""
    native = np.asarray(whole(array), order="C")
    if native.dtype.newbyteorder("=") not in dtypes.ALL:
        raise ValueError(f"{name!r}: arrays of {native.dtype} cannot be saved")
    return native.astype(native.dtype.newbyteorder("<"), copy=False)
