"""Quantiles beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

X = np.random.default_rng(0).normal(size=(5, 7, 4))
METHODS = ["linear", "lower", "higher", "nearest", "midpoint"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, 0)])
@pytest.mark.parametrize("q", [0.3, [0, 0.5, 1], [[0.1, 0.2], [0.7, 0.9]]])
def test_values_and_shapes_are_those_of_numpy(q: Any, axis: Any, method: Any) -> None:
    for keepdims in (False, True):
        found = td.quantile(X, q, axis, keepdims=keepdims, method=method).numpy()
        wanted = np.quantile(X, q, axis, keepdims=keepdims, method=method)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_numpy_asks_for_quantiles_and_percentiles_of_tensors() -> None:
    t = td.asarray(X)
    for found, wanted in (
        (np.quantile(t, 0.3, axis=1), np.quantile(X, 0.3, axis=1)),
        (np.percentile(t, [30, 60], axis=1), np.percentile(X, [30, 60], axis=1)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_no_number_is_passed_on_and_infinities_stay() -> None:
    hole = X.copy()
    hole[0, 0, 0] = np.nan
    found = td.quantile(hole, 0.3, 0).numpy()
    assert np.isnan(found[0, 0]) and np.isfinite(found.ravel()[1:]).all()
    assert float(td.quantile([1.0, np.inf, np.inf], 0.75)) == np.inf


def test_the_gradient_goes_to_the_neighbors_by_weight() -> None:
    x = td.param("x", init=np.array([4.0, 1.0, 3.0]))
    (g,) = td.grad(td.quantile(x, 0.75), [x])
    assert g.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((X, 1.5), "q is 1.5, not from 0 to 1"),
        ((X, 0.5, 0, "middle"), "method 'middle' is none of 'linear', 'lower'"),
        ((np.zeros((0, 3)), 0.5, 0), "no quantile of no elements"),
    ],
)
def test_what_has_no_quantile_is_said(arguments: Any, text: str) -> None:
    x, q, *rest = arguments
    axis, method = (*rest, *(None, "linear")[len(rest) :])
    with pytest.raises(td.TreadleError, match=text):
        td.quantile(x, q, axis, method=method)
