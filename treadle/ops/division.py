"""Whole quotients and remainders, and what pairs of magnitudes make."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import float32, int32
from treadle.graph.op import FLAT, Array, Cotangents, Input, Sample, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import as_float, carried_wide, operands
from treadle.ops.families import Elementwise
from treadle.ops.sampling import binary_samples

__all__ = [
    "copysign",
    "floor_divide",
    "fma",
    "fmod",
    "hypot",
    "lerp",
    "logaddexp",
    "remainder",
]

_TOP, _BOTTOM = Input(low=1.1, high=1.9), Input(low=2.2, high=3.8)


@op(primitive=True)
class FloorDivide(Elementwise):
    """The greatest whole number not above x / y."""

    arity = 2
    takes = "ordered"
    ufunc = np.floor_divide
    domain = Input(low=-9, high=9), Input(low=1, high=4)
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return FLAT, FLAT


@provide
def floor_divide(x: Any, y: Any) -> Tensor:
    """The greatest whole number not above x / y; its derivative is 0.

    >>> td.floor_divide([7, -7], 2).tolist()
    [3, -4]
    """
    return binary(FloorDivide(), x, y)


class Modulo(Elementwise):
    """The remainder of x after whole multiples of y."""

    __slots__ = ()
    arity = 2
    takes = "ordered"

    @classmethod
    def samples(cls) -> list[Sample]:
        samples = binary_samples(cls(), _TOP, _BOTTOM)
        whole = binary_samples(
            cls(), Input(low=-9, high=9), Input(low=1, high=4), (int32,)
        )
        return samples + whole


@op(primitive=True)
class Remainder(Modulo):
    """x - floor(x / y) y, with the sign of y."""

    def numpy(self, *arrays: Any) -> Array:
        return np.remainder(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, -g * floor_divide(xs[0], xs[1])


@provide
def remainder(x: Any, y: Any) -> Tensor:
    """x - floor(x / y) y: what is left, with the sign of y.

    >>> td.remainder([7, -7], 3).tolist()
    [1, 2]
    """
    return binary(Remainder(), x, y)


@op(primitive=True)
class Fmod(Modulo):
    """x - trunc(x / y) y, with the sign of x."""

    def numpy(self, *arrays: Any) -> Array:
        return np.fmod(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, -g * functions.trunc(xs[0] / xs[1])


@provide
def fmod(x: Any, y: Any) -> Tensor:
    """x - trunc(x / y) y: what is left, with the sign of x.

    >>> td.fmod([7, -7], 3).tolist()
    [1, -1]
    """
    return binary(Fmod(), x, y)


@op(tolerance="U")
class Hypot(Elementwise):
    """The length of the hypotenuse without overflow; its derivative at 0, 0 is 0."""

    arity = 2
    takes = "float"
    ufunc = np.hypot
    domain = Input(apart=0.2), Input(low=0.5, high=2)

    def scalar(self, *xs: Any) -> Any:
        a, b = functions.abs(xs[0]), functions.abs(xs[1])
        big, small = functions.maximum(a, b), functions.minimum(a, b)
        ratio = functions.where(big == 0, 0, small / functions.where(big == 0, 1, big))
        length = big * functions.sqrt(1.0 + ratio * ratio)
        # Beside an infinity any length is infinite, that of NaN too.
        return functions.where(functions.isinf(a) | functions.isinf(b), np.inf, length)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        safe = functions.where(y == 0, 1, y)
        return g * (xs[0] / safe), g * (xs[1] / safe)


@provide
def hypot(x: Any, y: Any) -> Tensor:
    """The square root of x x + y y.

    >>> float(td.hypot(3.0, 4.0))
    5.0
    """
    return binary(Hypot(), as_float(x), as_float(y))


@op(commutative=True, tolerance="R")
class LogAddExp(Elementwise):
    """The logarithm of e**x + e**y, without overflow."""

    arity = 2
    takes = "float"
    ufunc = np.logaddexp

    def scalar(self, *xs: Any) -> Any:
        big = functions.maximum(*xs)
        gap = functions.where(xs[0] == xs[1], 0, functions.abs(xs[0] - xs[1]))
        return big + functions.log1p(functions.exp(-gap))

    def vjp(self, g: Any, y: Any, a: Tensor, b: Tensor) -> Cotangents:
        gap = functions.where((a == b) & functions.isinf(a), 0, a - b)
        return g * functions.sigmoid(gap), g * functions.sigmoid(-gap)


@provide
def logaddexp(x: Any, y: Any) -> Tensor:
    """log(e**x + e**y), without overflow.

    >>> f"{float(td.logaddexp(1000.0, 1000.0)):.3f}"
    '1000.693'
    """
    return binary(LogAddExp(), as_float(x), as_float(y))


@op(primitive=True)
class CopySign(Elementwise):
    """The magnitude of x with the sign of y."""

    arity = 2
    takes = "float"
    ufunc = np.copysign
    domain = Input(apart=0.1), Input(apart=0.1)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g * functions.sign(xs[0]) * copysign(1.0, xs[1]), FLAT


@provide
def copysign(x: Any, y: Any) -> Tensor:
    """The magnitude of x with the sign of y, that of -0.0 included.

    The derivative by y is 0.

    >>> td.copysign([1.0, 2.0], [-1.0, 0.0]).tolist()
    [-1.0, 2.0]
    """
    return binary(CopySign(), as_float(x), as_float(y))


@carried_wide
def fma(x: Any, y: Any, z: Any) -> Tensor:
    """x y + z.

    >>> float(td.fma(2.0, 3.0, 4.0))
    10.0
    """
    a, b, c = operands(x, y, z)
    return a * b + c


@carried_wide
def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """x + weight (y - x): from x at weight 0 to y at weight 1.

    >>> float(td.lerp(1.0, 3.0, 0.25))
    1.5
    """
    a, b = operands(x, y)
    return a + (b - a) * weight
