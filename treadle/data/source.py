"""Numbered lines of a file or of a text, and errors that say where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from treadle.base.errors import ArgumentError, DataFileError, TreadleError
from treadle.io.files import FileError, PathLike, open_regular

MAX_ITEM = 1 << 26  # bytes of the longest line, tree or sentence there may be


@dataclass(frozen=True)
class Source:
    """Lines with their numbers; `wrong` makes the error for one of them.

    >>> list(Source.text("a\\nb"))
    [(1, 'a'), (2, 'b')]
    >>> Source.text("a\\nb").wrong(2, "this is no tree").message
    'text:2: this is no tree'
    """

    place: str
    error: FileError
    lines: Iterator[tuple[int, str]]

    @classmethod
    def file(cls, path: PathLike) -> Source:
        """The lines of a file in UTF-8; it is opened when the first is asked for."""
        return cls(os.fspath(path), DataFileError, _numbered(path))

    @classmethod
    def text(cls, text: str) -> Source:
        """The lines of a text that is at hand."""
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        return cls("text", ArgumentError, enumerate(lines, 1))

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self.lines

    def wrong(self, number: int, message: str, hint: str = "") -> TreadleError:
        """The error that line `number` makes."""
        return self.error(f"{self.place}:{number}: {message}", hint=hint)

    def check_size(self, number: int, size: int, what: str) -> None:
        """Refuse what began at line `number` if it is longer than anything real."""
        if size > MAX_ITEM:
            raise self.wrong(
                number,
                f"{what} is longer than {MAX_ITEM:,} bytes",
                hint="is this another kind of file?",
            )


def _numbered(path: PathLike) -> Iterator[tuple[int, str]]:
    source = Source(os.fspath(path), DataFileError, iter(()))
    number = 0
    with open_regular(path, DataFileError) as file:
        while raw := file.readline(MAX_ITEM + 1):
            number += 1
            source.check_size(number, len(raw), "the line")
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            try:
                line = raw.decode()
            except UnicodeDecodeError as problem:
                raise source.wrong(
                    number,
                    f"byte {problem.start + 1} of the line is not UTF-8",
                    hint="iconv -f LATIN1 -t UTF-8 converts a file of older days",
                ) from problem
            yield number, line.removesuffix("\n").removesuffix("\r")
