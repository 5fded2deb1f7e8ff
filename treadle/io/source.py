"""Sources of arrays: a file, a mapping of it, a buffer."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, cast

from treadle.base.errors import ArgumentError
from treadle.io.files import FileError, PathLike, guarded, open_regular
from treadle.io.format import Opened

Buffer = bytes | bytearray | memoryview


class _Buffered(io.RawIOBase):
    """Bytes in memory as a file, without a copy of them."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.position = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self.position, len(self.view))[whence]
        if start + offset < 0:
            raise ValueError("a place before the first byte")
        self.position = start + offset
        return self.position

    def readinto(self, target: Any) -> int:
        part = self.view[self.position : self.position + len(target)]
        memoryview(target)[: len(part)] = part
        self.position += len(part)
        return len(part)


def is_buffer(source: Any) -> bool:
    """Whether this is bytes, not the name of a file with some."""
    return isinstance(source, (bytes, bytearray, memoryview, mmap.mmap))


def place_of(source: Any) -> str:
    """The name of a source in messages; refuses what is none."""
    if not is_buffer(source) and not isinstance(source, (str, os.PathLike)):
        raise ArgumentError(
            f"arrays are read from a path or bytes, not {type(source).__name__}"
        )
    return "the buffer" if is_buffer(source) else os.fspath(source)


@contextmanager
def opened(
    source: PathLike | Buffer, error: FileError, *, mapped: bool = False
) -> Iterator[Opened]:
    """A source open for reading; `mapped`: arrays may be parts of it, without a copy.

    Whatever goes wrong inside becomes `error` and names the source.
    """
    about = partial(_about, place_of(source), error)
    with guarded(place_of(source), error):
        if is_buffer(source):
            view = memoryview(cast(Buffer, source)).cast("B").toreadonly()
            file = cast(BinaryIO, io.BufferedReader(_Buffered(view)))
            yield Opened(file, about, view if mapped else None)
            return
        with open_regular(cast(PathLike, source), error) as file:
            size = file.seek(0, 2)
            mapping: memoryview | None = None
            if mapped and size:
                # Arrays hold the mapping, which outlives the open file.
                whole = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                mapping = memoryview(whole)
            yield Opened(file, about, mapping)


def _about(place: str, error: FileError, name: str) -> Any:
    return guarded(place, error, repr(name))
