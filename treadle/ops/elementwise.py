"""Arithmetic on elements: sums, products, quotients, powers and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import float32, int32, is_inexact, kind
from treadle.graph.op import Cotangents, Input, Sample, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded, recorded_with_numbers
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Elementwise

__all__ = [
    "add",
    "conj",
    "divide",
    "multiply",
    "negative",
    "positive",
    "subtract",
]


@op(primitive=True, commutative=True, linear=True, identity=0)
class Add(Elementwise):
    """x + y."""

    arity = 2
    ufunc = np.add
    sample_dtypes = (float32, int32)

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
class Multiply(Elementwise):
    """x y."""

    arity = 2
    ufunc = np.multiply
    sample_dtypes = (float32, int32)

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
class Conj(Elementwise):
    """The complex conjugate; x itself where it is real."""

    arity = 1
    ufunc = np.conjugate

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (conj(g),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample(cls(), (Input((2, 3)),))]


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
