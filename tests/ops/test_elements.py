"""Elementwise functions where samples do not go: ends of the range, ties, complex."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import ArgumentError, DTypeError
from treadle.graph.tensor import Tensor

INF, NAN = math.inf, math.nan


def slopes(f: Callable[[Tensor], Tensor], values: Any, dtype: str = "float64") -> Any:
    """Value, first and second derivative of f at each point."""
    x = td.asarray(values, dtype=dtype)
    y = f(x)
    (first,) = td.grad(y.sum(), [x], unused="zero")
    (second,) = td.grad(first.sum(), [x], unused="zero")
    return y.numpy(), first.numpy(), second.numpy()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_sigmoid_is_right_to_its_last_bits_as_far_as_numbers_go(dtype: str) -> None:
    least = np.finfo(dtype).tiny
    far = -math.log(float(least))
    x = np.linspace(-far, far, 4001).astype(dtype)
    wide = x.astype(np.longdouble)
    exact = np.where(wide >= 0, 1, np.exp(wide)) / (1 + np.exp(-np.abs(wide)))
    y = td.sigmoid(td.asarray(x)).numpy()
    apart = np.abs(y.astype(np.longdouble) - exact)
    assert (apart <= 4 * np.spacing(np.maximum(exact, least).astype(dtype))).all()
    ends = td.sigmoid(td.asarray([-INF, -1e4, 1e4, INF, NAN], dtype=dtype)).numpy()
    assert ends[:4].tolist() == [0.0, 0.0, 1.0, 1.0] and math.isnan(ends[4])


COMPLEX = [
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "conj", "cos",
    "cosh", "cube", "exp", "expm1", "imag", "log", "log10", "log1p", "log2", "real",
    "reciprocal", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives_are_the_limits_of_differences(name: str) -> None:
    rng = np.random.default_rng(1)
    z0 = rng.uniform(-0.7, 0.7, 4) + 1j * rng.uniform(0.3, 0.6, 4)
    u, v = rng.normal(size=(2, 4)) + 1j * rng.normal(size=(2, 4))

    def weighed(y: Tensor, weights: Any) -> Tensor:
        return td.real(td.sum(td.astype(y, "complex128") * td.asarray(weights)))

    def value(z: Tensor) -> Tensor:
        return weighed(getattr(td, name)(z), u)

    def bent(z: Tensor) -> Tensor:
        return weighed(td.grad(value(z), [z])[0], v)

    for f in (value, bent):
        z = td.asarray(z0)
        got = td.grad(f(z), [z], unused="zero")[0].numpy()
        h = 1e-6
        steps = [h * d * e for e in np.eye(4) for d in (1, 1j)]
        gaps = [
            float(f(td.asarray(z0 + s))) - float(f(td.asarray(z0 - s))) for s in steps
        ]
        parts = np.array(gaps).reshape(4, 2) / (2 * h)
        np.testing.assert_allclose(got, parts[:, 0] + 1j * parts[:, 1], atol=1e-7)


def test_sinc_bends_at_zero_and_beside_it() -> None:
    value, first, second = slopes(td.sinc, [0.0, 1e-9, -1e-5])
    np.testing.assert_allclose(value, [1, 1, 1], rtol=1e-9)
    third = math.pi**2 / 3
    np.testing.assert_allclose(first, [0, -third * 1e-9, third * 1e-5], rtol=1e-9)
    np.testing.assert_allclose(second, [-third] * 3, rtol=1e-8)


def test_gamma_functions_far_below_zero() -> None:
    assert td.lgamma([INF, -INF]).tolist() == [INF, INF]
    assert np.isnan(td.digamma([-1e30, -INF, -2.0, 0.0]).numpy()).all()
    x = td.asarray([-30.25, -2000.75], dtype="float64")
    # psi(x) = psi(1 - x) - pi / tan(pi x), and one derivative further.
    mirror, turn = td.digamma(1.0 - x).numpy(), math.pi / np.tan(math.pi * x.numpy())
    np.testing.assert_allclose(td.digamma(x).numpy(), mirror - turn, rtol=1e-12)
    sines = (math.pi / np.sin(math.pi * x.numpy())) ** 2
    other = sines - td.polygamma(1, 1.0 - x).numpy()
    np.testing.assert_allclose(td.polygamma(1, x).numpy(), other, rtol=1e-12)


def test_dawson_at_zero_and_far_off() -> None:
    found = td.dawsn(td.asarray([0.0, 1e-9, 1e9, INF], dtype="float64")).tolist()
    np.testing.assert_allclose(found, [0.0, 1e-9, 5e-10, 0.0], rtol=1e-14)


def test_gelu_keeps_its_lower_tail() -> None:
    value, _, _ = slopes(td.gelu, [-10.0])
    np.testing.assert_allclose(value, [-10 * math.erfc(10 / math.sqrt(2)) / 2])


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh", "mish", "softplus"])
def test_gates_have_slope_one_far_up(name: str) -> None:
    for dtype, far in (("float16", 300.0), ("float32", 1e30)):
        _, first, _ = slopes(getattr(td, name), [far], dtype)
        assert first.tolist() == [1.0]


def test_equal_operands_share_the_derivative_of_logaddexp() -> None:
    for v in (-INF, 0.0, 1e30, INF):
        x, y = td.asarray(v), td.asarray(v)
        found = td.grad(td.logaddexp(x, y), [x, y])
        assert [float(g) for g in found] == [0.5, 0.5]


def test_derivatives_at_the_origin_are_zero() -> None:
    x, y = td.asarray(0.0), td.asarray(0.0)
    for f in (td.hypot, td.atan2):
        assert [float(g) for g in td.grad(f(x, y), [x, y])] == [0.0, 0.0]


def test_the_zeroth_power_is_flat_to_second_order() -> None:
    for exponent in (0, td.asarray(0.0, dtype="float64")):
        value, first, second = slopes(lambda x, n=exponent: x**n, [0.0, -2.0])
        assert (value == 1).all() and (first == 0).all() and (second == 0).all()
    x, n = td.asarray(2.0), td.asarray(0.0)
    mixed = td.grad(td.grad(x**n, [x])[0], [n])[0]
    np.testing.assert_allclose(float(mixed), 0.5)


def test_sparsemax_of_large_numbers_and_nan() -> None:
    assert td.sparsemax([1e30, -1e30]).tolist() == [1.0, 0.0]
    assert np.isnan(td.sparsemax([NAN, 1.0]).numpy()).all()


def test_nan_passes_thresholds() -> None:
    assert math.isnan(float(td.thresholded_relu(NAN)))
    assert math.isnan(float(td.relu(NAN))) and math.isnan(float(td.clip(NAN, 0, 1)))
    assert math.isnan(float(td.bump(NAN)))


def test_nan_to_num_by_type() -> None:
    special = [INF, -INF, NAN, 1.0]
    half = td.asarray(special, dtype="bfloat16")
    largest = 2.0**127 * (2 - 2.0**-7)
    assert td.nan_to_num(half).tolist() == [largest, -largest, 0.0, 1.0]
    assert td.nan_to_num(special, 5, 6, 7).tolist() == [6.0, 7.0, 5.0, 1.0]
    with pytest.raises(DTypeError, match="takes real operands"):
        td.nan_to_num(td.asarray([1j]))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose_is_numpys(equal_nan: bool) -> None:
    a, b = [1, INF, -INF, NAN, INF, 1.0], [1 + 1e-6, INF, INF, NAN, 1.0, INF]
    want = np.isclose(a, b, equal_nan=equal_nan).tolist()
    assert td.isclose(a, b, equal_nan=equal_nan).tolist() == want
    assert not bool(td.allclose(a, b, equal_nan=equal_nan))


def test_equality_beside_no_number_is_a_bool() -> None:
    x = td.asarray([1.0])
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "text") is False and (x != "text") is True


def test_gelu_names_its_approximations() -> None:
    with pytest.raises(ArgumentError, match="'none' or 'tanh'"):
        td.gelu(1.0, approximate="erf")


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_whole_powers_are_products_that_wrap(dtype: str) -> None:
    x = np.arange(0 if dtype == "uint8" else -9, 12).astype(dtype)
    for n in (4, 5, 7, 12, 31):
        y = td.pow(td.asarray(x), n)
        assert y.numpy().tolist() == np.power(x, np.asarray(n, dtype)).tolist()
        with td.options(engine="native"):
            assert td.lower(y).fallbacks == ()
