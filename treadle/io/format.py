"""The contract of a file format: recognized, listed, read, written, with names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, ClassVar

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, bool_
from treadle.base.errors import ArgumentError, AxisError
from treadle.base.types import Names, Type, as_names
from treadle.io.files import check_name, check_shape, fill, read_json

MAX_ITEMS = 65_536  # arrays in one file; what is noted of each stays below 64 MiB
MAX_TEXT = 1 << 24  # bytes of a file's metadata
AXES = "treadle.axes"  # the text that holds axis names: {"weight": ["out", "in"]}
SPECIAL = "special:"  # begins the names under which Marian keeps text, not weights


@dataclass(frozen=True)
class Item:
    """An array as a file's header declares it, checked and not yet read.

    `place` is where its bytes begin, or whatever its format finds it by.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    place: Any = 0
    axes: Names | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_shape(self.shape, self.dtype)

    @property
    def nbytes(self) -> int:
        """The bytes of the array in memory."""
        return check_shape(self.shape, self.dtype)

    @property
    def type(self) -> Type:
        """Shape, dtype and axis names as a tensor has them."""
        return Type(self.shape, self.dtype.newbyteorder("="), self.axes)


@dataclass
class Contents:
    """The contents of a file: arrays ready for it, text by name, which are tables, the
    names of axes.

    A table is a lookup parameter: DyNet writes those in another way.
    """

    arrays: Mapping[str, Array]
    metadata: Mapping[str, str] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    axes: Mapping[str, Names] = field(default_factory=dict)


class Opened:
    """A file somebody else wrote, its size known; `about(name)` names what is wrong."""

    def __init__(
        self,
        file: BinaryIO,
        about: Callable[[str], AbstractContextManager[None]],
        view: memoryview | None = None,
    ) -> None:
        self.file, self.about, self.view = file, about, view
        self.size = file.seek(0, 2)
        file.seek(0)

    def take(self, count: int, what: str) -> bytes:
        """Exactly so many bytes; never more is asked for than the file has left."""
        if count > self.size - self.file.tell():
            raise EOFError(
                f"the file ends within {what} ({count} bytes at {self.file.tell()} "
                f"of {self.size})"
            )
        raw = self.file.read(count)
        if len(raw) != count:
            raise EOFError(f"the file ends within {what}")
        return raw

    def array(self, item: Item) -> Array:
        """The array that lies at an item's place as it lies in memory.

        Without a copy where the file is mapped, unless it is not aligned.
        """
        if self.view is not None:
            if not item.nbytes:
                return _readonly(np.empty(item.shape, item.dtype))
            flat = np.frombuffer(
                self.view, np.uint8, count=item.nbytes, offset=item.place
            )
            if item.dtype == bool_ and (flat > 1).any():
                raise ValueError("a truth value is neither 0 nor 1")
            array = np.ndarray(item.shape, item.dtype, flat.data)
            return _readonly(array if array.flags.aligned else array.copy())
        self.file.seek(item.place)
        return fill(self.file, item.shape, item.dtype)


@dataclass(frozen=True)
class Listing:
    """The listing of a file: its items by name, its text, and how an item is read."""

    items: Mapping[str, Item]
    metadata: Mapping[str, str]
    read: Callable[[Item], Array]
    tables: frozenset[str] = frozenset()


class Format:
    """A format of files that hold arrays by name; one class in one file each.

    `listing` reads what the file says of its arrays and checks it against the file's
    size before anything is allocated; its `read` gives one array.
    """

    name: ClassVar[str]  # as `format=` and messages call it
    endings: ClassVar[tuple[str, ...]]
    dtypes: ClassVar[frozenset[DType]]  # what it can hold
    instead: ClassVar[str] = ".npz has"  # what to do with others
    keeps_text: ClassVar[bool] = True
    mappable: ClassVar[bool] = False  # whether bytes lie in the file as in memory

    def knows(self, lead: bytes) -> bool:
        """Whether a file that begins like this is of the format."""
        raise NotImplementedError

    def listing(self, source: Opened) -> Listing:
        """Everything that the file says it holds, checked."""
        raise NotImplementedError

    def write(self, file: BinaryIO, contents: Contents) -> None:
        """Write arrays that `check` has let pass to an open file."""
        raise NotImplementedError

    def check(self, name: str, array: Array) -> None:
        """Refuse what the format cannot hold, with what would do."""
        if array.dtype.newbyteorder("=") not in self.dtypes:
            raise ValueError(
                f"{name!r}: {self.name} has no {array.dtype.name}; {self.instead}"
            )

    def under(self, key: str | bytes) -> Format:
        """The format whose files are encrypted under a key."""
        raise ArgumentError(
            f"{self.name} is not encrypted; it takes no key", hint=".bin can be"
        )

    def __repr__(self) -> str:
        return f"<format {self.name}>"


def by_name(items: Iterable[Item], source: Opened) -> dict[str, Item]:
    """Items by name, which each has to itself."""
    unique: dict[str, Item] = {}
    for item in items:
        if item.name in unique:
            with source.about(item.name):
                raise ValueError("the name is given twice")
        unique[item.name] = item
    return unique


def _readonly(array: Array) -> Array:
    array.flags.writeable = False
    return array


def special_text(name: str, array: Array) -> str:
    """The text of an array of bytes that Marian pads with NUL."""
    if array.dtype not in (np.int8, np.uint8) or array.ndim != 1:
        raise ValueError(f"{name!r} is not text")
    try:
        return array.tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r} is not UTF-8 text") from None


_LONGEST = 1024


def written(axes: Mapping[str, Names]) -> dict[str, str]:
    """The metadata that keep these names; none where there are none.

    >>> written({"w": ("n", None)})
    {'treadle.axes': '{"w": ["n", null]}'}
    """
    for name, names in axes.items():
        if any(axis is not None and len(axis) > _LONGEST for axis in names):
            raise ValueError(f"{name!r}: an axis has a name of over {_LONGEST} letters")
    return {AXES: json.dumps(dict(axes), sort_keys=True)} if axes else {}


def named(source: Opened, listing: Listing) -> Listing:
    """The listing with the axis names that its metadata hold, which leave those."""
    metadata = dict(listing.metadata)
    text = metadata.pop(AXES, None)
    if text is None:
        return listing
    items = dict(listing.items)
    with source.about(AXES):
        raw = text.encode(errors="surrogatepass")
        if len(raw) > MAX_TEXT:
            raise ValueError(f"{len(raw)} bytes of text are refused")
        entries = read_json(raw)
        if not isinstance(entries, dict):
            raise ValueError("these are not axis names by array")
    for name, names in entries.items():
        with source.about(name[:60]):
            items[name] = _with_axes(items.get(name), names)
    return replace(listing, items=items, metadata=metadata)


def _with_axes(item: Item | None, names: object) -> Item:
    if item is None:
        raise ValueError("axes are named of an array that is not in the file")
    if not isinstance(names, list) or not all(
        axis is None or (isinstance(axis, str) and len(axis) <= _LONGEST)
        for axis in names
    ):
        raise ValueError("its axis names are not a list of text")
    try:
        return replace(item, axes=as_names(tuple(names), item.shape))
    except (AxisError, ArgumentError) as problem:
        raise ValueError(f"its axes are wrong: {problem.message[:200]}") from None
