"""Sparse products beside dense ones, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import differences
from treadle.base.errors import ArgumentError, RunError, ShapeError

RNG = np.random.default_rng(0)


def sparse(m: int, n: int, dtype: Any = np.float64) -> Any:
    x = RNG.normal(size=(m, n)) * (RNG.random((m, n)) < 0.3)
    return x.astype(dtype)


@pytest.mark.parametrize("shape", [(7, 5), (1, 4), (5, 0), (0, 5), (40, 30)])
def test_products_are_those_of_the_dense_matrix(shape: Any) -> None:
    a = sparse(*shape)
    own = td.CSR.of(a)
    x, y = RNG.normal(size=(shape[1], 3)), RNG.normal(size=(shape[0], 3))
    np.testing.assert_allclose((own @ x).numpy(), a @ x, atol=1e-12)
    np.testing.assert_allclose((own.T @ y).numpy(), a.T @ y, atol=1e-12)
    np.testing.assert_allclose((own @ x[:, 0]).numpy(), a @ x[:, 0], atol=1e-12)
    np.testing.assert_allclose((own.T.T @ x).numpy(), a @ x, atol=1e-12)
    assert own.T.shape == shape[::-1]
    assert np.array_equal(own.dense().numpy(), a)


def test_gradients_reach_the_elements_and_the_dense_side() -> None:
    own = td.CSR.of(sparse(6, 4))
    x0, d0 = RNG.normal(size=(4, 2)), own.data.numpy()
    w = RNG.normal(size=(6, 2))

    def loss(d: Any, x: Any) -> Any:
        y = td.csr_matmul(d, own.indices, own.indptr, x)
        return (td.sin(y) * w).sum()

    d, x = td.asarray(d0), td.asarray(x0)
    gd, gx = td.grad(loss(d, x), [d, x])
    np.testing.assert_allclose(gd.numpy(), differences(lambda v: loss(v, x0), d0), 1e-6)
    np.testing.assert_allclose(gx.numpy(), differences(lambda v: loss(d0, v), x0), 1e-6)


def test_complex_elements() -> None:
    a = sparse(4, 3) + 1j * sparse(4, 3)
    x = RNG.normal(size=3) + 1j
    np.testing.assert_allclose((td.CSR.of(a) @ x).numpy(), a @ x, atol=1e-12)


def test_elements_that_repeat_a_place_add_up() -> None:
    y = td.csr_matmul([1.0, 2.0, 4.0], [1, 1, 0], [0, 2, 3], [1.0, 10.0])
    assert y.tolist() == [30.0, 4.0]


def test_it_is_compiled_and_trains() -> None:
    a = sparse(20, 10, np.float32)
    own = td.CSR.of(a)
    data = td.param(init=np.zeros(own.data.size, np.float32))
    x = RNG.normal(size=(10, 30)).astype(np.float32)
    step = td.optim.SGD(lr=3.0)
    for _ in range(60):
        y = td.csr_matmul(data, own.indices, own.indptr, x)
        last = float(step.step(td.mse_loss(y, a @ x)))
    assert last < 1e-2 and td.latest_program().fallbacks == ()
    np.testing.assert_allclose(data.numpy(), own.data.numpy(), atol=0.2)


def test_what_is_no_matrix_is_told() -> None:
    with pytest.raises(ShapeError, match="starts of rows"):
        td.CSR([1.0], [0], [0, 1], (2, 2))
    with pytest.raises(ShapeError, match="do not fall"):
        td.CSR([1.0, 1.0], [0, 0], [0, 2, 1, 2], (3, 2))
    with pytest.raises(ShapeError, match="not among 2 columns"):
        td.CSR([1.0], [2], [0, 1], (1, 2))
    with pytest.raises(ArgumentError, match="number of columns"):
        td.csr_matmul([1.0], [0], [0, 1], [1.0], transposed=True)
    with pytest.raises(ShapeError, match="does not meet"):
        td.CSR([1.0], [0], [0, 1], (1, 2)) @ np.ones(3)
    with pytest.raises(RunError, match="out of range"):
        td.csr_matmul([1.0], [5], [0, 1], [1.0, 1.0]).numpy()
