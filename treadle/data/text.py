"""Plain text, by lines or whole, and files of word|tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from treadle.base.errors import ArgumentError
from treadle.data.source import Source
from treadle.io.files import PathLike

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
