"""Special functions: error, gamma, Dawson and sinc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import unary
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.families import Elementwise, Opaque

__all__ = [
    "bump",
    "dawsn",
    "digamma",
    "erf",
    "erfc",
    "lgamma",
    "polygamma",
    "sinc",
]

TWO_OVER_ROOT_PI = 1.1283791670955126
_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


@op(primitive=True, tolerance="U")
class Erf(Elementwise, arity=1, takes="float"):
    """The error function: 2/sqrt(pi) times the integral of e**-t**2 from 0 to x."""

    def numpy(self, *arrays: Any) -> Array:
        return np.asarray(_erf(arrays[0].astype(np.float64)), arrays[0].dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * functions.exp(-xs[0] * xs[0]) * TWO_OVER_ROOT_PI,)


@provide
def erf(x: Any) -> Tensor:
    """The error function: 2/sqrt(pi) times the integral of e**-t**2 from 0 to x.

    >>> f"{float(td.erf(1.0)):.5f}"
    '0.84270'
    """
    return unary(Erf(), x)


@op(primitive=True, tolerance="U")
class Erfc(Elementwise, arity=1, takes="float"):
    """1 - erf(x), exact where erf is near 1."""

    def numpy(self, *arrays: Any) -> Array:
        return np.asarray(_erfc(arrays[0].astype(np.float64)), arrays[0].dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * functions.exp(-xs[0] * xs[0]) * -TWO_OVER_ROOT_PI,)


@provide
def erfc(x: Any) -> Tensor:
    """1 - erf(x), exact where erf is near 1.

    >>> f"{float(td.erfc(3.0)):.5e}"
    '2.20905e-05'
    """
    return unary(Erfc(), x)


class SpecialFunction(Opaque):
    """A function of one float element that is known by its NumPy rule; those of the
    gamma family have poles at 0, -1, -2, ..."""

    __slots__ = ()
    arity = 1
    takes = "float"

    def infer(self, *types: Any) -> Any:
        return types[0]

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*xs)


def _lgamma(v: float) -> float:
    if not math.isfinite(v):
        return abs(v)
    return math.inf if v <= 0 and v == math.floor(v) else math.lgamma(v)


@op(tolerance="U")
class LGamma(SpecialFunction):
    """The logarithm of the absolute value of the gamma function."""

    def numpy(self, *arrays: Any) -> Array:
        values = np.frompyfunc(_lgamma, 1, 1)(arrays[0].astype(np.float64))
        return np.asarray(values, arrays[0].dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * digamma(xs[0]),)


@provide
def lgamma(x: Any) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    >>> f"{float(td.lgamma(5.0)):.5f}"
    '3.17805'
    """
    return LGamma()(as_float(x))


# Bernoulli numbers B2, B4, ... of the asymptotic series (Abramowitz, Stegun, 6.4.11).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def polygamma_of(order: int, x: Array) -> Array:
    """The polygamma function of float64; NaN at its poles 0, -1, -2, ...

    Recurrence up to 12, then the asymptotic series; negative arguments by reflection.
    """
    x = x.astype(np.float64)
    below = x < 0
    z, total = np.where(below, 1.0 - x, x), np.zeros_like(x)
    sign, factorial = (-1.0) ** (order + 1), math.factorial(order)
    for _ in range(12):
        low = z < 12.0
        step = np.where(low, z, 1.0)
        total += np.where(low, sign * factorial / step ** (order + 1), 0.0)
        z = np.where(low, z + 1.0, z)
    if order == 0:
        series = np.log(z) - 0.5 / z
    else:
        series = math.factorial(order - 1) / z**order + factorial / (
            2 * z ** (order + 1)
        )
    for k, b in enumerate(_BERNOULLI, 1):
        if order == 0:
            series = series - b / (2 * k * z ** (2 * k))
        else:
            ratio = math.factorial(2 * k + order - 1) / math.factorial(2 * k)
            series = series + b * ratio / z ** (2 * k + order)
    result = total + (series if order == 0 else sign * series)
    result = np.where(below, (-1) ** order * result - _reflected(order, x), result)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, result)


def _reflected(order: int, x: Array) -> Array:
    """The derivative of `order` of pi cot(pi x), a polynomial in the cotangent."""
    cotangent = 1.0 / np.tan(math.pi * (x - np.rint(x)))
    derivative = np.polynomial.Polynomial([0.0, math.pi])
    for _ in range(order):
        derivative = derivative.deriv() * np.polynomial.Polynomial(
            [-math.pi, 0.0, -math.pi]
        )
    return np.asarray(derivative(cotangent))


@op(tolerance="R")
class Polygamma(SpecialFunction):
    """The derivative of `order` of the digamma function."""

    order: int = 0

    def numpy(self, *arrays: Any) -> Array:
        return polygamma_of(self.order, arrays[0]).astype(arrays[0].dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * Polygamma(self.order + 1)(xs[0]),)


@provide
def digamma(x: Any) -> Tensor:
    """The derivative of lgamma.

    >>> f"{float(td.digamma(1.0)):.5f}"
    '-0.57722'
    """
    return Polygamma(0)(as_float(x))


def polygamma(order: int, x: Any) -> Tensor:
    """The derivative of `order`, from 0 to 160, of digamma: factorials of larger ones
    are no float64.

    >>> f"{float(td.polygamma(1, 1.0)):.5f}"
    '1.64493'
    """
    if not 0 <= order <= 160:
        error = ArgumentError(f"order is a whole number from 0 to 160, not {order!r}")
        raise error.located("polygamma")
    return Polygamma(order)(as_float(x))


def _dawsn(x: Array, step: float = 0.2, terms: int = 20) -> Array:
    """Dawson's integral by Rybicki's method (1989): error about e**-(pi / step)**2.

    Near 0, where its terms cancel, the power series; far off, the asymptote 1 / 2x.
    """
    middle = np.where(np.abs(x) < 1e8, x, 0.0)
    near = 2 * np.rint(0.5 * middle / step)
    offset = middle - near * step
    total = np.zeros_like(x)
    for k in range(-2 * terms + 1, 2 * terms, 2):
        total += np.exp(-((offset - k * step) ** 2)) / (near + k)
    series = np.ones_like(x)
    for k in range(12, 0, -1):
        series = 1.0 - 2.0 * middle * middle / (2 * k + 1) * series
    inner = np.where(np.abs(x) < 0.2, x * series, total / math.sqrt(math.pi))
    return np.where(np.abs(x) < 1e8, inner, 0.5 / x)


@op(tolerance="R")
class Dawsn(SpecialFunction):
    """Dawson's integral: e**-x**2 times the integral of e**t**2 from 0 to x."""

    def numpy(self, *arrays: Any) -> Array:
        return _dawsn(arrays[0].astype(np.float64)).astype(arrays[0].dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * (1.0 - y * xs[0] * 2.0),)


def dawsn(x: Any) -> Tensor:
    """Dawson's integral: e**-x**2 times the integral of e**t**2 from 0 to x.

    >>> f"{float(td.dawsn(1.0)):.5f}"
    '0.53808'
    """
    return Dawsn()(as_float(x))


@carried_wide
def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0; its derivatives are exact near 0 too.

    >>> [f"{v:.5f}" for v in td.sinc([0.0, 0.5]).tolist()]
    ['1.00000', '0.63662']
    """
    node = as_float(x) * math.pi
    near = functions.abs(node) < 1
    square = functions.square(functions.where(near, node, 0))
    series: Any = 1.0
    for k in range(9, 0, -1):
        series = 1.0 - square * (series / (2 * k * (2 * k + 1)))
    safe = functions.where(near, 1, node)
    return functions.where(near, series, functions.sin(safe) / safe)


@carried_wide
def bump(x: Any) -> Tensor:
    """e**(1 - 1 / (1 - x**2)) between -1 and 1, else 0: smooth, with bounded support.

    >>> [f"{v:.5f}" for v in td.bump([0.0, 0.5, 1.0]).tolist()]
    ['1.00000', '0.71653', '0.00000']
    """
    node = as_float(x)
    inside = functions.abs(node) < 1
    safe = functions.where(inside, node, 0)
    value = functions.exp(1.0 - 1.0 / ((1.0 - safe) * (1.0 + safe)))
    return functions.where(functions.abs(node) >= 1, 0, value + (node - safe))
