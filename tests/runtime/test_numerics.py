"""The watch for NaN and infinities: the first node and its line, wherever it ran."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.runtime import rows

X = np.array([1.0, 0.0, -1.0], np.float32)
ZERO = np.zeros(3, np.float32)


@pytest.fixture(autouse=True, params=["native", "reference"])
def watching(request: pytest.FixtureRequest) -> Iterator[None]:
    with td.options(check_numerics=True, engine=request.param):
        yield


def here() -> int:
    return sys._getframe(1).f_lineno


def refused(make: Callable[[], Any]) -> str:
    with pytest.raises(td.RunError) as caught:
        make()
    return str(caught.value)


def test_the_first_node_of_a_fused_kernel_is_named() -> None:
    x = td.param("x", init=X)
    y, line = td.log(x * 2.0), here()
    text = refused(lambda: td.tanh(y + 1.0).sum().numpy())
    assert text.startswith(
        "Log: -inf at [1] (2 of 3 elements), made of finite operands"
    )
    assert f"test_numerics.py:{line}: " in text
    assert "operands: float32[3]" in text and "operand 0: -2 to 2" in text


def test_nodes_that_run_at_once_are_watched_too() -> None:
    with td.options(eager=True):
        x = td.asarray(X)
        assert (x + 1).tolist() == [2.0, 1.0, 0.0]
        with pytest.raises(td.RunError, match="log"):
            td.log(x)


def test_an_overflow_is_named_before_the_nan_that_comes_of_it() -> None:
    x = td.param("x", init=X * 1000)
    big, line = td.exp(x), here()
    text = refused(lambda: (big - big * 2.0).numpy())
    assert text.startswith("Exp: inf at [0]")
    assert f"test_numerics.py:{line}: " in text


def test_a_value_given_is_named_as_that() -> None:
    text = refused(lambda: (td.asarray([1.0, np.nan]) * 2.0).numpy())
    assert "holds NaN at [1] (1 of 2 elements)" in text
    w = td.param("weights", init=np.array([np.inf], np.float32))
    assert "parameter 'weights' holds inf" in refused(lambda: (w * 2.0).numpy())


def test_what_is_masked_is_let_be() -> None:
    x = td.param("x", init=X)
    assert td.where(x > 0, td.log(x), 0.0).tolist() == [0.0, 0.0, 0.0]
    mask = np.array([0.0, -np.inf, -np.inf], np.float32)
    assert td.softmax(x + mask).tolist() == [1.0, 0.0, 0.0]


def test_an_infinite_mask_is_not_to_blame_for_a_row_without_anything() -> None:
    mask = np.full(3, -np.inf, np.float32)
    text = refused(lambda: td.softmax(td.asarray(X) + mask).numpy())
    assert text.startswith("Softmax: NaN") and "made of infinities" in text


def test_a_gradient_is_watched_where_the_value_is_finite() -> None:
    x = td.param("x", init=ZERO)
    y = td.sqrt(x).sum()
    assert float(y) == 0.0
    text = refused(lambda: td.grad(y, [x])[0].numpy())
    assert "inf" in text and "made of finite operands" in text


def test_nothing_is_assigned_by_a_run_that_is_refused() -> None:
    x = td.param("x", init=X)
    count = td.Variable(0.0)
    optimizer = td.optim.Adam(lr=0.1)
    optimizer.step((x * x).sum())
    before = x.numpy().copy()
    count += 1.0
    refused(lambda: optimizer.step(td.sqrt(x * 0.0).sum()))
    assert x.numpy().tobytes() == before.tobytes()
    optimizer.step((x * x).sum())  # what comes after is as ever
    assert np.isfinite(x.numpy()).all()


def test_a_node_within_a_function_is_named() -> None:
    @td.function
    def layer(a: td.Tensor) -> td.Tensor:
        return td.sqrt(a * 2.0) + 1.0

    text = refused(lambda: layer(td.asarray(X)).numpy())
    assert text.startswith("Sqrt: NaN at [2]")
    assert "return td.sqrt(a * 2.0) + 1.0" in text


def test_a_node_within_a_loop_and_a_branch_is_named() -> None:
    def grow(c: td.Tensor, a: td.Tensor) -> tuple[td.Tensor, td.Tensor]:
        return c * 1e20 * a, c

    text = refused(lambda: td.scan(grow, td.constant(1.0), td.ones((5,)))[0].numpy())
    assert text.startswith("Multiply: inf") and "return c * 1e20 * a, c" in text
    x = td.asarray(-1.0)
    y = td.cond(x < 0, lambda: td.log(x), lambda: x)
    text = refused(lambda: y.numpy())
    assert text.startswith("Log: NaN") and "lambda: td.log(x)" in text


def test_computations_are_watched_also_incremental() -> None:
    p = td.placeholder((3,), name="p")
    for incremental in (False, True):
        run = td.computation(td.log(p) + 1.0, p, incremental=incremental)
        assert run(np.ones(3, np.float32)).tolist() == [1.0, 1.0, 1.0]
        assert refused(lambda: run(X)).startswith("Log: ")
        assert run(np.ones(3, np.float32)).tolist() == [1.0, 1.0, 1.0]


def test_draws_are_the_same_when_it_is_looked_for() -> None:
    with td.options(seed=3):
        x = td.random.normal((100,))
    text = refused(lambda: td.log(x).numpy())
    count = int((x.numpy() <= 0).sum())
    assert f"({count} of 100 elements)" in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_every_inexact_type_is_watched(dtype: str) -> None:
    x = td.zeros((2,), dtype)
    assert "NaN" in refused(lambda: (x / x).numpy())
    (td.asarray([1, 0]) // 1).numpy()  # whole numbers are always finite


def test_one_says_nothing_where_nobody_asked() -> None:
    with td.options(check_numerics=False):
        assert np.isnan(td.log(td.asarray(-1.0)).numpy())


# -- batched runs ----------------------------------------------------------------------


def forest(w: td.Parameter, bad: float) -> td.Tensor:
    @td.function
    def cell(a: td.Tensor, b: td.Tensor) -> td.Tensor:
        return td.sqrt(a @ w) + b

    ends = []
    for k in range(12):
        h = td.asarray(np.full((1, 2), bad if k == 7 else 1.0, np.float32))
        for _ in range(2 + k % 4):
            h = cell(h, h)
        ends.append(h.sum())
    total = ends[0]
    for end in ends[1:]:
        total = total + end
    return total


def test_a_node_of_a_batched_run_is_named() -> None:
    w = td.param("w", init=np.full((2, 2), 0.5, np.float32))
    before = rows.counts.runs
    assert np.isfinite(float(forest(w, 1.0)))
    ran = rows.counts.runs - before
    text = refused(lambda: forest(w, -1.0).numpy())
    assert text.startswith("Sqrt: NaN at [0, 0]") and "made of finite" in text
    assert "return td.sqrt(a @ w) + b" in text
    with td.options(engine="native"):
        before = rows.counts.runs
        float(forest(w, 1.0))
        assert rows.counts.runs > before or ran


def test_a_node_of_the_gradient_of_a_batched_run_is_named() -> None:
    w = td.param("w", init=np.full((2, 2), 0.5, np.float32))
    loss = forest(w, 0.0)
    assert np.isfinite(float(loss))
    text = refused(lambda: td.grad(loss, [w])[0].numpy())
    assert "made of finite operands" in text and "inf" in text
    assert np.isfinite(td.grad(forest(w, 1.0), [w])[0].numpy()).all()
