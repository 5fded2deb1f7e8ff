"""Every schedule against its formula."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.optim import schedules as s

ROWS: list[tuple[str, Any, Callable[[int], float]]] = [
    ("constant", s.constant(0.5), lambda i: 0.5),
    ("step", s.step(1.0, 3, 0.5), lambda i: 0.5 ** (i // 3)),
    (
        "piecewise",
        s.piecewise(1.0, [2, 5], [0.5, 0.1]),
        lambda i: (0.5 if i >= 2 else 1.0) * (0.1 if i >= 5 else 1.0),
    ),
    ("exponential", s.exponential(2.0, 0.9), lambda i: 2.0 * 0.9**i),
    (
        "natural_exponential",
        s.natural_exponential(1.0, 0.1),
        lambda i: math.exp(-0.1 * i),
    ),
    ("inverse", s.inverse(1.0, 0.1, 0.75), lambda i: (1 + 0.1 * i) ** -0.75),
    ("inverse_decay", s.inverse_decay(1.0, 0.1), lambda i: 1 / (1 + 0.1 * i)),
    (
        "polynomial",
        s.polynomial(1.0, 8, 2.0, 0.1),
        lambda i: 0.9 * max(1 - i / 8, 0) ** 2 + 0.1,
    ),
    ("sigmoid", s.sigmoid(1.0, 0.5, 4), lambda i: 1 / (1 + math.exp(-0.5 * (i - 4)))),
    (
        "inverse_sqrt",
        s.inverse_sqrt(1.0, 4, 2),
        lambda i: math.sqrt(4 / (max(i - 2, 0) + 4)),
    ),
    (
        "cosine",
        s.cosine(1.0, 8, 0.2),
        lambda i: 0.2 + 0.4 * (1 + math.cos(math.pi * min(i / 8, 1))),
    ),
    (
        "cyclic",
        s.cyclic(0.1, 0.5, 3, 0.9),
        lambda i: 0.1 + 0.4 * 0.9**i * (1 - abs(i / 3 - 2 * (1 + i // 6) + 1)),
    ),
    ("warm_up", s.warm_up(2.0, 4), lambda i: 2.0 * min((i + 1) / 4, 1)),
    (
        "warm_up, cyclic",
        s.warm_up(s.exponential(1.0, 0.5), 2, 0.5, 5),
        lambda i: 0.5**i * (0.5 + 0.5 * min((i % 5 + 1) / 2, 1)),
    ),
    ("provided", s.provided(td.Variable(0.25)), lambda i: 0.25),
]


@pytest.mark.parametrize(("name", "rate", "formula"), ROWS, ids=[r[0] for r in ROWS])
def test_formula(name: str, rate: Any, formula: Callable[[int], float]) -> None:
    for i in range(12):
        found = rate(i)
        assert found.dtype == np.float64 and found.shape == ()
        assert float(found) == pytest.approx(formula(i), rel=1e-12, abs=1e-15)
        assert float(rate(td.constant(i))) == float(found)


def test_by_name() -> None:
    assert float(s.by_name("exponential", 1.0, gamma=0.5)(1)) == 0.5
    with pytest.raises(td.ArgumentError, match="no schedule 'slow'"):
        s.by_name("slow")
    with pytest.raises(td.ArgumentError, match="size"):
        s.by_name("step", 1.0)
    with pytest.raises(td.ArgumentError, match="above 0"):
        s.cosine(1.0, 0)


@pytest.mark.parametrize("name, schedule, formula", ROWS, ids=[r[0] for r in ROWS])
def test_a_schedule_pickles_and_copies(name: str, schedule: Any, formula: Any) -> None:
    for again in (pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):
        for i in (0, 3, 9):
            assert float(again(i)) == float(schedule(i))
    assert repr(schedule).startswith(name.partition(" ")[0][:4])


def test_an_optimizer_with_a_schedule_goes_on_alike_from_a_pickle() -> None:
    x = td.param("x", init=2.0)
    optimizer = td.optim.SGD([x], lr=s.warm_up(s.cosine(0.1, 10), 3))
    optimizer.step(x * x)
    other = pickle.loads(pickle.dumps((x, optimizer)))
    for variable, one in ((x, optimizer), other):
        for _ in range(4):
            one.step(variable * variable)
    assert float(other[0]) == float(x) and other[1].lr == optimizer.lr


@pytest.mark.parametrize("name", ["step", "cosine", "cyclic", "inverse_sqrt"])
def test_settings_of_schedules_are_single_numbers(name: str) -> None:
    make = getattr(s, name)
    count = sum(p.default is p.empty for p in signature(make).parameters.values())
    for k in range(count):
        settings: list[Any] = [1.0] * count
        settings[k] = np.ones((2, 3))
        with pytest.raises(td.TreadleError, match="is one number"):
            make(*settings)
    with pytest.raises(td.TreadleError, match="is one number"):
        td.optim.CyclicalSGD(lr_min=0.01, lr_max=0.1, gamma=np.ones((2, 3)))
