"""`eager=True` computes what lazy evaluation does, wherever a value has to wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

F = td.nn.functional
X = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def ctc() -> Any:
    x = td.Parameter(np.random.default_rng(0).normal(size=(7, 1, 5)))
    return td.grad(td.ctc_loss(td.log_softmax(x), [[1, 2, 3]]), [x])


@program
def scan_of_what_it_captures() -> Any:
    w, x = td.Parameter(np.ones(3)), td.Parameter(X.astype("f8"))
    double = w * 2
    last, _ = td.scan(lambda a, r: (a + r * double, ()), td.zeros(3, "float64"), x)
    return td.grad(td.sum(last * last), [x, w])


@program
def functions_in_functions() -> Any:
    inner = td.function(lambda a: a * 2 + 1)
    outer = td.function(lambda a: inner(td.sin(a)) * inner(a))
    x = td.Parameter(X)
    return td.grad(td.sum(outer(x)), [x])


@program
def branch() -> Any:
    x = td.Parameter(2.0)
    return td.grad(td.cond(x > 1, lambda: x * x, lambda: x), [x])


@program
def loop() -> Any:
    return td.while_loop(lambda i: i < 5, lambda i: i + 1, td.asarray(0))


@program
def placeholders() -> Any:
    x, w = td.placeholder((2,), name="x"), td.Parameter(np.array([2.0, 3.0]))
    value = td.computation([x * 2, td.softmax(x)], x)([1.0, 2.0])
    first = td.grad(td.sum(x * w * w), [w])[0]
    return [*value, td.computation(first, x)([1.0, 2.0])]


@program
def computations_that_assign() -> Any:
    w = td.Variable(0.0)
    w.assign(w + 1)
    count = td.computation(w)
    return [count() for _ in range(3)]


@program
def rows() -> Any:
    x, total = td.Parameter(X), td.asarray(0.0)
    for k in range(8):
        h = x[k % 4]
        for _ in range(k % 3):
            h = td.tanh(h)
        total = total + h.sum()
    return td.grad(total, [x])


@program
def second_derivatives() -> Any:
    x = td.Parameter(X[0])
    (g,) = td.grad((x**4).sum(), [x])
    return [td.hessian((x**3).sum(), x), *td.grad((g * g).sum(), [x])]


@program
def draws() -> Any:
    x = td.Parameter(X)
    dropped = td.function(lambda a: F.dropout(a, 0.5))
    y = dropped(x) * F.dropout(x, 0.5)
    return [y, *td.grad(y.sum(), [x])]


@program
def recurrent_steps() -> Any:
    layer = td.nn.LSTM(3, 4)
    step = td.optim.Adam(layer.parameters(), lr=0.1).step
    for _ in range(2):
        y, _ = layer(td.asarray(np.stack([X, X], 1)), lengths=[4, 2])
        step(td.mean(y * y))
    return [p.numpy() for p in layer.parameters()]


@program
def statistics() -> Any:
    layer = td.nn.BatchNorm1d(3)
    y = layer(td.asarray(X))
    return [layer.running_mean.numpy(), layer.running_var.numpy(), y]


def values(function: Callable[[], Any]) -> list[Any]:
    found = function()
    found = found if isinstance(found, list) else [found]
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_at_once_are_those_of_a_later_run(name: str) -> None:
    with td.options(seed=3):
        later = values(PROGRAMS[name])
    with td.options(seed=3, eager=True):
        at_once = values(PROGRAMS[name])
    assert len(later) == len(at_once)
    for a, b in zip(later, at_once, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
