"""Conjugate gradients and Newton's method on problems with known solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.optim.full_batch import _VARIANTS


def quadratic(n: int = 8) -> tuple[td.Variable, Callable[[], Any], Any]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, n))
    a = a @ a.T + n * np.eye(n)
    b = rng.normal(size=n)
    x = td.param("x", init=np.zeros(n), dtype="float64")

    def loss() -> td.Tensor:
        return (x @ (td.asarray(a) @ x)) * 0.5 - (x * b).sum()

    return x, loss, np.linalg.solve(a, b)


@pytest.mark.parametrize("variant", _VARIANTS)
def test_conjugate_gradients_solve_a_quadratic(variant: str) -> None:
    x, loss, want = quadratic()
    losses = td.optim.ConjugateGradient([x], variant).minimize(loss, 200, 1e-9)
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6, atol=1e-8)
    assert losses == sorted(losses, reverse=True)


def test_newton_cg_solves_a_quadratic_in_a_few_steps() -> None:
    x, loss, want = quadratic()
    td.optim.NewtonCG([x]).minimize(loss, 12, 1e-10)
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-8, atol=1e-10)


def test_newton_solves_a_quadratic_in_one_step() -> None:
    x, loss, want = quadratic()
    td.optim.Newton([x]).step(loss)
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("make", [td.optim.Newton, td.optim.NewtonCG])
def test_newton_leaves_a_saddle(make: Any) -> None:
    """Where the Hessian is not positive, a step still goes down."""
    x = td.param("x", init=[0.5, 0.1], dtype="float64")

    def loss() -> td.Tensor:
        return x[0] ** 2 - x[1] ** 2 + x[1] ** 4

    before = float(loss())
    assert make([x]).step(loss) < before
    losses = make([x]).minimize(loss, 50, 1e-9)
    assert losses[-1] == pytest.approx(-0.25, abs=1e-12)
    assert abs(float(x[1])) == pytest.approx(0.5**0.5, abs=1e-6)


def test_newton_cg_is_scipys() -> None:
    """On a problem of 20 numbers both find the minimum, with products alone."""
    optimize = pytest.importorskip("scipy.optimize")
    start = np.linspace(-1.0, 1.5, 20)
    x = td.param("x", init=start, dtype="float64")

    def loss() -> td.Tensor:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    losses = td.optim.NewtonCG([x]).minimize(loss, 200, 1e-8)
    found = optimize.minimize(
        optimize.rosen,
        start,
        method="Newton-CG",
        jac=optimize.rosen_der,
        hessp=optimize.rosen_hess_prod,
        options={"xtol": 1e-10},
    )
    assert losses[-1] <= found.fun + 1e-12
    np.testing.assert_allclose(x.numpy(), found.x, atol=1e-5)


SOLVERS = [td.optim.ConjugateGradient, td.optim.Newton, td.optim.NewtonCG]


@pytest.mark.parametrize("make", SOLVERS)
def test_rosenbrock(make: Any) -> None:
    x = td.param("x", init=[-1.2], dtype="float64")
    y = td.param("y", init=[1.0], dtype="float64")

    def loss() -> td.Tensor:
        return ((1.0 - x) ** 2 + 100.0 * (y - x * x) ** 2).sum()

    losses = make([x, y]).minimize(loss, 300, 1e-8)
    assert losses[-1] < 1e-12
    assert float(x[0]) == pytest.approx(1.0, abs=1e-5)
    assert float(y[0]) == pytest.approx(1.0, abs=1e-5)


def test_where_nothing_is_to_do() -> None:
    x = td.param("x", init=0.0, dtype="float64")
    assert td.optim.Newton([x]).minimize(lambda: x * x) == [0.0]
    with pytest.raises(td.ArgumentError, match="no variant 'steepest'"):
        td.optim.ConjugateGradient([x], "steepest")
    x.trainable = False
    with pytest.raises(td.ArgumentError, match="no trainable"):
        td.optim.Newton([x])
