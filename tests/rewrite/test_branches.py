"""Branches of few operations on elements: both sides are computed, one is selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

Case = Callable[[Any], Any]


def number(value: float = 0.7) -> Any:
    return td.param("x", init=np.array(value))


def has_branch(y: Any) -> bool:
    return " = Cond(" in td.lower(y).program


def shrunk(x: Any) -> Any:
    return td.cond(x > 0, lambda v: v * 0.5, lambda v: td.tanh(v) + x, x)


def of_branches(x: Any) -> Any:
    def inner(v: Any) -> Any:
        return td.cond(v > 0.5, lambda u: (u, u * x), lambda u: (-u, x), v)

    a, b = td.cond(x > 0, inner, lambda v: (v * v, v), x)
    return a * b


def moved(x: Any) -> Any:
    wide = x * td.asarray(np.arange(6.0)).reshape(2, 3)
    return td.cond(x > 0, lambda v: v.T[1:] * 2.0, lambda v: v.T[:2] - x, wide).sum()


def alike(x: Any) -> Any:
    return td.cond(x > 0, lambda v: v, lambda v: v, x) * x


@pytest.mark.parametrize("value", [0.7, 0.3, -0.4])
@pytest.mark.parametrize("case", [shrunk, of_branches, moved, alike])
def test_a_branch_is_a_selection(case: Case, value: float) -> None:
    def every(engine: str) -> list[Any]:
        with td.options(engine=engine):
            x = number(value)
            (slope,) = td.grad(case(x), [x])
            (second,) = td.grad(slope * slope + slope, [x], unused="zero")
            return [v.numpy() for v in (case(x), slope, second)]

    assert not has_branch(case(number(value)))
    for a, b in zip(every("native"), every("reference"), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-14)


def test_the_other_side_leaves_no_trace() -> None:
    x = number(-2.0)
    y = td.cond(x > 0, td.sqrt, lambda v: v * v, x)
    with td.options(check_numerics=True):
        assert y.item() == 4.0 and td.grad(y, [x])[0].item() == -4.0
    whole = td.asarray(np.array(7))
    nought = td.asarray(np.array(0))
    halves = td.cond(nought != 0, lambda v: v // nought, lambda v: v * 2, whole)
    assert halves.item() == 14


@pytest.mark.parametrize(
    "step",
    [
        lambda v: (v.reshape(1, -1) @ v.reshape(-1, 1)).sum() + v,
        lambda v: td.softmax(v),
        lambda v: v + td.random.normal((40,), dtype="float64"),
        lambda v: td.exp(td.tanh(td.sin(v))),
    ],
    ids=["product", "softmax", "draw", "much"],
)
def test_what_is_more_stays_a_branch(step: Case) -> None:
    x = td.asarray(np.linspace(-1.0, 1.0, 40))
    assert has_branch(td.cond(x.sum() > 0, step, lambda v: v * 2.0, x))


@pytest.mark.parametrize("derive", [False, True])
def test_a_scan_with_a_condition_is_one_kernel(derive: bool) -> None:
    rows = td.asarray(np.random.default_rng(0).normal(size=50))

    def make(x: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return td.cond(r > 0, lambda v: v + r, lambda v: 0.5 * v * x, c), c

        y = td.scan(step, x, rows)[1].sum()
        return td.grad(y, [x])[0] if derive else y

    program = td.lower(make(number())).program
    assert "Scan" not in program and "Cond" not in program
    with td.options(engine="reference"):
        wanted = make(number()).item()
    assert make(number()).item() == pytest.approx(wanted, rel=1e-12)
