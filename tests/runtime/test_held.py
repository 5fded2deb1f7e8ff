"""What somebody holds when a step is done keeps the values of before the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

Made = tuple[Any, list[Any]]


@td.function
def two(x: Any) -> Any:
    return td.tanh(x * 2), td.exp(x)


@td.function
def step(x: Any, state: Any) -> Any:
    h, c = state
    c = td.tanh(h) * 0.5 + c * x
    return td.tanh(c), c


def split_whole(w: Any) -> Made:
    x = td.tanh(w * 2)
    a, b, c = td.split(x, 3)
    return td.sum(a * b * c), [x]


def split_part(w: Any) -> Made:
    a, b, c = td.split(td.tanh(w * 2), 3)
    return td.sum(a * b), [c]


def rows(w: Any) -> Made:
    a, b, c = td.unstack(td.tanh(w * 2))
    return td.sum(a * b), [c, a]


def other_result(w: Any) -> Made:
    a, b = two(w * 1.5)
    return td.sum(a), [b]


def other_results(w: Any) -> Made:
    (a, b), (c, d) = two(w * 1.5), two(w * 0.5)
    return td.sum(a * d), [b, c, a]


def behind_other_result(w: Any) -> Made:
    a, b = two(w * 1.5)
    return td.sum(a), [b + w * 2]


def last_state(w: Any) -> Made:
    x, state = td.ones((4,)) * w[0], (w[1], w[2])
    for _ in range(30):
        state = step(x, state)
    return td.sum(state[0]), [state[1]]


MAKERS = [
    *(split_whole, split_part, rows, other_result, other_results),
    *(behind_other_result, last_state),
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rule", [td.optim.SGD, td.optim.Adam])
def test_values_of_before_the_step(make: Any, rule: Any) -> None:
    w = td.param("w", init=np.linspace(0.1, 0.6, 12).reshape(3, 4))
    optimizer = rule(lr=0.5)
    for _ in range(5):
        expected = [np.array(y.numpy()) for y in make(w)[1]]
        loss, held = make(w)
        optimizer.step(loss)
        for y, before in zip(held, expected, strict=True):
            np.testing.assert_allclose(y.numpy(), before, rtol=1e-5)
