"""Loops that read and change elements by numbers that were computed follow plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from treadle.runtime import evaluate, rows

WARM, STEPS, N = 6, 30, 12
Step = Callable[[int], float]


class Data:
    """States, actions, rewards and rows, anew for each loop."""

    def __init__(self) -> None:
        draw = np.random.default_rng(3)
        self.s, self.a = draw.integers(0, 90, STEPS + 1), draw.integers(0, 4, STEPS)
        self.r = draw.normal(size=STEPS)
        self.rows = draw.normal(size=(STEPS, N, 3))
        self.order = draw.random((STEPS, N)).argsort(1)

    def change(self, k: int, q: Any) -> Any:
        s, a, later = int(self.s[k]), int(self.a[k]), int(self.s[k + 1])
        return (s, a), (float(self.r[k]) + 0.9 * q[later].max() - q[s, a]) * 0.1


def added(data: Data, like: Any) -> Step:
    q = like.zeros((90, 4))

    def step(k: int) -> float:
        nonlocal q
        key, change = data.change(k, q)
        q = _put(q, key, change, "add")
        return float(q.sum())

    return step


def looked_at_seldom(data: Data, like: Any) -> Step:
    q = like.zeros((90, 4))

    def step(k: int) -> float:
        nonlocal q
        for j in range(4):
            key, change = data.change((4 * k + j) % STEPS, q)
            q = _put(q, key, change, "add")
        return float(q.sum())

    return step


def of_a_variable(data: Data, like: Any) -> Step:
    q = td.Variable(np.zeros((90, 4))) if like is td else np.zeros((90, 4))

    def step(k: int) -> float:
        key, change = data.change(k, q)
        q[key] += change
        return float(q.sum())

    return step


def a_row_of_a_variable(data: Data, like: Any) -> Step:
    q = td.Variable(np.zeros((90, 3))) if like is td else np.zeros((90, 3))

    def step(k: int) -> float:
        q[int(data.s[k])] = data.rows[k, 0]
        return float(q.sum())

    return step


def permuted(data: Data, like: Any) -> Step:
    def step(k: int) -> float:
        x, out = like.exp(like.asarray(data.rows[k])), like.zeros((N, 3))
        for i in range(N):
            out = _put(out, int(data.order[k, i]), x[i] * (i + 1), "set")
        return float((out * out * np.arange(1, N + 1)[:, None]).sum())

    return step


def summed(data: Data, like: Any) -> Step:
    def step(k: int) -> float:
        x, total = like.exp(like.asarray(data.rows[k, :, 0])), 0.0
        for i in range(N):
            total = total * 0.5 + x[int(data.order[k, i])]
        return float(total)

    return step


def greatest(data: Data, like: Any) -> Step:
    def step(k: int) -> float:
        x = like.exp(like.asarray(data.rows[k, :, 0]))
        best = x[0]
        for i in range(1, N):
            best = like.maximum(best, x[i])
        return float(best)

    return step


def _put(x: Any, key: Any, value: Any, mode: str) -> Any:
    if isinstance(x, td.Tensor):
        return getattr(x.at[key], mode)(value)
    x = x.copy()
    x[key] = value if mode == "set" else x[key] + value
    return x


LOOPS = [
    added, looked_at_seldom, of_a_variable, a_row_of_a_variable, permuted, summed,
    greatest,
]  # fmt: skip


@needs_core
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_positions_are_data_of_plans(
    loop: Callable[[Data, Any], Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = list[str]()

    def note(module: Any, name: str) -> None:
        f = getattr(module, name)

        def wrapper(*args: Any, **named: Any) -> Any:
            searched.append(name)
            return f(*args, **named)

        monkeypatch.setattr(module, name, wrapper)

    with td.options(dtype="float64"):
        step, other = loop(Data(), td), loop(Data(), np)
        for k in range(STEPS):
            if k == WARM:
                note(evaluate, "_run_anew")
                note(rows, "reroll")
            assert step(k) == pytest.approx(other(k), rel=1e-9)
    assert not searched


def test_a_loop_that_followed_a_plan_is_derived_as_it_was_written() -> None:
    data, w = Data(), td.param(init=np.array(0.5))
    held = [td.asarray(x[:, 0]) for x in data.rows[:12]]
    for trained in (False, True):
        scale = w if trained else td.asarray(0.5, "float64")
        for k in range(12):
            x, total = td.exp(held[k]), 0.0
            for i in data.order[k].tolist():
                total = total * scale + x[i]
            array = np.exp(data.rows[k, :, 0])[data.order[k]]
            powers = 0.5 ** np.arange(N - 1, -1, -1)
            assert float(total) == pytest.approx(float(array @ powers), rel=1e-9)
            (g, *of_w) = td.grad(total, [held[k], *([w] if trained else [])])
            wanted = np.zeros(N)
            wanted[data.order[k]] = array * powers
            np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-9)
            slope = np.arange(N - 1, -1, -1) * 0.5 ** (np.arange(N - 1, -1, -1) - 1.0)
            for x in of_w:
                assert float(x) == pytest.approx(float(array @ slope), rel=1e-9)


def test_an_element_of_data_is_an_array() -> None:
    i, j = 1, 2
    part = td.asarray(np.arange(6.0).reshape(2, 3))[i, j]
    assert type(part.stored) is np.ndarray and part.stored.shape == ()


def test_a_written_key_is_part_of_the_program() -> None:
    x, k = td.exp(td.zeros(3)), 1
    assert x.at[1].set(2.0).op.name == "SetSlice"
    assert x.at[k].set(2.0).op.name == "IndexSet"


def _wide(e: Any) -> Any:
    """A value of a part, everywhere: one of a column has a row for each element."""
    return td.broadcast_to(e[:, None] if e.shape == (2,) else e, (2, 3))


MODES = ("set", "add", "multiply", "max", "min")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("key", [(1, 2), (-1,), (slice(2), 2), (..., -3)], ids=str)
def test_derivatives_of_a_changed_part(mode: str, key: Any) -> None:
    draw = np.random.default_rng(0)
    x = td.asarray(draw.normal(size=(2, 3)))
    e = td.asarray(draw.normal(size=np.zeros((2, 3))[key].shape))
    weights = draw.normal(size=(2, 3))
    mask = np.zeros((2, 3), bool)
    mask[key] = True
    changed = getattr(x.at[key], mode)(e)
    found = td.grad((changed * changed * weights).sum(), [x, e])
    fold = {"set": lambda a, b: b, "add": td.add, "multiply": td.multiply,
            "max": td.maximum, "min": td.minimum}[mode]  # fmt: skip
    want = td.where(td.asarray(mask), fold(x, _wide(e)), x)
    wanted = td.grad((want * want * weights).sum(), [x, e], unused="zero")
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
