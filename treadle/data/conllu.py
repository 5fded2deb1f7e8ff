"""CoNLL-U: sentences of annotated words, one a line in ten columns.

https://universaldependencies.org/format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from treadle.base.errors import ArgumentError
from treadle.data.text import Source
from treadle.io.files import PathLike

_WORD = re.compile(r"[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
_HEAD = re.compile(r"0|[1-9][0-9]{0,8}|_")
_HINT = "https://universaldependencies.org/format.html tells the format"


class Row(NamedTuple):
    """A word, a range of words or an empty node: the columns as they are written."""

    id: str
    form: str
    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"
    head: str = "_"
    deprel: str = "_"
    deps: str = "_"
    misc: str = "_"


class _RowError(ArgumentError):
    """An error in a row of a sentence, by its number from 0."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(f"row {row + 1}: {message}", hint=_HINT)
        self.row = row
        self.reason = message


@dataclass(frozen=True)
class Sentence:
    """Rows and the comments before them; `str` gives the lines of the file.

    >>> sentence = Sentence((Row("1", "It", head="2"), Row("2", "works", head="0")))
    >>> sentence.column("form"), sentence.column("head")
    (['It', 'works'], ['2', '0'])
    """

    rows: tuple[Row, ...]
    comments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise ArgumentError("a sentence has at least one row")
        for text in self.comments:
            if not text.startswith("#") or "\n" in text or text.endswith("\r"):
                raise ArgumentError(f"a comment is one line from #, not {text!r}")
        _check(self.rows)

    def column(self, name: str) -> list[str]:
        """The column of the rows called id, form, lemma, upos, ..., misc."""
        if name not in Row._fields:
            raise ArgumentError(
                f"there is no column {name!r}", hint=f"columns: {' '.join(Row._fields)}"
            )
        at = Row._fields.index(name)
        return [row[at] for row in self.rows]

    @property
    def words(self) -> list[str]:
        """The forms of the rows."""
        return [row.form for row in self.rows]

    def only(self, *, ranges: bool, empty: bool) -> Sentence:
        """The sentence with its words, and with ranges or empty nodes if asked for."""
        rows = tuple(
            row
            for row in self.rows
            if ("-" not in row.id or ranges) and ("." not in row.id or empty)
        )
        return self if rows == self.rows else Sentence(rows, self.comments)

    def __str__(self) -> str:
        lines = [*self.comments, *("\t".join(row) for row in self.rows)]
        return "\n".join(lines) + "\n"


def _check(rows: tuple[Row, ...]) -> None:
    """Refuse ids that are not 1, 2, ... with ranges before and empty nodes after."""
    count = sum(row.id.isdigit() for row in rows)
    word = node = covered = opened = 0
    for k, row in enumerate(rows):
        if not all(row) or any("\t" in text or "\n" in text for text in row):
            raise _RowError(k, "a column is empty or holds a tab or a line's end")
        if not _HEAD.fullmatch(row.head) or (row.head != "_" and int(row.head) > count):
            raise _RowError(k, f"the head is 0 to {count} or _, not {row.head!r}")
        if opened and row.id != str(opened):
            raise _RowError(k, f"a range has to stand before word {opened}")
        if _WORD.fullmatch(row.id) and int(row.id) == word + 1:
            word, node, opened = word + 1, 0, 0
        elif m := _RANGE.fullmatch(row.id):
            first, last = int(m[1]), int(m[2])
            if not max(word, covered) < first == word + 1 <= last <= count:
                raise _RowError(k, f"the range {row.id} does not fit {count} words")
            covered, opened = last, first
        elif (m := _EMPTY.fullmatch(row.id)) and int(m[1]) == word:
            if int(m[2]) != node + 1:
                raise _RowError(k, f"the empty node is {word}.{node + 1}, not {row.id}")
            node += 1
        else:
            raise _RowError(k, f"the word after {word} is {word + 1}, not {row.id!r}")


def read_conllu(
    path: PathLike, *, ranges: bool = False, empty: bool = False
) -> Iterator[Sentence]:
    """The sentences of a file: words, and multiword ranges or empty nodes if asked for.

    Raises DataFileError, which names the line.
    """
    return _parsed(Source.file(path), ranges, empty)


def parse_conllu(
    text: str, *, ranges: bool = False, empty: bool = False
) -> list[Sentence]:
    """The sentences of a text, as `read_conllu` gives those of a file.

    >>> lines = ("1-2 don't _", "1 do AUX", "2 n't PART")
    >>> rows = [line.split() for line in lines]
    >>> text = "".join("\\t".join([*row[:2], "_", row[2], *"______"]) + "\\n"
    ...                for row in rows)
    >>> parse_conllu(text)[0].words, parse_conllu(text, ranges=True)[0].words
    (['do', "n't"], ["don't", 'do', "n't"])
    """
    return list(_parsed(Source.text(text), ranges, empty))


def _parsed(source: Source, ranges: bool, empty: bool) -> Iterator[Sentence]:
    comments: list[str] = []
    rows: list[Row] = []
    begin = size = number = 0
    for number, line in source:
        size += len(line)
        if not line:
            if rows:
                yield _sentence(source, begin, rows, comments, ranges, empty)
            comments, rows, size = [], [], 0
        elif line.startswith("#"):
            if rows:
                raise source.wrong(number, "a comment stands among the words", _HINT)
            comments.append(line)
        else:
            columns = line.split("\t")
            if len(columns) != len(Row._fields):
                raise source.wrong(
                    number,
                    f"there are {len(columns)} columns, not {len(Row._fields)}",
                    hint="columns are separated by one tab, sentences by an empty line",
                )
            begin = begin if rows else number
            rows.append(Row(*columns))
            source.check_size(begin, size, "the sentence")
    if rows:
        yield _sentence(source, begin, rows, comments, ranges, empty)


def _sentence(
    source: Source,
    begin: int,
    rows: list[Row],
    comments: list[str],
    ranges: bool,
    empty: bool,
) -> Sentence:
    """The sentence whose rows begin at line `begin`."""
    try:
        whole = Sentence(tuple(rows), tuple(comments))
        return whole.only(ranges=ranges, empty=empty)
    except _RowError as problem:
        raise source.wrong(
            begin + problem.row, problem.reason, problem.hint
        ) from problem
