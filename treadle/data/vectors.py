"""Word vectors in files of word2vec and GloVe, and tables made of them."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, DataFileError, ShapeError
from treadle.data.text import MAX_ITEM, Source
from treadle.graph.scope import initial_array
from treadle.io.files import PathLike, guarded, open_regular, write_atomically
from treadle.nn import init

Rows = Iterator[tuple[str, Any]]


class WordVectors(NamedTuple):
    """Words, and an array (words, width) with a vector for each."""

    words: tuple[str, ...]
    array: Array

    def table(self, words: Iterable[str], missing: Any = None) -> tuple[Array, Array]:
        """(rows in the order of `words`, such as a Vocabulary's; which were found).

        The others are drawn from a normal distribution as wide as the vectors, or are
        what `missing` says: a number or an initializer.

        >>> vectors = WordVectors(("cat",), np.array([[3.0, 4.0]], "f4"))
        >>> [x.tolist() for x in vectors.table(["dog", "cat"], missing=0.0)]
        [[[0.0, 0.0], [3.0, 4.0]], [False, True]]
        """
        places = {word: k for k, word in enumerate(self.words)}
        ids = np.array([places.get(word, -1) for word in words], np.int64)
        known = ids >= 0
        if missing is None:
            deviation = float(self.array.std()) if self.array.size else 1.0
            missing = init.normal(std=deviation)
        shape = (len(ids), self.array.shape[1])
        rows = np.array(initial_array(missing, shape, self.array.dtype))
        rows[known] = self.array[ids[known]]
        return rows, known


def read_vectors(
    path: PathLike,
    keep: Container[str] | None = None,
    *,
    normalize: bool = False,
    binary: bool | None = None,
    dtype: Any = np.float32,
) -> WordVectors:
    """The vectors of a file: a line each, "word 0.1 0.2 ...", as GloVe writes them;
    word2vec puts a line with their count and width before.

    `binary`, where the name ends in .bin unless said otherwise, is word2vec's other
    form. Only words in `keep` are taken, of one that comes twice the first. `normalize`
    makes all lengths 1. Nothing is allocated that the file does not hold. Raises
    DataFileError, which names the line, or in binary files the word by its number.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("2 2\\ncat 3 4\\ndog 0 1\\n")
    ...     file.flush()
    ...     vectors = read_vectors(file.name, normalize=True)
    >>> vectors.words, vectors.array.round(1).tolist()
    (('cat', 'dog'), [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]])
    """
    wanted = np.dtype(dtype)
    if wanted.kind != "f":
        raise ArgumentError(f"word vectors are floats, not {wanted}")
    whole = os.fspath(path).endswith(".bin") if binary is None else binary
    rows = _binary(path) if whole else _text(path)
    _, width = next(rows)
    vectors: dict[str, Array] = {}
    for word, values in rows:
        if (keep is None or word in keep) and word not in vectors:
            vectors[word] = values().astype(wanted)
    array = np.zeros((len(vectors), width), wanted)
    for k, vector in enumerate(vectors.values()):
        array[k] = vector
    if normalize:
        norms = np.sqrt((array.astype(np.float64) ** 2).sum(1, keepdims=True))
        array = (array / np.where(norms == 0, 1.0, norms)).astype(wanted)
    return WordVectors(tuple(vectors), array)


def _text(path: PathLike) -> Rows:
    """The width, then words with what makes their vectors."""
    source = Source.file(path)
    count = width = None
    seen = number = 0
    for number, line in source:
        text = line.replace("\t", " ").rstrip(" ")
        if number == 1:
            parts = text.split(" ")
            if len(parts) == 2 and all(map(_is_count, parts)):
                count, width = int(parts[0]), int(parts[1])
                if not 1 <= width <= MAX_ITEM:
                    raise source.wrong(1, f"vectors of width {width} there are none")
                yield "", width
                continue
        if width is None:
            width = text.count(" ")
            if not width:
                raise source.wrong(
                    number,
                    f"{text[:40]!r} is no word with numbers",
                    hint='a line is "word 0.1 0.2 ...", the first may be "count width"',
                )
            yield "", width
        if not text:
            raise source.wrong(number, "the line is empty")
        # A word may hold spaces, so numbers are counted from the end.
        word, *numbers = text.rsplit(" ", width)
        if len(numbers) != width or not word:
            raise source.wrong(
                number,
                f"there are {len(text.split(' ')) - 1} numbers after the word, not "
                f"{width}",
                hint="the file is cut off, or of another width",
            )
        seen += 1
        yield word, _Line(source, number, numbers)
    if width is None:
        raise source.wrong(1, "the file is empty")
    if count is not None and seen != count:
        raise source.wrong(
            number, f"the first line says {count} vectors, the file holds {seen}"
        )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


class _Line:
    """The numbers of a line, read when its word is taken."""

    __slots__ = ("number", "numbers", "source")

    def __init__(self, source: Source, number: int, numbers: Sequence[str]) -> None:
        self.source, self.number, self.numbers = source, number, numbers

    def __call__(self) -> Array:
        try:
            values = np.array(self.numbers, np.float64)
        except ValueError as problem:
            raise self.source.wrong(
                self.number, f"not all are numbers: {str(problem)[:80]}"
            ) from problem
        if not np.isfinite(values).all() or np.abs(values).max() > 1e30:
            raise self.source.wrong(self.number, "a number is not finite")
        return values


def _binary(path: PathLike) -> Rows:
    """The rows of a file in word2vec's binary form, as `_text` gives them."""
    with open_regular(path, DataFileError) as file, guarded(path, DataFileError):
        size = file.seek(0, 2)
        file.seek(0)
        head = file.readline(64).split()
        if len(head) != 2 or not all(p.isdigit() and len(p) < 16 for p in head):
            raise ValueError("it does not begin with a count and a width")
        count, width = int(head[0]), int(head[1])
        if not width or count * (4 * width + 1) > size:
            raise ValueError(
                f"{count} vectors of width {width} are not in {size} bytes"
            )
        yield "", width
        for number in range(1, count + 1):
            with guarded(path, DataFileError, f"word {number}"):
                word = _word(file)
                raw = file.read(4 * width)
                if len(raw) != 4 * width:
                    raise EOFError("the file ends within its vector")
                values = np.frombuffer(raw, "<f4")
                if not np.isfinite(values).all():
                    raise ValueError("a number is not finite")
            yield word, values.copy


def _word(file: BinaryIO) -> str:
    """The bytes before a space, as text."""
    text = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte:
            raise EOFError("the file ends within it")
        text += byte
        if len(text) > 4096:
            raise ValueError("it is longer than 4096 bytes")
    try:
        return text.decode().lstrip("\n")
    except UnicodeDecodeError as problem:
        raise ValueError("it is not UTF-8") from problem


def write_vectors(
    path: PathLike, words: Sequence[str], array: Any, *, header: bool = True
) -> None:
    """Write a vector a line, word2vec's header first; the file is whole or not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_vectors(f"{folder}/v.txt", ["cat"], [[0.5, 1.0]])
    ...     open(f"{folder}/v.txt").read()
    '1 2\\ncat 0.5 1\\n'
    """
    rows = np.asarray(whole(array))
    words = list(words)
    if rows.ndim != 2 or len(rows) != len(words) or not rows.shape[1]:
        raise ShapeError(f"{len(words)} words with vectors {rows.shape}")
    for word in words:
        if not word or word != "".join(word.split()):
            raise ArgumentError(f"{word!r} is no word that a line can begin with")
    digits = 17 if rows.dtype == np.float64 else 9

    def write(file: BinaryIO) -> None:
        if header:
            file.write(f"{len(words)} {rows.shape[1]}\n".encode())
        for word, row in zip(words, rows.tolist(), strict=True):
            text = " ".join(f"{value:.{digits}g}" for value in row)
            file.write(f"{word} {text}\n".encode())

    write_atomically(path, write)
