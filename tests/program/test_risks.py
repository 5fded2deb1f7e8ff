"""What can find its data wrong runs before anything is written over a Variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

WIDTH, ROWS, COUNT = 6, 40, 35


class Words:
    """A table of which some rows are read and changed, and weights that all are.

    With `rows` words run as rows, so the update is a program of its own, which reads
    rows of the table after all else; otherwise a step is one program.
    """

    def __init__(self, rows: bool) -> None:
        self.rows = rows
        draw = np.random.default_rng(3)
        self.table = td.nn.Embedding(ROWS, WIDTH)
        self.first = td.nn.Linear(WIDTH, 8)
        self.last = td.nn.Linear(8, 3)
        self.optimizer = td.optim.Adam(lr=0.01)
        self.labels = td.asarray(draw.integers(0, 3, COUNT))
        self.score = td.function(lambda x: self.last(td.tanh(self.first(x))))

    def parameters(self) -> list[Any]:
        parts = self.table, self.first, self.last
        return [p for part in parts for p in part.parameters()]

    def variables(self) -> list[Any]:
        return [*self.parameters(), *self.optimizer.states()]

    def step(self, ids: Any) -> None:
        if self.rows:
            scores = td.stack([self.score(self.table(k)) for k in ids.tolist()])
        else:
            scores = self.score(self.table(td.asarray(ids)))
        self.optimizer.step(td.nn.functional.cross_entropy(scores, self.labels))


@pytest.mark.parametrize("rows", [True, False])
def test_all_is_written_where_it_lies(rows: bool) -> None:
    words, draw = Words(rows), np.random.default_rng(4)
    for _ in range(3):
        words.step(draw.integers(0, ROWS, COUNT))
    large = [v for v in words.variables() if v.type.ndim]
    assert len(large) == 3 * len(words.parameters())
    places = [v.committed.array.ctypes.data for v in large]
    for _ in range(2):
        words.step(draw.integers(0, ROWS, COUNT))
        assert [v.committed.array.ctypes.data for v in large] == places


@pytest.mark.parametrize("rows", [True, False])
def test_a_wrong_position_changes_nothing(rows: bool) -> None:
    words, draw = Words(rows), np.random.default_rng(5)
    for _ in range(3):
        words.step(draw.integers(0, ROWS, COUNT))
    before = [v.numpy().copy() for v in words.variables()]
    with pytest.raises(td.TreadleError):
        words.step(np.array([*range(COUNT - 1), ROWS]))
    for old, v in zip(before, words.variables(), strict=True):
        np.testing.assert_array_equal(old, v.numpy())
    words.step(draw.integers(0, ROWS, COUNT))
