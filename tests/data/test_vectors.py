"""Word vectors from files: both forms, what is wrong with a file, and tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from treadle.base.errors import ArgumentError, DataFileError, ShapeError
from treadle.data import Vocabulary, WordVectors, read_vectors, write_vectors

ROWS = np.array([[1.5, -2.0, 1e-7], [0.1, 3.0, 0.0]], np.float32)


def binary(words: list[str], rows: np.ndarray, newline: str = "\n") -> bytes:
    head = f"{len(words)} {rows.shape[1]}\n".encode()
    pairs = zip(words, rows.astype("<f4"), strict=True)
    return head + b"".join(
        f"{w} ".encode() + row.tobytes() + newline.encode() for w, row in pairs
    )


@pytest.mark.parametrize("header", [True, False])
def test_what_is_written_is_read(tmp_path: Path, header: bool) -> None:
    path = tmp_path / "v.txt"
    write_vectors(path, ["cat", "höhe"], ROWS, header=header)
    found = read_vectors(path)
    assert found.words == ("cat", "höhe") and found.array.dtype == np.float32
    assert found.array.tobytes() == ROWS.tobytes()
    write_vectors(path, ["a"], [[1 / 3]], header=header)
    assert read_vectors(path, dtype="f8").array[0, 0] == 1 / 3


@pytest.mark.parametrize("newline", ["\n", ""])
def test_the_binary_form(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(binary(["cat", "höhe"], ROWS, newline))
    found = read_vectors(path)
    assert found.words == ("cat", "höhe") and found.array.tobytes() == ROWS.tobytes()
    assert read_vectors(path, keep={"höhe"}).array.tolist() == [ROWS[1].tolist()]


def test_words_with_spaces_twice_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2\n. . 3 4 \nb\t5\t6\na 7 8\nc x y\n")
    with pytest.raises(DataFileError, match=r"v\.txt:5: not all are numbers"):
        read_vectors(path)
    found = read_vectors(path, keep=["a", ". .", "b"])
    assert found.words == ("a", ". .", "b")
    assert found.array.tolist() == [[1, 2], [3, 4], [5, 6]]
    unit = read_vectors(path, keep=["a"], normalize=True).array
    np.testing.assert_allclose((unit**2).sum(), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: the file is empty"),
        (b"word\n", ":1: 'word' is no word with numbers"),
        (b"a 1 2\nb 1\n", ":2: there are 1 numbers"),
        (b"a 1 2\n\nb 1 2\n", ":2: the line is empty"),
        (b"a 1 nan\n", ":1: a number is not finite"),
        (b"a 1 1e99\n", ":1: a number is not finite"),
        (b"3 2\na 1 2\n", "says 3 vectors, the file holds 1"),
        (b"1 2\na 1 2\nb 1 2\n", "says 1 vectors, the file holds 2"),
        (b"1 0\n", "width 0"),
        (b"9 99999999999\n", "width 99999999999"),
        (b"a \xff 1\n", "is not UTF-8"),
    ],
)
def test_wrong_texts_are_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=message) as caught:
        read_vectors(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a count and a width"),
        (b"cat 1 2 3\n", "a count and a width"),
        (b"99999999 300\ncat", "are not in 16 bytes"),
        (b"1 0\n", "width 0"),
        (b"1 1\n" + b"x" * 8, "word 1: the file ends within it"),
        (b"1 1\nlonger 12", "word 1: the file ends within its vector"),
        (b"1 1\n" + b"x" * 9000 + b" 1234", "longer than 4096"),
        (b"1 1\n\xff\xff 1234", "not UTF-8"),
        (b"1 1\na " + np.array([np.nan], "<f4").tobytes(), "not finite"),
    ],
)
def test_wrong_binaries_are_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read_vectors(path)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, binary: bool
) -> None:
    path = tmp_path_factory.mktemp("v") / "v"
    path.write_bytes(content)
    try:
        found = read_vectors(path, binary=binary)
    except DataFileError:
        return
    assert len(found.words) == len(found.array)


def test_tables_of_a_vocabulary() -> None:
    words = Vocabulary(["<unk>", "dog", "cat"], unknown="<unk>")
    vectors = WordVectors(("cat", "bird"), np.array([[3.0, 4.0], [1.0, 2.0]], "f4"))
    with td.options(seed=1):
        rows, found = vectors.table(words.words)
    with td.options(seed=1):
        assert vectors.table(words.words)[0].tobytes() == rows.tobytes()
    assert found.tolist() == [False, False, True]
    assert rows[2].tolist() == [3.0, 4.0] and rows[:2].all()
    rows, _ = vectors.table(words.words, missing=td.nn.init.uniform(low=5.0, high=6.0))
    assert (rows[:2] >= 5.0).all()
    table = td.nn.Embedding.from_array(rows, frozen=found)
    td.optim.Adam(lr=0.1).step((table(words.encode(["dog", "cat"])) ** 2).sum())
    after = table.weight.numpy()
    assert after[2].tobytes() == rows[2].tobytes() and (after[1] != rows[1]).all()
    with pytest.raises(ArgumentError, match="rows, width"):
        td.nn.Embedding.from_array([1.0])


def test_a_number_for_a_word(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("9" * 5000 + " 2\n")
    assert read_vectors(path).array.tolist() == [[2.0]]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    for words, error in ((["a b"], ArgumentError), ([""], ArgumentError),
                         (["a", "b"], ShapeError)):  # fmt: skip
        with pytest.raises(error):
            write_vectors(path, words, [[1.0]])
    with pytest.raises(ArgumentError, match="are floats"):
        read_vectors(path, dtype="int32")
    with pytest.raises(DataFileError):
        read_vectors(path)
    assert not path.exists()
