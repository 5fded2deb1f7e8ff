"""Computations that run again only what depends on what has changed."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(2)


def kernels() -> str:
    """The steps of the program that ran last."""
    down = td.latest_program()
    assert down is not None
    return down.program


def ten() -> tuple[list[td.graph.variable.Placeholder], list[np.ndarray], td.Tensor]:
    """Ten inputs, each through an op of its own shape, added up one after another."""
    inputs = [td.placeholder((10 + k,), name=f"x{k}") for k in range(10)]
    values = [RNG.standard_normal(10 + k).astype(np.float32) for k in range(10)]
    total = td.constant(0.0)
    for x in inputs:
        total = total + td.sin(x).sum()
    return inputs, values, total


def test_one_of_ten_inputs_runs_its_descendants_alone() -> None:
    inputs, values, total = ten()
    f = td.computation(total, *inputs, incremental=True)
    g = td.computation(total, *inputs)
    assert f(*values) == pytest.approx(g(*values), rel=1e-6)
    for k in (7, 0, 9):
        values[k] = RNG.standard_normal(10 + k).astype(np.float32)
        found = f(*values)
        steps = kernels()
        lengths = {n for n in range(10, 20) if f"float32[{n}]" in steps}
        assert lengths == {10 + k}, "the other nine are not looked at"
        assert found == pytest.approx(g(*values), rel=1e-6)


def test_nothing_runs_where_nothing_has_changed() -> None:
    inputs, values, total = ten()
    f = td.computation(total, *inputs, incremental=True)
    f(*values)
    (td.asarray([1.0, 2.0]) * 3.0).numpy()
    before = kernels()
    assert f(*[v.copy() for v in values]) == f(*values)
    assert kernels() == before


def test_variables_and_their_updates() -> None:
    x = td.placeholder((3,), name="x")
    w, count = td.Variable(np.ones(3, np.float32)), td.Variable(0)
    count += 1
    f = td.computation([td.exp(x) * w, count], x, incremental=True)
    given = np.array([0.0, 1.0, 2.0], np.float32)
    for k in range(1, 4):
        y, n = f(given)
        np.testing.assert_allclose(y, np.exp(given), rtol=1e-6)
        assert int(n) == k == int(count)
    w.assign(np.full(3, 2.0, np.float32))
    np.testing.assert_allclose(f(given)[0], 2 * np.exp(given), rtol=1e-6)
    assert "exp" not in kernels()


def test_draws_are_new_at_each_call() -> None:
    x = td.placeholder((100,), name="x")
    f = td.computation(td.sin(x) + td.random.normal((100,)), x, incremental=True)
    given = np.zeros(100, np.float32)
    first, second = f(given), f(given)
    assert (first != second).any()
    assert "sin" not in kernels()


def test_a_failing_run_leaves_the_values_of_the_last() -> None:
    table = td.asarray(np.arange(5, dtype=np.float32))
    x, k = td.placeholder((5,), name="x"), td.placeholder((2,), "int64", name="k")
    f = td.computation(td.take(table * x, k, 0), x, k, incremental=True)
    one = np.ones(5, np.float32)
    assert f(one, np.array([1, 2])).tolist() == [1.0, 2.0]
    with pytest.raises(td.TreadleError):
        f(2 * one, np.array([1, 7]))
    assert f(one, np.array([1, 2])).tolist() == [1.0, 2.0]
    assert f(2 * one, np.array([1, 2])).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("engine", ["reference", "native", "device"])
def test_every_engine(engine: str) -> None:
    a, b = td.placeholder((4, 4), name="a"), td.placeholder((4,), name="b")
    y = td.tanh(a @ a) @ b
    f = td.computation([y, a], a, b, incremental=True)
    with td.options(engine=engine):
        for _ in range(3):
            m = RNG.standard_normal((4, 4)).astype(np.float32)
            for _ in range(2):
                v = RNG.standard_normal(4).astype(np.float32)
                found, same = f(m, v)
                np.testing.assert_allclose(found, np.tanh(m @ m) @ v, rtol=2e-5)
                np.testing.assert_array_equal(same, m)
