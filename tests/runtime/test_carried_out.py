"""What was assigned, has been carried out by a plan and is led to by a recipe: once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

Read = Callable[[Any, Any, Any], Any]


def valued(w: Any, _v: Any, _optimizer: Any) -> Any:
    y = w * w
    y.numpy()
    return y


def stepped(w: Any, v: Any, optimizer: Any) -> Any:
    y = w * w
    optimizer.step((y * v).sum())
    return y


def derived(w: Any, v: Any, optimizer: Any) -> Any:
    y = w * w
    (y * v).sum().backward()
    optimizer.step()
    w.grad = None
    return y


def by_way_of_another(w: Any, _v: Any, _optimizer: Any) -> Any:
    y = td.tanh(w * 0.0) + w * w
    y.sum().item()
    return y


def one_of_several(w: Any, v: Any, optimizer: Any) -> Any:
    top, _ = td.top_k(w * w, w.shape[0])
    optimizer.step((top * v).sum())
    return top


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize(
    "read", [valued, stepped, derived, by_way_of_another, one_of_several]
)
def test_derivatives_and_values_are_of_what_was_read(
    read: Read, size: int, twice: bool
) -> None:
    w = td.param("w", init=np.ones(size, np.float32))
    v = td.param("v", init=np.ones(size, np.float32))
    optimizer, expected = td.optim.SGD([v], lr=0.0), 1.0
    for _ in range(6):
        for _ in range(1 + twice):
            with td.no_grad():
                w.assign(w + 1.0)
            expected += 1.0
        y, seen = read(w, v, optimizer), expected
        with td.no_grad():
            w.assign(w + 1.0)
        expected += 1.0
        w.numpy()
        (g,) = td.grad(y.sum(), [w])
        assert (g.numpy() == 2 * seen).all()
        assert (y.numpy() == seen**2).all()
        assert (w.numpy() == expected).all()
