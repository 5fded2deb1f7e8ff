"""Linear algebra where samples do not go: complex gradients, shapes, singular cases."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import complex_differences
from treadle.base.errors import ArgumentError, MissingExtraError, RunError, ShapeError
from treadle.graph.tensor import Tensor

la = td.linalg
Array = np.ndarray[Any, Any]


def drawn(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, *shape)) @ np.eye(shape[-1])
    found: Array = x[0] + 1j * x[1] + 2 * np.eye(*shape[-2:])
    return found


def weighed(*ys: Tensor) -> Tensor:
    """A real number of complex results, each element with a weight of its own."""
    rng = np.random.default_rng(3)
    total: Tensor = td.constant(0.0, "float64")
    for y in ys:
        w = rng.normal(size=y.shape) + 1j * rng.normal(size=y.shape)
        total = total + td.real(td.sum(td.astype(y, "complex128") * td.asarray(w)))
    return total


def positive(z: Tensor) -> Tensor:
    return z @ td.conj(td.matrix_transpose(z)) + td.eye(3, dtype="complex128")


def spectrum(z: Tensor) -> Tensor:
    """Of eigenvectors what does not depend on their phases."""
    w, v = la.eigh(z)
    first = v[:, :1] @ td.conj(td.matrix_transpose(v[:, :1]))
    return weighed(w, first)


def singular(z: Tensor) -> Tensor:
    u, s, vh = la.svd(z)
    return weighed(s, u[:, :1] @ vh[:1], td.abs(u), td.abs(vh))


SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "inv": lambda z: weighed(la.inv(z)),
    "det": lambda z: weighed(la.det(z)),
    "slogdet": lambda z: weighed(*la.slogdet(z)),
    "logdet": lambda z: weighed(la.logdet(z)),
    "cofactors": lambda z: weighed(la.cofactors(z)),
    "pinv": lambda z: weighed(la.pinv(z[:, :2])),
    "solve": lambda z: weighed(la.solve(z, z[0])),
    "triangular": lambda z: weighed(la.triangular_solve(z, z, upper=True)),
    "cholesky": lambda z: weighed(la.cholesky(positive(z))),
    "qr": lambda z: weighed(*la.qr(z)),
    "tall qr": lambda z: weighed(*la.qr(z[:, :2])),
    "wide qr": lambda z: weighed(*la.qr(z[:2])),
    "lq": lambda z: weighed(*la.lq(z[:2])),
    "lstsq": lambda z: weighed(la.lstsq(z[:, :2], z[:, 2])),
    "short lstsq": lambda z: weighed(la.lstsq(z[:2], z[0, :2])),
    "eigh": spectrum,
    "svd": singular,
    "tall svd": lambda z: singular(z[:, :2]),
    "wide svd": lambda z: singular(z[:2]),
    "sylvester": lambda z: weighed(la.sylvester(z, z[:2, :2] * 2, z[:, :2])),
    "lyapunov": lambda z: weighed(la.lyapunov(z, z * 2)),
    "discrete": lambda z: weighed(la.discrete_lyapunov(z * 0.2, z)),
    "care": lambda z: weighed(la.care(z, z[:, :2], positive(z), positive(z)[:2, :2])),
    "dare": lambda z: weighed(la.dare(z, z[:, :2], positive(z), positive(z)[:2, :2])),
    "exp": lambda z: weighed(la.matrix_exp(z * 0.3)),
    "nuclear": lambda z: la.matrix_norm(z, "nuc"),
    "frobenius": lambda z: la.matrix_norm(z),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_complex_gradients_are_the_limits_of_differences(name: str) -> None:
    z0 = drawn(3, 3)
    z = td.asarray(z0)
    (got,) = td.grad(SMOOTH[name](z), [z])
    np.testing.assert_allclose(
        got.numpy(),
        complex_differences(lambda v: SMOOTH[name](td.asarray(v)), z0),
        1e-5,
        1e-6,
    )


EIG: dict[str, Callable[[Any], Tensor]] = {
    "values": lambda z: (td.abs(la.eig(z)[0] + 0.3 - 0.2j) ** 3).sum(),
    # Of vectors, what does not change when one is turned by a phase.
    "vectors": lambda z: (td.abs(la.eig(z)[1]) ** 4).sum(),
    "both": lambda z: (
        td.abs(la.eig(z)[1] * td.expand_dims(la.eig(z)[0], 0)) ** 3
    ).sum(),
}


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("name", EIG)
def test_gradients_of_eig_are_the_limits_of_differences(name: str, real: bool) -> None:
    """A real matrix with complex eigenvalues among them."""
    z0 = (
        np.array([[1.0, 2.0, 0.5], [-1.5, 0.8, 0.1], [0.2, 0.3, 3.0]])
        if real
        else drawn(3, 3)
    )
    z = td.asarray(z0)
    (got,) = td.grad(EIG[name](z), [z])
    wanted = complex_differences(lambda v: EIG[name](td.asarray(v)), z0)
    wanted = wanted.real if real else wanted
    np.testing.assert_allclose(got.numpy(), wanted, 1e-5, 1e-6)


NUMPY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "inv": (la.inv, np.linalg.inv),
    "det": (la.det, np.linalg.det),
    "slogdet": (la.slogdet, np.linalg.slogdet),
    "qr": (la.qr, np.linalg.qr),
    "svd": (la.svd, lambda x: np.linalg.svd(x, full_matrices=False)),
    "svdvals": (la.svdvals, np.linalg.svdvals),
    "pinv": (la.pinv, np.linalg.pinv),
    "power": (lambda x: la.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5)),
    "negative": (
        lambda x: la.matrix_power(x, -3),
        lambda x: np.linalg.matrix_power(x, -3),
    ),
    "none": (lambda x: la.matrix_power(x, 0), lambda x: np.linalg.matrix_power(x, 0)),
    "cross": (
        lambda x: la.cross(x[..., :3], x[0, 0, 1, :3]),
        lambda x: np.cross(x[..., :3], x[0, 0, 1, :3]),
    ),
    "trace": (la.trace, lambda x: np.trace(x, axis1=-2, axis2=-1)),
    "rank": (la.matrix_rank, np.linalg.matrix_rank),
    "cond": (la.cond, np.linalg.cond),
    **{
        f"norm {k}": (
            lambda x, k=k: la.matrix_norm(x, k),
            lambda x, k=k: np.linalg.norm(x, k, (-2, -1)),
        )
        for k in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", NUMPY)
def test_stacks_are_as_numpy_has_them(name: str, dtype: str) -> None:
    x = drawn(2, 1, 4, 4)
    x = x if dtype == "complex128" else x.real
    ours, theirs = NUMPY[name]
    got, want = ours(x), theirs(x)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for g, w in pairs:
        assert g.shape == np.shape(w)
        np.testing.assert_allclose(g.numpy(), w, 1e-9, 1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name",
    ["inv", "det", "slogdet", "pinv", "cholesky", "qr", "lq", "svd", "eigh", "cond",
     "matrix_rank", "matrix_norm"],
)  # fmt: skip
def test_half_floats(name: str, dtype: str) -> None:
    x = np.array([[4, 1], [1, 3]])
    half, single = (getattr(la, name)(td.asarray(x, dtype=d)) for d in (dtype, "f4"))
    if not isinstance(half, tuple):
        half, single = (half,), (single,)
    for h, s in zip(half, single, strict=True):
        assert h.dtype == dtype or name == "matrix_rank"
        np.testing.assert_allclose(h.numpy().astype("f4"), s.numpy(), 2e-2, 2e-2)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3)])
def test_norms_and_ranks_of_nothing_are_0(shape: tuple[int, ...]) -> None:
    x, rows = np.zeros(shape), np.zeros((*shape[:-2], shape[-1]))
    for order in ("fro", "nuc", 1, 2, np.inf):
        found = td.linalg.matrix_norm(x, order).numpy()
        assert np.array_equal(found, np.zeros(shape[:-2]))
    for order in (0, 1, 2, 3, np.inf):
        assert np.array_equal(td.linalg.vector_norm(x, order, -2).numpy(), rows)
    assert np.array_equal(td.linalg.matrix_rank(x).numpy(), np.zeros(shape[:-2]))


def test_ranks_of_a_stack_have_a_bound_each() -> None:
    x = np.eye(2) * [1.0, 0.1] * np.ones((2, 1, 1))
    bounds = np.array([0.5, 0.01])
    found = td.linalg.matrix_rank(x, rtol=bounds)
    assert found.tolist() == np.linalg.matrix_rank(x, rtol=bounds).tolist() == [1, 2]
    assert td.linalg.matrix_rank(x[:0], rtol=bounds[:0]).shape == (0,)


def test_half_floats_and_integers_are_taken() -> None:
    x = np.array([[2, 1], [1, 3]])
    assert la.inv(x).dtype == td.float32
    assert la.inv(td.asarray(x, dtype="float16")).dtype == td.float16
    np.testing.assert_allclose(la.det(x).numpy(), 5, 1e-6)


def test_right_hand_sides_are_vectors_or_matrices_and_broadcast() -> None:
    a, b = drawn(2, 3, 3).real, np.arange(3.0)
    want = np.linalg.solve(a, np.broadcast_to(b[:, None], (2, 3, 1)))[..., 0]
    np.testing.assert_allclose(la.solve(a, b).numpy(), want, 1e-9)
    lower = np.tril(a)
    want = np.linalg.solve(lower, np.ones((3, 2)))
    got = la.triangular_solve(a, np.ones((3, 2)))
    np.testing.assert_allclose(got.numpy(), want, 1e-9)


@pytest.mark.parametrize("upper", [False, True])
def test_a_triangular_system_of_many_rows(upper: bool) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(200, 200)) / 20 + 2 * np.eye(200)
    b = rng.normal(size=(200, 3))
    x = la.triangular_solve(a, b, upper=upper).numpy()
    kept = np.triu(a) if upper else np.tril(a)
    np.testing.assert_allclose(kept @ x, b, atol=1e-9)
    x = la.triangular_solve(a / 2, b, upper=upper, unit=True).numpy()
    np.fill_diagonal(kept, 2)
    np.testing.assert_allclose(kept / 2 @ x, b, atol=1e-9)


def test_least_squares_of_both_shapes() -> None:
    a = drawn(5, 3).real
    for x in (a, a.T):
        b = np.arange(float(len(x)))
        want = np.linalg.lstsq(x, b, rcond=None)[0]
        np.testing.assert_allclose(la.lstsq(x, b).numpy(), want, 1e-9)


def test_the_derivative_of_a_singular_determinant_is_its_cofactors() -> None:
    x = td.asarray([[1.0, 2.0], [2.0, 4.0]])
    (g,) = td.grad(la.det(x), [x])
    np.testing.assert_allclose(g.numpy(), [[4, -2], [-2, 1]], 1e-5)


def test_equal_eigenvalues_have_a_derivative_and_their_vectors_none() -> None:
    x = td.eye(3, dtype="float64")
    w, v = la.eigh(x)
    np.testing.assert_allclose(td.grad(w.sum(), [x])[0].numpy(), np.eye(3))
    assert not np.isfinite(td.grad((v * v * w).sum(), [x])[0].numpy()).all()


def test_logarithms_of_determinants_that_are_not_positive() -> None:
    assert np.isnan(float(la.logdet([[-1.0, 0.0], [0.0, 1.0]])))
    assert float(la.logdet([[1.0, 1.0], [1.0, 1.0]])) == -np.inf
    sign, log = la.slogdet(1e-30 * np.eye(100))
    assert float(sign) == 1 and np.isclose(float(log), -100 * np.log(1e30))


def test_exponentials_of_small_and_large_matrices() -> None:
    x = drawn(3, 3)
    for scale in (1e-8, 1e-2, 1, 30):
        w, v = np.linalg.eig(scale * x)
        want = v @ np.diag(np.exp(w)) @ np.linalg.inv(v)
        got = la.matrix_exp(scale * x).numpy()
        np.testing.assert_allclose(got, want, 1e-9, 1e-11 * np.abs(want).max())
    assert np.isnan(la.matrix_exp([[np.inf, 0.0], [0.0, 1.0]]).numpy()).all()


def test_failures_name_the_op_and_the_remedy() -> None:
    with pytest.raises(RunError, match="not positive definite") as caught:
        la.cholesky([[1.0, 2.0], [2.0, 1.0]]).numpy()
    assert "Cholesky" in str(caught.value) and "td.eye" in str(caught.value)
    with pytest.raises(RunError, match="Singular") as caught:
        la.solve(np.zeros((2, 2)), np.ones(2)).numpy()
    assert "lstsq" in str(caught.value)
    with pytest.raises(ShapeError, match="3 equations with 2"):
        la.lstsq(np.ones((3, 2)), np.ones(2))
    with pytest.raises(ShapeError, match="no right-hand side"):
        la.lstsq(np.ones((3, 2)), 1.0)
    with pytest.raises(ShapeError, match=r"operands: float64\[2, 3, 3\], float64\[4"):
        la.solve(np.ones((2, 3, 3)), np.ones((4, 3, 3)))
    with pytest.raises(ShapeError, match="no square matrix"):
        la.matrix_power(np.ones((3, 2)), 2)
    with pytest.raises(ArgumentError, match="is none of"):
        la.matrix_norm(np.ones((3, 2)), "max")
    with pytest.raises(ArgumentError, match="an integer"):
        la.matrix_power(np.eye(2), 0.5)


def test_solutions_solve_their_equations() -> None:
    a, b, c = drawn(2, 3, 3), drawn(2, 2, seed=1), drawn(3, 2, seed=2)

    def h(x: Array) -> Array:
        return np.conj(np.swapaxes(x, -1, -2))

    x = la.sylvester(a, b, c).numpy()
    np.testing.assert_allclose(a @ x + x @ b, np.broadcast_to(c, x.shape), atol=1e-9)
    x = la.lyapunov(a, a).numpy()
    np.testing.assert_allclose(a @ x + x @ h(a), a, atol=1e-9)
    x = la.discrete_lyapunov(a / 8, a).numpy()
    np.testing.assert_allclose(a / 8 @ x @ h(a / 8) + a, x, atol=1e-9)
    q, r = a @ h(a), b @ h(b)
    x = la.care(a, c, q, r).numpy()
    inner = x @ c @ np.linalg.solve(r, h(c)) @ x
    np.testing.assert_allclose(h(a) @ x + x @ a - inner + q, 0 * q, atol=1e-8)
    x = la.dare(a, c, q, r).numpy()
    gain = np.linalg.solve(r + h(c) @ x @ c, h(c) @ x @ a)
    np.testing.assert_allclose(h(a) @ x @ (a - c @ gain) + q, x, atol=1e-7)


def test_an_equation_without_one_solution_says_so() -> None:
    with pytest.raises(RunError, match="no unique solution") as caught:
        la.lyapunov(np.diag([1.0, -1.0]), np.eye(2)).numpy()
    assert "whose sum is 0" in str(caught.value)
    with pytest.raises(RunError, match="solution") as caught:
        la.care(np.eye(2), np.zeros((2, 1)), np.eye(2), np.eye(1)).numpy()
    assert "Care" in str(caught.value)


def test_what_needs_scipy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    with pytest.raises(MissingExtraError, match=r"treadle\[linalg\]") as caught:
        la.lyapunov(np.eye(9), np.eye(9))  # types that no test before has had
    assert "lyapunov" in str(caught.value).lower()
