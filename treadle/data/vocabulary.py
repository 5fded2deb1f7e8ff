"""Words as numbers, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, DataFileError
from treadle.data.text import Source
from treadle.io.files import PathLike, guarded, write_atomically

_HEADER = "treadle vocabulary 1"
_ROLES = ("padding", "unknown", "begin", "end")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


class Vocabulary:
    """Distinct words, numbered from 0 in their order; it never changes.

    Up to four of the words have a role: `padding` fills rows up, `unknown` stands for
    every word that is not there, `begin` and `end` frame a sentence.

    >>> words = Vocabulary(["?", "</s>", "it", "works"], unknown="?", end="</s>")
    >>> words.encode(["it", "never", "works"], end=True)
    array([2, 0, 3, 1])
    >>> words.decode([2, 3, 1, 1]), words.decode([2, 3, 1, 1], strip=True)
    (['it', 'works', '</s>', '</s>'], ['it', 'works'])
    >>> words["it"], "never" in words, len(words), words.end
    (2, False, 4, '</s>')
    """

    def __init__(
        self,
        words: Iterable[str],
        *,
        padding: str | None = None,
        unknown: str | None = None,
        begin: str | None = None,
        end: str | None = None,
    ) -> None:
        self._words = tuple(words)
        self._ids = {word: k for k, word in enumerate(self._words)}
        for word in self._words:
            _check_word(word)
        if len(self._ids) < len(self._words):
            twice = next(w for k, w in enumerate(self._words) if self._ids[w] != k)
            raise ArgumentError(f"{twice!r} stands in the vocabulary twice")
        pairs = zip(_ROLES, (padding, unknown, begin, end), strict=True)
        self._roles = {role: word for role, word in pairs if word is not None}
        for role, word in self._roles.items():
            if word not in self._ids:
                raise ArgumentError(
                    f"the {role} word {word!r} is not among the words",
                    hint="Vocabulary.from_counts puts it there",
                )

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        *,
        minimum: int = 1,
        maximum: int | None = None,
        padding: str | None = None,
        unknown: str | None = None,
        begin: str | None = None,
        end: str | None = None,
    ) -> Vocabulary:
        """Words counted at least `minimum` times, the most frequent first.

        Equal counts are in the order of the words, so no order of reading shows. Words
        with a role come before all others. `maximum` bounds the size, roles included.

        >>> from collections import Counter
        >>> counts = Counter("the cat saw the dog and the dog ran".split())
        >>> Vocabulary.from_counts(counts, maximum=4, unknown="<unk>").words
        ('<unk>', 'the', 'dog', 'and')
        """
        chosen = (padding, unknown, begin, end)
        roles = list(dict.fromkeys(word for word in chosen if word is not None))
        if maximum is not None and maximum < max(1, len(roles)):
            raise ArgumentError(
                f"maximum={maximum} leaves no room for {len(roles)} words with a role"
            )
        for word in counts:
            _check_word(word)
        frequent = [
            word
            for word, count in counts.items()
            if count >= minimum and word not in roles
        ]
        frequent.sort(key=lambda word: (-counts[word], word))
        most = None if maximum is None else maximum - len(roles)
        words = [*roles, *islice(frequent, most)]
        return cls(words, padding=padding, unknown=unknown, begin=begin, end=end)

    # -- words and numbers ---------------------------------------------------------

    def encode(
        self, words: Iterable[str], *, begin: bool = False, end: bool = False
    ) -> Array:
        """The numbers of words as int64, framed by `begin` and `end` if asked for."""
        if unknown := self._roles.get("unknown"):
            other = self._ids[unknown]
            ids = [self._ids.get(word, other) for word in words]
        else:
            ids = [self[word] for word in words]
        first = [self.id_of("begin")] if begin else []
        last = [self.id_of("end")] if end else []
        return np.array([*first, *ids, *last], np.int64)

    def decode(self, ids: Iterable[int], *, strip: bool = False) -> list[str]:
        """The words of numbers; `strip` leaves out the frame and the padding."""
        numbers = np.asarray(whole(ids) if isinstance(ids, np.ndarray) else list(ids))
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ArgumentError("a sequence of whole numbers is decoded, one at a time")
        wrong = (numbers < 0) | (numbers >= len(self))
        if wrong.any():
            raise ArgumentError(
                f"{numbers[wrong][0]} is not the number of a word: 0 to {len(self) - 1}"
            )
        words = [self._words[k] for k in numbers.tolist()]
        if not strip:
            return words
        if self.end in words:
            words = words[: words.index(self.end)]
        return [word for word in words if word not in (self.begin, self.padding)]

    def __getitem__(self, word: str) -> int:
        number = self._ids.get(word)
        if number is not None:
            return number
        if not self.unknown:
            raise ArgumentError(
                f"{word!r} is not in the vocabulary of {len(self)} words",
                hint="a vocabulary made with unknown= gives such words one number",
            )
        return self._ids[self.unknown]

    def id_of(self, role: str) -> int:
        """The number of the word for "padding", "unknown", "begin" or "end"."""
        word = self._roles.get(role)
        if word is None:
            raise ArgumentError(
                f"the vocabulary has no word for {role!r}",
                hint=f"make it with {role}=..." if role in _ROLES else "",
            )
        return self._ids[word]

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    @property
    def words(self) -> tuple[str, ...]:
        """The words by their numbers."""
        return self._words

    @property
    def roles(self) -> Mapping[str, str]:
        """The words that have a role, by role."""
        return MappingProxyType(self._roles)

    @property
    def padding(self) -> str | None:
        """The word that fills rows up."""
        return self._roles.get("padding")

    @property
    def unknown(self) -> str | None:
        """The word for what is not there."""
        return self._roles.get("unknown")

    @property
    def begin(self) -> str | None:
        """The word before a sentence."""
        return self._roles.get("begin")

    @property
    def end(self) -> str | None:
        """The word after a sentence."""
        return self._roles.get("end")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return (self._words, self._roles) == (other._words, other._roles)

    def __hash__(self) -> int:
        return hash((self._words, tuple(self._roles.items())))

    def __repr__(self) -> str:
        roles = "".join(f", {role}={word!r}" for role, word in self._roles.items())
        return f"<Vocabulary of {len(self)} words{roles}>"

    # -- files ---------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the words as text, one a line after those with a role, or nothing."""
        lines = [_HEADER]
        lines += [f"{role} {_escaped(word)}" for role, word in self._roles.items()]
        lines += [f"words {len(self)}", *map(_escaped, self._words)]
        with guarded(path, DataFileError):
            write_atomically(path, "".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def load(cls, path: PathLike) -> Vocabulary:
        """The vocabulary that `save` wrote; raises DataFileError, naming the line.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Vocabulary(["a", "b"], end="b").save(f"{folder}/words.txt")
        ...     Vocabulary.load(f"{folder}/words.txt")
        <Vocabulary of 2 words, end='b'>
        """
        return _loaded(Source.file(path))


def _check_word(word: object) -> None:
    """Refuse what no file could hold."""
    if not isinstance(word, str) or not word:
        raise ArgumentError(f"{word!r} is no word: a text of at least one character")
    if not word.isascii():
        try:
            word.encode()
        except UnicodeEncodeError as problem:
            raise ArgumentError(f"{word!r} has no form in UTF-8") from problem


def _escaped(word: str) -> str:
    for plain, escape in _ESCAPES.items():
        word = word.replace(plain, escape)
    return word


def _plain(text: str) -> str:
    """The inverse of `_escaped`; ValueError where nothing escapes to the text."""
    if "\\" not in text:
        return text
    parts = text.split("\\\\")
    for escape, plain in (("\\n", "\n"), ("\\r", "\r")):
        parts = [part.replace(escape, plain) for part in parts]
    if any("\\" in part for part in parts):
        raise ValueError("a \\ is written \\\\, a line's end \\n or \\r")
    return "\\".join(parts)


def _loaded(source: Source) -> Vocabulary:
    roles: dict[str, str] = {}
    words: dict[str, int] = {}
    declared = -1
    number = 0
    for number, line in source:
        try:
            if number == 1:
                if line != _HEADER:
                    raise ValueError(f"the file does not begin with {_HEADER!r}")
            elif declared >= 0:
                word = _plain(line)
                _check_word(word)
                if words.setdefault(word, number) != number:
                    raise ValueError(f"line {words[word]} has this word already")
            else:
                declared = _declared(line, roles)
        except ArgumentError as problem:
            raise source.wrong(number, problem.message) from problem
        except ValueError as problem:
            hint = "Vocabulary.save writes such files"
            raise source.wrong(number, str(problem), hint) from problem
    if declared != len(words):
        raise source.wrong(
            number,
            f"the file ends with {len(words)} words of {max(declared, 0)}",
            hint="the file is cut off or was changed by hand",
        )
    try:
        return Vocabulary(words, **roles)
    except ArgumentError as problem:
        raise source.wrong(number, problem.message) from problem


def _declared(line: str, roles: dict[str, str]) -> int:
    """The number of words, or -1 after a line that gives a role."""
    name, _, text = line.partition(" ")
    if name == "words" and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if name not in _ROLES or not text or name in roles:
        raise ValueError(f"{line[:40]!r} gives neither a role nor the number of words")
    roles[name] = _plain(text)
    return -1
