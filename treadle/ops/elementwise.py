"""Arithmetic on elements: sums, products, quotients, remainders and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import float32, int32, is_inexact, kind
from treadle.graph.op import FLAT, Cotangents, Input, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded, recorded_with_numbers
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import as_float, carried_wide, operands
from treadle.ops.families import Elementwise

__all__ = [
    "add",
    "conj",
    "copysign",
    "divide",
    "floor_divide",
    "fma",
    "fmod",
    "hypot",
    "lerp",
    "logaddexp",
    "multiply",
    "negative",
    "positive",
    "remainder",
    "subtract",
]


@op(primitive=True, commutative=True, linear=True, identity=0)
class Add(Elementwise, arity=2, ufunc=np.add, sample_dtypes=(float32, int32)):
    """x + y."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, g


@provide
@recorded_with_numbers
def add(x: Any, y: Any) -> Tensor:
    """x + y, element by element.

    >>> td.add([1.0, 2.0], 3).numpy()
    array([4., 5.], dtype=float32)
    """
    return binary(ADD, x, y)


@op(primitive=True, linear=True)
class Subtract(Elementwise):
    """x - y."""

    arity = 2
    takes = "numeric"
    ufunc = np.subtract
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, negative(g)


@provide
@recorded_with_numbers
def subtract(x: Any, y: Any) -> Tensor:
    """x - y, element by element.

    >>> td.subtract([1.0, 2.0], 3).numpy()
    array([-2., -1.], dtype=float32)
    """
    return binary(SUBTRACT, x, y)


@op(primitive=True, commutative=True, identity=1, absorbing=0)
class Multiply(Elementwise, arity=2, ufunc=np.multiply, sample_dtypes=(float32, int32)):
    """x y."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g * conj(xs[1]), g * conj(xs[0])


@provide
@recorded_with_numbers
def multiply(x: Any, y: Any) -> Tensor:
    """x y, element by element.

    >>> td.multiply([1.0, 2.0], 3).numpy()
    array([3., 6.], dtype=float32)
    """
    return binary(MULTIPLY, x, y)


@op(primitive=True)
class Divide(Elementwise):
    """x / y, as IEEE 754 rounds it."""

    arity = 2
    takes = "inexact"
    ufunc = np.divide
    domain = Input(), Input(low=0.5, high=2.0)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        gx = g / conj(xs[1])
        return gx, negative(gx * conj(y))


@provide
@recorded_with_numbers
def divide(x: Any, y: Any) -> Tensor:
    """x / y, element by element; integers divide as floats.

    >>> td.divide([1, 2], 4).numpy()
    array([0.25, 0.5 ], dtype=float32)
    """
    nodes = operands(x, y)
    if not is_inexact(nodes[0].type.dtype):
        nodes = [as_float(node) for node in nodes]
    return binary(DIVIDE, *nodes)


@op(primitive=True, linear=True, involution=True)
class Negative(Elementwise):
    """-x."""

    arity = 1
    takes = "numeric"
    ufunc = np.negative
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (negative(g),)


@provide
@recorded
def negative(x: Any) -> Tensor:
    """-x.

    >>> td.negative([1.0, -2.0]).numpy()
    array([-1.,  2.], dtype=float32)
    """
    return NEGATIVE(*operands(x))


def positive(x: Any) -> Tensor:
    """x itself: the same node, for a tensor is never changed.

    >>> td.positive([1.0, -2.0]).tolist()
    [1.0, -2.0]
    """
    (node,) = operands(x)
    return node


@op(primitive=True, linear=True, involution=True)
class Conj(Elementwise, arity=1, ufunc=np.conjugate):
    """The complex conjugate; x itself where it is real."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (conj(g),)


@provide
def conj(x: Any) -> Tensor:
    """The complex conjugate of x; the same node where x is real.

    >>> td.conj(td.asarray([1 + 2j])).numpy()
    array([1.-2.j], dtype=complex64)
    """
    (node,) = operands(x)
    return Conj()(node) if kind(node.type.dtype) == "complex" else node


ADD, SUBTRACT, MULTIPLY = Add(), Subtract(), Multiply()
DIVIDE, NEGATIVE = Divide(), Negative()


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


@op(primitive=True)
class Remainder(Modulo, ufunc=np.remainder):
    """x - floor(x / y) y, with the sign of y."""

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
class Fmod(Modulo, ufunc=np.fmod):
    """x - trunc(x / y) y, with the sign of x."""

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
class LogAddExp(Elementwise, arity=2, takes="float", ufunc=np.logaddexp):
    """The logarithm of e**x + e**y, without overflow."""

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
