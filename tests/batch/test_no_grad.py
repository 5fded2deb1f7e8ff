"""Rows of nodes that were made without gradients: derivatives end there, as they do
node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.runtime.rows import counts

STEPS, WIDTH = 7, 4
Step = Callable[[Any, Any, Any], Any]


def _weights() -> list[Any]:
    square = np.cos(np.arange(WIDTH * WIDTH)).reshape(WIDTH, WIDTH)
    return [td.param(init=square), td.param(init=square.T * 0.5)]


def _data() -> Any:
    return np.linspace(-1, 1, 3 * STEPS * WIDTH).reshape(STEPS, 3, WIDTH)


def of_one_op(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        a = td.sin(h)
    return a @ u


def of_several(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        a = td.sin(h @ w) + h
    return a @ u + h * 0.5


def of_moves(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        a = h.T[1:3] @ w[:3]
    return h @ u + a.sum(0)


def of_weights(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        a = td.exp(w)
    return h @ (a * 0.1) + h @ (td.exp(w) * 0.1) @ u


def of_a_loss(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        shares = td.nn.functional.softmax(h, -1)
    return td.log(shares) * 0.1 + h @ u


@td.function
def cell(h: Any, w: Any) -> Any:
    return td.tanh(h @ w) + h


def of_calls(h: Any, w: Any, u: Any) -> Any:
    with td.no_grad():
        a = cell(h, w)
    return cell(a + h, u) + cell(h, w)


KINDS = [of_one_op, of_several, of_moves, of_weights, of_a_loss, of_calls]


def _loss(step: Step, w: Any, u: Any) -> Any:
    rows = [td.asarray(x) for x in _data()]
    losses = []
    for _ in range(2):
        h = rows[0] @ w
        for x in rows:
            h = td.tanh(x @ w + step(h, w, u))
        losses.append((h**3).mean())
    return losses[0] + losses[1] * 2.0


def stepped(step: Step) -> list[Any]:
    w, u = _weights()
    losses = []
    for _ in range(2):
        losses.append(td.optim.SGD([w, u], lr=0.1).step(_loss(step, w, u)))
    return [*map(float, losses), w.numpy(), u.numpy()]


def derived(step: Step) -> list[Any]:
    w, u = _weights()
    loss = _loss(step, w, u)
    return [*td.evaluate(loss, *td.grad(loss, [w, u], unused="zero"))]


def derived_later(step: Step) -> list[Any]:
    w, u = _weights()
    loss = _loss(step, w, u)
    value = float(loss)
    return [value, *[g.numpy() for g in td.grad(loss, [w, u], unused="zero")]]


@pytest.mark.parametrize("way", [stepped, derived, derived_later])
@pytest.mark.parametrize("step", KINDS)
def test_derivatives_end(step: Step, way: Callable[[Step], list[Any]]) -> None:
    before = counts.runs
    native = way(step)
    if way is stepped and step is not of_a_loss:
        assert counts.runs > before, "it is to run as rows"
    with td.options(engine="reference"):
        wanted = way(step)
    for x, y in zip(native, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_what_has_run_without_gradients_is_a_constant() -> None:
    w, u = _weights()
    with td.no_grad():
        y = _loss(of_several, w, u)
    float(y)
    total = y * w.sum()
    (g,) = td.grad(total, [w])
    np.testing.assert_allclose(g.numpy(), np.full((WIDTH, WIDTH), float(y)))
