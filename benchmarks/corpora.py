"""Trees with sentiments and sentences with tags: of files, else random of their kind.

TREADLE_DATA names a folder with `sst/train.txt`, a tree such as (3 (2 good) (2 film))
a line, and `wikiner/dev.txt`, a sentence such as `In|O Rome|I-LOC` a line.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "SENTENCES",
    "TREES",
    "Sentence",
    "Tree",
    "numbered",
    "sentences",
    "source",
    "trees",
]

TREES, SENTENCES = "sst/train.txt", "wikiner/dev.txt"
TAGS = {"O": 0.835, "I-ORG": 0.05, "I-PER": 0.042, "I-LOC": 0.037, "I-MISC": 0.036}
Tree = Any  # a word, or a pair of trees
Sentence = list[tuple[str, str]]  # words with their tags
_COUNT = 1696  # random sentences: as many as the file has
_TOKENS = re.compile(r"[()]|[^\s()]+")


def _lines(name: str) -> list[str] | None:
    folder = os.environ.get("TREADLE_DATA")
    if not folder or not (Path(folder) / name).exists():
        return None
    return (Path(folder) / name).read_text(encoding="utf-8").splitlines()


def source(name: str) -> str:
    """Where the data of this name comes from, in words."""
    if _lines(name) is not None:
        return f"data: {name} of TREADLE_DATA"
    return f"data: random, of the lengths and words of {name}; TREADLE_DATA has none"


def trees(count: int, longest: int = 0) -> list[tuple[Tree, int]]:
    """The first trees with their labels (0 to 4), of up to `longest` words if that is.

    Random ones have lengths about 19 and words after Zipf's law.
    """
    lines = _lines(TREES)
    found = map(_parsed, lines) if lines is not None else _random_trees(longest)
    fits = (t for t in found if not longest or _size(t[0]) <= longest)
    return list(islice(fits, count))


def _parsed(line: str) -> tuple[Tree, int]:
    """The tree of a line and the label of its root.

    >>> _parsed("(3 (2 good) (1 (2 old) (2 film)))")
    (('good', ('old', 'film')), 3)
    """
    open_: list[list[Any]] = [[]]
    label = 0
    for token in _TOKENS.findall(line):
        if token == "(":
            open_.append([])
        elif token == ")":
            first, *parts = open_.pop()
            label = int(first)
            open_[-1].append(parts[0] if len(parts) == 1 else tuple(parts))
        else:
            open_[-1].append(token)
    return open_[0][0], label


def _size(tree: Tree) -> int:
    return 1 if isinstance(tree, str) else sum(map(_size, tree))


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """Words after Zipf's law, of 16,000."""
    ranks = np.arange(1, 16_001)
    chances = 1 / ranks
    drawn = rng.choice(ranks, count, p=chances / chances.sum())
    return [f"w{k}" for k in drawn]


def _random_trees(longest: int) -> Any:
    rng = np.random.default_rng(3)

    def split(words: Sequence[str]) -> Tree:
        if len(words) == 1:
            return words[0]
        k = int(rng.integers(1, len(words)))
        return split(words[:k]), split(words[k:])

    mean = min(19.1, longest or 99)
    while True:
        n = int(np.clip(round(rng.gamma(4.2, mean / 4.2)), 1, longest or 52))
        yield split(_words(rng, n)), int(rng.integers(5))


def sentences(longest: int = 0) -> list[Sentence]:
    """All sentences, of up to `longest` words if that is.

    Random ones have lengths about 23, words after Zipf's law, tags as often as there.
    """
    lines = _lines(SENTENCES)
    if lines is None:
        return _random_sentences(longest)
    pairs = partial(str.rsplit, sep="|", maxsplit=1)
    found = [[(w, t) for w, t in map(pairs, line.split())] for line in lines if line]
    return [s for s in found if not longest or len(s) <= longest]


def _random_sentences(longest: int) -> list[Sentence]:
    rng = np.random.default_rng(4)
    mean = min(23.0, longest or 99)
    lengths = np.clip(rng.gamma(3.5, mean / 3.5, _COUNT).round(), 1, longest or 144)
    ends = np.cumsum(lengths.astype(int)).tolist()
    words = _words(rng, ends[-1])
    tags = rng.choice(list(TAGS), ends[-1], p=list(TAGS.values())).tolist()
    pairs = list(zip(words, tags, strict=True))
    return [pairs[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def numbered(words: Sequence[str], least: int, first: int = 0) -> dict[str, int]:
    """Ids from `first` on of words that occur `least` times, the most common first.

    >>> numbered("to be or not to be".split(), 2, first=1)
    {'to': 1, 'be': 2}
    """
    known = [w for w, n in Counter(words).most_common() if n >= least]
    return {w: k for k, w in enumerate(known, first)}
