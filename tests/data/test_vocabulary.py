"""Words as numbers: by counts, roles, files, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base.errors import ArgumentError, DataFileError
from treadle.data import Vocabulary

ROLES = {"padding": "<pad>", "unknown": "<unk>", "begin": "<s>", "end": "</s>"}
WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
COUNTS = st.dictionaries(
    st.one_of(WORD, st.sampled_from(["\\", "\\n", "\n", "\r\n", "<unk>", " "])),
    st.integers(0, 4),
)


@settings(deadline=None)
@given(COUNTS, st.sets(st.sampled_from(sorted(ROLES))), st.integers(1, 3), st.data())
def test_counts(
    tmp_path_factory: pytest.TempPathFactory,
    counts: dict[str, int],
    chosen: set[str],
    minimum: int,
    data: st.DataObject,
) -> None:
    roles = {role: ROLES[role] for role in ROLES if role in chosen}
    maximum = data.draw(st.none() | st.integers(max(1, len(roles)), 9))
    words = Vocabulary.from_counts(counts, minimum=minimum, maximum=maximum, **roles)
    shuffled = dict(data.draw(st.permutations(list(counts.items()))))
    again = Vocabulary.from_counts(shuffled, minimum=minimum, maximum=maximum, **roles)
    assert again == words and hash(again) == hash(words)

    ordered = words.words[len(roles) :]
    assert words.words[: len(roles)] == tuple(roles.values())
    keys = [(-counts[word], word) for word in ordered]
    assert keys == sorted(keys) and all(counts[word] >= minimum for word in ordered)
    left = [n for w, n in counts.items() if n >= minimum and w not in words]
    if maximum is None or len(words) < maximum:
        assert not left
    elif left and ordered:
        assert max(left) <= counts[ordered[-1]] and len(words) == maximum

    assert words.decode(words.encode(words.words)) == list(words)
    assert words.encode(words).tolist() == list(range(len(words)))
    path = tmp_path_factory.getbasetemp() / "words.txt"
    words.save(path)
    assert Vocabulary.load(path) == words


@given(st.lists(st.sampled_from("abcxyz")), st.booleans(), st.booleans())
def test_sentences(sentence: list[str], begin: bool, end: bool) -> None:
    words = Vocabulary.from_counts(Counter("aabbc"), **ROLES)
    ids = words.encode(sentence, begin=begin, end=end)
    assert ids.dtype == np.int64 and len(ids) == len(sentence) + begin + end
    known = [word if word in "abc" else "<unk>" for word in sentence]
    assert words.decode(ids, strip=True) == known
    padded = [*ids, *[words.id_of("padding")] * 3]
    assert words.decode(padded, strip=True) == known
    assert len(words.decode(padded)) == len(ids) + 3


def test_it_never_changes() -> None:
    words = Vocabulary(["a", "b"], end="b")
    with pytest.raises(AttributeError):
        words.words = ()  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        words.roles["end"] = "a"  # type: ignore[index]
    with pytest.raises(TypeError):
        words["c"] = 2  # type: ignore[index]
    assert (words.padding, words.unknown, words.begin, words.end) == (
        (None, None, None, "b")
    )
    assert words != Vocabulary(["a", "b"]) and words != ("a", "b")
    assert repr(words) == "<Vocabulary of 2 words, end='b'>"


def test_one_word_may_have_two_roles() -> None:
    words = Vocabulary.from_counts({"a": 1}, begin="</s>", end="</s>")
    assert words.words == ("</s>", "a")
    assert words.encode("a", begin=True, end=True).tolist() == [0, 1, 0]


def test_wrong_arguments() -> None:
    words = Vocabulary(["a", "b"])
    cases: list[tuple[Any, str]] = [
        (lambda: Vocabulary(["a", "b", "a"]), "'a' stands in the vocabulary twice"),
        (lambda: Vocabulary(["a", ""]), "'' is no word"),
        (lambda: Vocabulary(["a", 1]), "1 is no word"),  # type: ignore[list-item]
        (lambda: Vocabulary(["\ud800"]), "no form in UTF-8"),
        (lambda: Vocabulary(["a"], end="b"), "from_counts puts it there"),
        (lambda: Vocabulary.from_counts({1: 2}), "1 is no word"),  # type: ignore[dict-item]
        (lambda: Vocabulary.from_counts({}, maximum=0), "maximum=0 leaves no room"),
        (
            lambda: Vocabulary.from_counts({}, maximum=1, begin="<", end=">"),
            "no room for 2 words",
        ),
        (lambda: words["c"], "'c' is not in the vocabulary of 2 words"),
        (lambda: words.encode(["c"]), "made with unknown="),
        (lambda: words.encode(["a"], end=True), "no word for 'end'"),
        (lambda: words.id_of("stop"), "no word for 'stop'"),
        (lambda: words.decode([0, 2]), "2 is not the number of a word: 0 to 1"),
        (lambda: words.decode([-1]), "-1 is not the number"),
        (lambda: words.decode([0.5]), "whole numbers"),  # type: ignore[list-item]
        (lambda: words.decode(np.zeros((2, 2), int)), "one at a time"),
    ]
    for call, message in cases:
        with pytest.raises(ArgumentError, match=message):
            call()


HEADER = "treadle vocabulary 1\n"


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("", 0, "ends with 0 words of 0"),
        ("words 1\na\n", 1, "does not begin with 'treadle vocabulary 1'"),
        (HEADER, 1, "ends with 0 words of 0"),
        (HEADER + "words 2\na\n", 3, "ends with 1 words of 2"),
        (HEADER + "words 1\na\nb\n", 4, "ends with 2 words of 1"),
        (HEADER + "words -1\na\n", 2, "neither a role nor the number"),
        (HEADER + "stop a\nwords 1\na\n", 2, "neither a role nor the number"),
        (HEADER + "end a\nend a\nwords 1\na\n", 3, "neither a role nor the number"),
        (HEADER + "words 3\na\nb\na\n", 5, "line 3 has this word already"),
        (HEADER + "words 2\na\n\n", 4, "'' is no word"),
        (HEADER + "words 1\n\\x\n", 3, "is written"),
        (HEADER + "end b\nwords 1\na\n", 4, "the end word 'b' is not among"),
    ],
)
def test_files_that_are_wrong(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = tmp_path / "words.txt"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message) as caught:
        Vocabulary.load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_saving_writes_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    Vocabulary(["a\nb", "\\n"], unknown="\\n").save(path)
    lines = ["treadle vocabulary 1", r"unknown \\n", "words 2", r"a\nb", r"\\n", ""]
    assert path.read_text() == "\n".join(lines)
    with pytest.raises(DataFileError, match="No such file"):
        Vocabulary(["a"]).save(tmp_path / "none" / "words.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["words.txt"]
