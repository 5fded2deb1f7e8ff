"""Random numbers of a batch: by the loader's seed, the epoch and the batch's number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from treadle.base.errors import StateError

Key = tuple[int, int, int]  # seed, epoch, number of the batch

_current: ContextVar[np.random.Generator | Key | None] = ContextVar(
    "treadle_batch", default=None
)


def _philox(key: Key) -> np.random.Philox:
    """Draws apart from those of the order, whose counters begin at 0."""
    seed, epoch, number = key
    words = np.array([seed % 2**64, epoch], np.uint64)
    return np.random.Philox(key=words, counter=[0, 0, number, 1])


@contextmanager
def batch_draws(key: Key) -> Iterator[None]:
    """Has `generator()` draw for a batch while it is made."""
    token = _current.set(key)
    try:
        yield
    finally:
        _current.reset(token)


def seed_globals(key: Key) -> None:
    """Seed the generators that Python and NumPy share: in a worker nobody else's."""
    words = _philox(key).random_raw(2)
    random.seed(int(words[0]))
    np.random.seed(int(words[1]) % 2**32)


def generator() -> np.random.Generator:
    """The random generator of the batch that a Loader is making in this thread.

    Its numbers follow from the loader's seed, the epoch and the number of the batch:
    they are the same in the loop's own process, in a thread and in any worker, and
    after `restore`. It is for `transform`, `collate` and data sets of your own.
    Raises StateError outside of them.

    >>> from treadle.data import ListDataset, Loader
    >>> data = ListDataset([1, 2], collate=lambda xs: generator().integers(100))
    >>> loader, same = Loader(data, 1, seed=3), Loader(data, 1, seed=3)
    >>> list(loader) == list(same)
    True
    """
    current = _current.get()
    if current is None:
        raise StateError(
            "no batch is being made here",
            hint="td.data.generator() is for transform, collate and data sets",
        )
    if isinstance(current, tuple):
        current = np.random.Generator(_philox(current))
        _current.set(current)
    return current
