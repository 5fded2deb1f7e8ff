"""Plain text, numbered by lines or whole, and files of word|tag."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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


_MAX_TEXT = 1 << 30  # characters that read_text gives at once


def read_lines(path: PathLike) -> Iterator[str]:
    """The lines of a file in UTF-8 without their ends; raises DataFileError.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("It works.\\n\\nIt does.")
    ...     file.flush()
    ...     list(read_lines(file.name)), read_text(file.name)[:8]
    (['It works.', '', 'It does.'], 'It works')
    """
    return (line for _, line in Source.file(path))


def read_text(path: PathLike) -> str:
    """The characters of a file, its lines joined by newlines; raises DataFileError."""
    source = Source.file(path)
    lines: list[str] = []
    size = 0
    for number, line in source:
        size += len(line) + 1
        if size > _MAX_TEXT:
            raise source.wrong(
                number,
                f"the text has more than {_MAX_TEXT:,} characters",
                hint="read_lines takes it a line at a time",
            )
        lines.append(line)
    return "\n".join(lines)


class Tagged(NamedTuple):
    """A sentence: words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: PathLike, separator: str = "|") -> Iterator[Tagged]:
    """The sentences of a file with one a line: word|tag word|tag ...

    The last separator of a word counts, so that | itself may be tagged. Empty lines
    are skipped. Raises DataFileError, which names the line.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("Oslo|LOC grows|O ||O\\n")
    ...     file.flush()
    ...     list(read_tagged(file.name))
    [Tagged(words=('Oslo', 'grows', '|'), tags=('LOC', 'O', 'O'))]
    """
    if not separator or separator != "".join(separator.split()):
        raise ArgumentError(f"{separator!r} does not separate a word from its tag")
    return _tagged(Source.file(path), separator)


def _tagged(source: Source, separator: str) -> Iterator[Tagged]:
    for number, line in source:
        # Not split(): that would also cut words at a no-break space.
        items = [item for item in line.replace("\t", " ").split(" ") if item]
        words, tags = [], []
        for place, item in enumerate(items, 1):
            word, _, tag = item.rpartition(separator)
            if not word or not tag:
                raise source.wrong(
                    number,
                    f"item {place}, {item[:40]!r}, is not word{separator}tag",
                    hint="another separator is given as separator=",
                )
            words.append(word)
            tags.append(tag)
        if words:
            yield Tagged(tuple(words), tuple(tags))
