"""CTC beside a sum over all paths; lengths, padding, sequences that are too short."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import differences
from treadle.base.errors import ArgumentError, DTypeError, RunError, ShapeError

RNG = np.random.default_rng(0)


def by_paths(x: Any, labels: list[int], blank: int = 0) -> float:
    """-log of the sum over all ways to write one class a step."""
    total = 0.0
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        read = [c for c, _ in itertools.groupby(path) if c != blank]
        if read == labels:
            total += np.exp(sum(x[t, c] for t, c in enumerate(path)))
    return float(-np.log(total)) if total else np.inf


def scores(t: int, n: int, c: int) -> Any:
    x = RNG.normal(size=(t, n, c))
    return x - np.log(np.exp(x).sum(2, keepdims=True))


def test_all_paths_are_counted() -> None:
    x = scores(4, 5, 3)
    labels = [[1, 2], [1, 1], [2], [], [2, 1, 2]]
    padded = np.full((5, 3), -7)
    for row, own in zip(padded, labels, strict=True):
        row[: len(own)] = own
    steps, counts = [4, 3, 4, 2, 3], [len(own) for own in labels]
    want = [by_paths(x[:t, n], labels[n]) for n, t in enumerate(steps)]
    each = td.ctc_loss(x, padded, steps, counts, reduction="none")
    np.testing.assert_allclose(each.numpy(), want, 1e-9)
    mean = np.mean([w / max(k, 1) for w, k in zip(want, counts, strict=True)])
    np.testing.assert_allclose(float(td.ctc_loss(x, padded, steps, counts)), mean)
    total = td.ctc_loss(x, padded, steps, counts, reduction="sum")
    np.testing.assert_allclose(float(total), sum(want))
    last = td.ctc_loss(x[:, :1], [[0, 1]], blank=2, reduction="sum")
    np.testing.assert_allclose(float(last), by_paths(x[:, 0], [0, 1], 2))


def test_the_gradient_of_a_step_that_is_no_more_is_zero() -> None:
    x = scores(5, 2, 3)

    def loss(x: Any) -> Any:
        return td.ctc_loss(x, [[1, 1], [2, 0]], [5, 3], [2, 1])

    node = td.asarray(x)
    (g,) = td.grad(loss(node), [node])
    np.testing.assert_allclose(g.numpy(), differences(loss, x), 1e-6, 1e-8)
    assert not g.numpy()[3:, 1].any()


def test_a_sequence_too_short_has_no_path() -> None:
    x = td.asarray(scores(2, 2, 3))
    loss = td.ctc_loss(x, [[1, 1], [1, 2]], reduction="none")
    assert loss.numpy()[0] == np.inf and np.isfinite(loss.numpy()[1])
    kept = td.ctc_loss(x, [[1, 1], [1, 2]], zero_infinity=True, reduction="none")
    assert kept.numpy()[0] == 0
    (g,) = td.grad(kept.sum(), [x])
    assert np.isfinite(g.numpy()).all() and not g.numpy()[:, 0].any()


def test_it_runs_compiled_and_learns() -> None:
    x = td.param(init=scores(6, 2, 4).astype(np.float32))
    step = td.optim.SGD(lr=1.0)
    losses = [
        float(step.step(td.ctc_loss(td.log_softmax(x), [[1, 2], [3, 3]])))
        for _ in range(20)
    ]
    assert losses[-1] < losses[0] / 4


def test_wrong_operands_are_told() -> None:
    x = np.zeros((3, 1, 2))
    with pytest.raises(ShapeError, match="takes x\\[time, n, classes\\]"):
        td.ctc_loss(x[0], [[1]])
    with pytest.raises(DTypeError, match="are integers"):
        td.ctc_loss(x, [[1.0]])
    with pytest.raises(ShapeError, match="blank is 2 of 2"):
        td.ctc_loss(x, [[1]], blank=2)
    with pytest.raises(RunError, match="out of range"):
        td.ctc_loss(x, [[5]]).numpy()
    with pytest.raises(ArgumentError, match="has 9 of 3 steps"):
        td.ctc_loss(x, [[1]], [9])
    with pytest.raises(RunError, match=r"has 2 of 1|out of range"):
        td.ctc_loss(x, [[1]], None, td.asarray([2])).numpy()
