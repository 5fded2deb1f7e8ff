"""Every optimizer against its recurrence in NumPy, in float64, over 5 steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

Array = np.ndarray[Any, Any]
START = np.array([1.5, -2.0, 0.25])
SCALES = np.array([1.0, 0.5, 3.0])


def gradient(p: Array) -> Array:
    return 2.0 * SCALES * p + np.cos(p)


def loss(p: td.Variable) -> td.Tensor:
    return (p * p * SCALES + td.sin(p)).sum()


def sgd(mu: float, nesterov: bool, wd: float = 0.0) -> Callable[[], Any]:
    def make() -> Any:
        v = np.zeros(3)

        def step(p: Array, t: int) -> Array:
            nonlocal v
            g = gradient(p) + wd * p
            v = mu * v + g
            return p - 0.1 * (g + mu * v if nesterov else v)

        return step

    return make


def adagrad(eps: float, inside: bool) -> Callable[[], Any]:
    def make() -> Any:
        G = np.zeros(3)

        def step(p: Array, t: int) -> Array:
            nonlocal G
            g = gradient(p)
            G = G + g**2
            root = np.sqrt(G + eps) if inside else np.sqrt(G) + eps
            return p - 0.1 * g / root

        return step

    return make


def adadelta() -> Any:
    v, u = np.zeros(3), np.zeros(3)

    def step(p: Array, t: int) -> Array:
        nonlocal v, u
        g = gradient(p)
        v = 0.9 * v + 0.1 * g**2
        d = np.sqrt(u + 1e-6) / np.sqrt(v + 1e-6) * g
        u = 0.9 * u + 0.1 * d**2
        return p - 0.5 * d

    return step


def rmsprop(mu: float, centered: bool, start: float, inside: bool) -> Callable[[], Any]:
    def make() -> Any:
        v, a, b = np.full(3, start), np.zeros(3), np.zeros(3)

        def step(p: Array, t: int) -> Array:
            nonlocal v, a, b
            g = gradient(p)
            v = 0.9 * v + 0.1 * g**2
            a = 0.9 * a + 0.1 * g
            s = v - a**2 if centered else v
            scaled = g / (np.sqrt(s + 1e-6) if inside else np.sqrt(s) + 1e-6)
            b = mu * b + scaled
            return p - 0.1 * b

        return step

    return make


def adam(wd: float = 0.0, decoupled: bool = False, largest: bool = False) -> Any:
    def make() -> Any:
        m, v, top = np.zeros(3), np.zeros(3), np.zeros(3)

        def step(p: Array, t: int) -> Array:
            nonlocal m, v, top
            g = gradient(p) + (0.0 if decoupled else wd) * p
            m = 0.8 * m + 0.2 * g
            v = 0.9 * v + 0.1 * g**2
            top = np.maximum(top, v)
            used = top if largest else v
            direction = (m / (1 - 0.8**t)) / (np.sqrt(used / (1 - 0.9**t)) + 1e-8)
            return p - 0.1 * (direction + (wd * p if decoupled else 0.0))

        return step

    return make


def cyclical() -> Any:
    def step(p: Array, t: int) -> Array:
        rate = [0.1, 0.2, 0.3, 0.2, 0.1][t - 1]
        return p - rate * gradient(p)

    return step


BETAS = (0.8, 0.9)
ROWS: list[tuple[str, Callable[[Any], Any], Callable[[], Any]]] = [
    ("SGD", lambda p: td.optim.SGD(p, 0.1), sgd(0, False)),
    ("SGD momentum", lambda p: td.optim.SGD(p, 0.1, 0.9), sgd(0.9, False)),
    ("SGD L2", lambda p: td.optim.SGD(p, 0.1, weight_decay=0.3), sgd(0, False, 0.3)),
    ("Momentum", lambda p: td.optim.Momentum(p, 0.1), sgd(0.9, False)),
    ("Nesterov", lambda p: td.optim.Nesterov(p, 0.1), sgd(0.9, True)),
    ("CyclicalSGD", lambda p: td.optim.CyclicalSGD(p, 0.1, 0.3, 2), cyclical),
    ("Adagrad", lambda p: td.optim.Adagrad(p, 0.1, eps=1e-3), adagrad(1e-3, False)),
    (
        "Adagrad, eps inside",
        lambda p: td.optim.Adagrad(p, 0.1, eps=1e-3, eps_inside=True),
        adagrad(1e-3, True),
    ),
    ("Adadelta", lambda p: td.optim.Adadelta(p, 0.5), adadelta),
    (
        "RMSProp",
        lambda p: td.optim.RMSProp(p, 0.1, 0.9, 1e-6),
        rmsprop(0, False, 0.0, False),
    ),
    (
        "RMSProp momentum centered",
        lambda p: td.optim.RMSProp(p, 0.1, 0.9, 1e-6, momentum=0.5, centered=True),
        rmsprop(0.5, True, 0.0, False),
    ),
    (
        "RMSProp of Nervana Graph",
        lambda p: td.optim.RMSProp(p, 0.1, 0.9, 1e-6, eps_inside=True, initial=1.0),
        rmsprop(0, False, 1.0, True),
    ),
    ("Adam", lambda p: td.optim.Adam(p, 0.1, BETAS), adam()),
    ("Adam L2", lambda p: td.optim.Adam(p, 0.1, BETAS, weight_decay=0.3), adam(0.3)),
    (
        "AdamW",
        lambda p: td.optim.AdamW(p, 0.1, BETAS, weight_decay=0.3),
        adam(0.3, True),
    ),
    ("AMSGrad", lambda p: td.optim.AMSGrad(p, 0.1, BETAS), adam(largest=True)),
]


@pytest.mark.parametrize(("name", "make", "recurrence"), ROWS, ids=[r[0] for r in ROWS])
def test_five_steps(
    name: str, make: Callable[[Any], Any], recurrence: Callable[[], Any]
) -> None:
    p = td.param("p", init=START, dtype="float64")
    optimizer, reference = make([p]), recurrence()
    want = START.copy()
    for t in range(1, 6):
        value = optimizer.step(loss(p))
        assert value.dtype == np.float64
        want = reference(want, t)
        np.testing.assert_allclose(p.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize(("name", "make", "recurrence"), ROWS, ids=[r[0] for r in ROWS])
def test_state_goes_around(
    name: str, make: Callable[[Any], Any], recurrence: Callable[[], Any]
) -> None:
    p, q = (td.param("p", init=START, dtype="float64") for _ in range(2))
    first, second = make([p]), make([q])
    for _ in range(2):
        first.step(loss(p))
    q.assign(p.numpy())
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        first.step(loss(p))
        second.step(loss(q))
    assert p.numpy().tobytes() == q.numpy().tobytes()
    a, b = first.state_dict(), second.state_dict()
    assert list(a) == list(b)
    assert all(a[k].tobytes() == b[k].tobytes() for k in a)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_short_floats_are_worked_in_float32(dtype: str) -> None:
    p = td.param("p", init=START, dtype=dtype)
    optimizer = td.optim.Adam([p], 0.1)
    optimizer.step((p * p).sum())
    assert p.dtype.name == dtype
    assert optimizer.state_dict()["p/moment2"].dtype == np.float32
    np.testing.assert_allclose(
        p.numpy().astype(float), START - 0.1 * np.sign(START), atol=0.02
    )
