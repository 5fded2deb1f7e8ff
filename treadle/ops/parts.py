"""Parts of a number: NaN, infinity, sign, real and imaginary part; the next floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.types import Type, broadcast_shapes
from treadle.graph.op import FLAT, Array, Cotangents, common_axes, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import lifted
from treadle.graph.tensor import Tensor
from treadle.ops.align import align, unary
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Opaque, Unary, same_dtype

__all__ = [
    "angle",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "nextafter",
    "real",
    "signbit",
]


class Predicate(Unary):
    """A predicate of one element; it has no derivative."""

    __slots__ = ()
    result = "bool"


@op(primitive=True, differentiable=False)
class IsNan(Predicate, ufunc=np.isnan):
    """True where x is not a number."""


@provide
def isnan(x: Any) -> Tensor:
    """Whether each element is not a number.

    >>> td.isnan([1.0, -float("inf"), float("nan")]).tolist()
    [False, False, True]
    """
    return unary(IsNan(), x)


@op(primitive=True, differentiable=False)
class IsInf(Predicate, ufunc=np.isinf):
    """True where x is infinite."""


@provide
def isinf(x: Any) -> Tensor:
    """Whether each element is infinite.

    >>> td.isinf([1.0, -float("inf"), float("nan")]).tolist()
    [False, True, False]
    """
    return unary(IsInf(), x)


@op(primitive=True, differentiable=False)
class IsFinite(Predicate, ufunc=np.isfinite):
    """True where x is neither infinite nor NaN."""


@provide
def isfinite(x: Any) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    >>> td.isfinite([1.0, -float("inf"), float("nan")]).tolist()
    [True, False, False]
    """
    return unary(IsFinite(), x)


@op(primitive=True, differentiable=False)
class SignBit(Predicate, takes="float", ufunc=np.signbit):
    """True where x is negative, -0.0 included."""


@provide
def signbit(x: Any) -> Tensor:
    """Whether each element is negative, -0.0 included.

    >>> td.signbit([1.0, -float("inf"), float("nan")]).tolist()
    [False, True, False]
    """
    return unary(SignBit(), x)


@op(linear=True, primitive=True)
class Real(Unary, result="real"):
    """The real part."""

    def numpy(self, *arrays: Any) -> Array:
        return np.real(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (functions.astype(g, xs[0].type.dtype),)


@provide
def real(x: Any) -> Tensor:
    """The real part of x; the same node where x is real.

    >>> td.real(td.asarray([1 + 2j])).tolist()
    [1.0]
    """
    (node,) = operands(x)
    return Real()(node) if kind(node.type.dtype) == "complex" else node


@op(linear=True, primitive=True)
class Imag(Unary, result="real"):
    """The imaginary part."""

    def numpy(self, *arrays: Any) -> Array:
        return np.imag(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if kind(xs[0].type.dtype) != "complex":
            return (FLAT,)
        return (functions.astype(g, xs[0].type.dtype) * 1j,)


@provide
def imag(x: Any) -> Tensor:
    """The imaginary part of x; zeros where x is real.

    >>> td.imag(td.asarray([1 + 2j])).tolist()
    [2.0]
    """
    return unary(Imag(), x)


def angle(x: Any) -> Tensor:
    """The angle of each number in the complex plane, from -pi to pi.

    >>> [f"{v:.5f}" for v in td.angle(td.asarray([1j, -1.0 + 0j])).tolist()]
    ['1.57080', '3.14159']
    """
    node = as_float(x)
    return functions.atan2(imag(node), real(node))


@op(tolerance="E", widened=False)
class NextAfter(Opaque):
    """The float after x1 on the way to x2; x2 where they are equal."""

    arity = 2
    takes = "float"

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        shape = broadcast_shapes(*[t.shape for t in types])
        return Type(shape, types[0].dtype, common_axes(types, len(shape)))

    def numpy(self, *arrays: Any) -> Array:
        return np.nextafter(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, None

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*lifted(has_rows, xs))


@provide
def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next float after x1 in the direction of x2, element by element.

    Its derivative is 1 by x1 and 0 by x2.

    >>> td.nextafter(td.asarray(1.0, "float64"), 2.0).item()
    1.0000000000000002
    """
    return NextAfter()(*align([as_float(x) for x in operands(x1, x2)]))
