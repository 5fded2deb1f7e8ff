"""The eight schools: the density as SciPy has it, and draws where nutpie is there."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from scipy import stats

from examples import nuts


def by_scipy(x: np.ndarray) -> float:
    spread = np.exp(x[1])
    total = stats.norm.logpdf(nuts.EFFECTS, x[0] + spread * x[2:], nuts.ERRORS).sum()
    total += stats.norm.logpdf(x[0], 0, 5) + stats.norm.logpdf(x[2:]).sum()
    return float(total + stats.halfcauchy.logpdf(spread, scale=5) + x[1])


def test_the_density_is_that_of_scipy_up_to_a_constant() -> None:
    f, rng = nuts.model(), np.random.default_rng(2)
    points = rng.standard_normal((5, 10))
    left = [float(f(x)[0]) - by_scipy(x) for x in points]
    np.testing.assert_allclose(left, left[0], rtol=1e-10)
    gradient = f(points[0])[1]
    for k in range(10):
        step = np.zeros(10)
        step[k] = 1e-5
        slope = (by_scipy(points[0] + step) - by_scipy(points[0] - step)) / 2e-5
        assert abs(slope - gradient[k]) < 1e-6


@pytest.mark.skipif(
    importlib.util.find_spec("nutpie") is None, reason="needs the package nutpie"
)
def test_draws_are_of_the_posterior() -> None:
    x = nuts.draws(nuts.model(), 4, 1000, 3)
    assert abs(x[..., 0].mean() - 4.4) < 0.6
    assert abs(np.exp(x[..., 1]).mean() - 3.6) < 0.8
