"""Complex numbers: values as NumPy's, derivatives as the limits of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import complex_differences
from treadle.base.errors import DTypeError, GradientError
from treadle.graph.tensor import Tensor

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


Z, W, K = drawn(3, 4), drawn(3, 4), drawn(2, 3, 2)

VALUES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "var": (lambda: td.var(Z, 0, correction=1), lambda: Z.var(0, ddof=1)),
    "std": (lambda: td.std(Z), lambda: Z.std()),
    "sigmoid": (lambda: td.sigmoid(Z * 9), lambda: 1 / (1 + np.exp(-Z * 9))),
    "silu": (lambda: td.silu(Z), lambda: Z / (1 + np.exp(-Z))),
    "logsumexp": (
        lambda: td.logsumexp(Z, 1, keepdims=True),
        lambda: np.log(np.exp(Z).sum(1, keepdims=True)),
    ),
    "mse": (lambda: td.mse_loss(Z, W), lambda: (abs(Z - W) ** 2).mean()),
    "distance": (
        lambda: td.squared_distance(Z, W, 1),
        lambda: (abs(Z - W) ** 2).sum(1),
    ),
    "average": (
        lambda: td.avg_pool1d(Z[None], 2),
        lambda: Z[None].reshape(1, 3, 2, 2).mean(3),
    ),
    "masked": (
        lambda: td.masked_avg_pool(Z, Z.real > 0, 1),
        lambda: (Z * (Z.real > 0)).sum(1) / (Z.real > 0).sum(1),
    ),
    "round": (lambda: td.round(Z * 3), lambda: np.round(Z * 3)),
    "convolution": (
        lambda: td.conv1d(Z[None], K),
        lambda: np.stack(
            [Z[:, i : i + 2].ravel() @ K.reshape(2, 6).T for i in range(3)]
        ).T[None],
    ),
    "logistic": (
        lambda: 1 / (1 + td.exp(-td.asarray(Z))),
        lambda: 1 / (1 + np.exp(-Z)),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_numpys(name: str) -> None:
    ours, theirs = VALUES[name]
    got, want = ours().numpy(), theirs()
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, 1e-9, 1e-12)


SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "var": lambda z: td.var(z, 0),
    "std": lambda z: td.std(z),
    "sigmoid": td.sigmoid,
    "silu": td.silu,
    "logsumexp": lambda z: td.logsumexp(z, 1),
    "mse": lambda z: td.mse_loss(z, W),
    "average": lambda z: td.avg_pool1d(z.reshape(1, 3, 4), 2),
    "unfold": lambda z: td.unfold(z.reshape(1, 3, 4), 2),
    "fold": lambda z: td.fold(z.reshape(1, 2, 6), 7, 2),
    "convolved": lambda z: td.conv1d(z.reshape(1, 3, 4), K),
    "kernel": lambda z: td.conv1d(W.reshape(1, 2, 6), z.reshape(2, 2, 3)),
    "transposed": lambda z: td.conv_transpose1d(z[:2].reshape(1, 2, 4), K, stride=2),
    "transposed kernel": lambda z: td.conv_transpose1d(
        W.reshape(1, 2, 6), z.reshape(2, 2, 3)
    ),
    "matmul": lambda z: z @ td.matrix_transpose(z * z),
    "einsum": lambda z: td.einsum("ij,kj->ik", z, W),
    "prod": lambda z: td.prod(z, 1),
    "cumprod": lambda z: td.cumulative_prod(z, 1),
    "recurrence": lambda z: td.linear_recurrence(z * 0.5, z),
    "kron": lambda z: td.kron(z[0], z[1]),
    "circular": lambda z: td.circular_convolution(z[0], z[1]),
    "csr": lambda z: td.csr_matmul(z[0], [0, 1, 0, 1], [0, 1, 4], z[1:, :2]),
    "norm": lambda z: td.norm(z, 3, 1),
    "power": lambda z: z ** z[0],
    "upsampled": lambda z: td.upsample(z.reshape(1, 3, 4), 2, "linear"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_the_limits_of_differences(name: str) -> None:
    f = SMOOTH[name]
    weights = drawn(*f(td.asarray(Z)).shape)

    def value(z: Any) -> Tensor:
        return td.real((f(td.asarray(z)) * weights).sum())

    z = td.asarray(Z)
    (got,) = td.grad(value(z), [z])
    np.testing.assert_allclose(got.numpy(), complex_differences(value, Z), 1e-6, 1e-7)

    def bent(z: Any) -> Tensor:
        z = td.asarray(z)
        (g,) = td.grad(value(z), [z])
        return td.real((g * W).sum())

    z = td.asarray(Z)
    (second,) = td.grad(bent(z), [z], unused="zero")
    np.testing.assert_allclose(second.numpy(), complex_differences(bent, Z), 1e-5, 1e-6)


def test_a_complex_number_descends() -> None:
    z = td.param(init=np.array(3 + 1j), dtype="complex128")
    step = td.optim.SGD(lr=0.1)
    for _ in range(60):
        step.step(td.mse_loss(z, 1j))
    np.testing.assert_allclose(z.numpy(), 1j, atol=1e-4)


def test_a_gradient_is_of_a_real_number() -> None:
    z = td.asarray(1 + 2j)
    with pytest.raises(GradientError, match=r"td\.real"):
        td.grad(z * z, [z])
    (g,) = td.vjp(z * z, [z], td.asarray(1 + 0j))
    np.testing.assert_allclose(g.numpy(), 2 * (1 - 2j))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "max", "sort", "softmax"])
def test_what_has_no_meaning_for_complex_numbers_is_refused(name: str) -> None:
    with pytest.raises(DTypeError, match="complex128"):
        getattr(td, name)(td.asarray(Z))
