"""Rows that no cotangent reaches have no part in a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from tests.batch.test_batching import agree, both
from treadle.batch.forest import Groups
from treadle.batch.live import living


def groups(*rows: tuple[int, int, int]) -> Groups:
    turns, starts, counts = np.array(rows, np.int64).reshape(-1, 3).T
    return Groups(turns, starts, counts)


def as_rows(found: Groups) -> list[tuple[int, ...]]:
    columns = found.turns.tolist(), found.starts.tolist(), found.counts.tolist()
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("live", "runs"),
    [
        ([1, 1, 1, 1, 1, 1], [(70, 0, 2), (52, 2, 3), (15, 5, 1)]),
        ([0, 0, 0, 0, 0, 0], []),
        ([0, 1, 1, 0, 1, 0], [(71, 1, 1), (52, 2, 1), (54, 4, 1)]),
        ([1, 0, 0, 1, 1, 1], [(70, 0, 1), (53, 3, 2), (15, 5, 1)]),
    ],
)
def test_runs_of_live_rows(live: list[int], runs: list[tuple[int, ...]]) -> None:
    every = groups((7, 0, 2), (5, 2, 3), (1, 5, 1))
    assert as_rows(living(every, np.array(live, np.bool_), 10)) == runs


def test_a_derivative_that_is_infinite_elsewhere() -> None:
    """The square root of zero has an infinite slope, and is not asked for."""
    weight = td.param("weight", init=np.ones(3), dtype="float64")
    data = [np.full(3, k - 20.0) for k in range(40)]

    def run() -> list[Any]:
        hidden = [td.tanh(td.constant(x, "float64") * weight) for x in data]
        first = td.stack([td.exp(y).sum() for y in hidden]).sum()
        other = td.stack([td.sqrt(y * y).sum() for y in hidden]).sum()
        values = td.evaluate(first, other)
        return [*values, td.grad(first, [weight])[0].numpy()]

    found = both(run)
    assert np.isfinite(found[0][-1]).all()
    agree(found)


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("part", [1, 5, 15])
def test_gradients_of_some_of_the_losses(cells: bool, part: int) -> None:
    net, forest = Net(cells), trees(21, 16)

    def run() -> list[Any]:
        losses = net.losses(forest)
        values = td.evaluate(*losses)
        grads = td.grad(sum(losses[:part]), net.parameters, unused="zero")
        return [*values, *[g.numpy() for g in grads]]

    agree(both(run))


def test_the_same_of_sequences() -> None:
    """What is done ahead for all rows has a part only for those that are reached."""
    cell = td.nn.GRUCell(3, 4, dtype="float64")
    step = td.function(lambda x, h: cell(x, h))
    data = np.random.default_rng(5).normal(size=(8, 6, 3))
    inputs = [td.param("x", init=x, dtype="float64") for x in data]

    def run() -> list[Any]:
        losses = []
        for x in inputs:
            h = td.zeros(4, "float64")
            for own in td.unstack(x):
                h = step(own, h)
            losses.append((h * h).sum())
        values = td.evaluate(*losses)
        grads = td.grad(
            losses[2] + losses[5], [*cell.parameters(), *inputs], unused="zero"
        )
        return [*values, *[g.numpy() for g in grads]]

    agree(both(run))
