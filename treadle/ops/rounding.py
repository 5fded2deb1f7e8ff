"""Whole numbers near a value, signs and absolute values."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import float32, int32, kind
from treadle.base.errors import ArgumentError
from treadle.graph.op import FLAT, Cotangents, Input, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import operands
from treadle.ops.families import Elementwise

__all__ = [
    "abs",
    "ceil",
    "floor",
    "rint",
    "round",
    "sign",
    "trunc",
]


@op(primitive=True, idempotent=True)
class Abs(Elementwise):
    """The absolute value; its derivative at 0 is 0."""

    arity = 1
    takes = "numeric"
    result = "real"
    ufunc = np.abs
    domain = (Input(apart=0.05),)
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * sign(xs[0]),)


@provide
def abs(x: Any) -> Tensor:
    """The absolute value of x (the modulus of complex numbers).

    >>> td.abs([-1.5, 2.0]).tolist()
    [1.5, 2.0]
    """
    return Abs()(*operands(x))


@op(primitive=True, idempotent=True)
class Sign(Elementwise):
    """-1, 0 or 1 (x / |x| for complex numbers); NaN where x is."""

    arity = 1
    takes = "numeric"
    ufunc = np.sign
    domain = (Input(apart=0.05),)
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if kind(g.type.dtype) != "complex":
            return (FLAT,)
        # Only the part of g across the direction y turns it, by 1 / |x|.
        size = abs(xs[0])
        along = functions.real(g * functions.conj(y)).astype(g.type.dtype)
        safe = functions.where(size == 0, 1, size).astype(g.type.dtype)
        return ((g - y * along) / safe,)


@provide
def sign(x: Any) -> Tensor:
    """The sign of x: -1, 0 or 1, with derivative 0; of complex numbers x / |x|.

    >>> td.sign([-2.0, 0.0, 3.0]).tolist()
    [-1.0, 0.0, 1.0]
    """
    return Sign()(*operands(x))


@family
class Rounding(Elementwise):
    """A whole number near x; its derivative is 0, or 1 when passed straight through."""

    __slots__ = ()
    arity = 1
    takes = "float"
    straight: bool = False

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g if self.straight else FLAT,)


def straight(gradient: str) -> bool:
    """Whether a derivative passes straight through."""
    if gradient not in ("zero", "straight_through"):
        raise ArgumentError(
            f"gradient is 'zero' or 'straight_through', not {gradient!r}"
        )
    return gradient == "straight_through"


def whole(op_: Rounding, x: Any) -> Tensor:
    """A rounding of floats; whole numbers are their own."""
    (node,) = operands(x)
    return node if kind(node.type.dtype) in ("bool", "integer") else op_(node)


@op(primitive=True, idempotent=True)
class Floor(Rounding, ufunc=np.floor):
    """The greatest whole number not above x."""


@provide
def floor(x: Any, gradient: str = "zero") -> Tensor:
    """The greatest whole number not above x.

    Its derivative is 0, or 1 with `gradient="straight_through"` (Bengio et al., 2013).

    >>> td.floor([-1.5, 0.4, 1.6]).tolist()
    [-2.0, 0.0, 1.0]
    """
    return whole(Floor(straight(gradient)), x)


@op(primitive=True, idempotent=True)
class Ceil(Rounding, ufunc=np.ceil):
    """The least whole number not below x."""


@provide
def ceil(x: Any, gradient: str = "zero") -> Tensor:
    """The least whole number not below x.

    Its derivative is 0, or 1 with `gradient="straight_through"` (Bengio et al., 2013).

    >>> td.ceil([-1.5, 0.4, 1.6]).tolist()
    [-1.0, 1.0, 2.0]
    """
    return whole(Ceil(straight(gradient)), x)


@op(primitive=True, idempotent=True)
class Trunc(Rounding, ufunc=np.trunc):
    """The whole part of x."""


@provide
def trunc(x: Any, gradient: str = "zero") -> Tensor:
    """The whole part of x, toward zero.

    Its derivative is 0, or 1 with `gradient="straight_through"` (Bengio et al., 2013).

    >>> td.trunc([-1.5, 0.4, 1.6]).tolist()
    [-1.0, 0.0, 1.0]
    """
    return whole(Trunc(straight(gradient)), x)


@op(primitive=True, idempotent=True)
class Round(Rounding, takes="inexact", ufunc=np.rint):
    """The nearest whole number, the even one of two; of both parts of complex ones."""


@provide
def round(x: Any, gradient: str = "zero") -> Tensor:
    """The nearest whole number, the even one of two; of complex x for both parts.

    Its derivative is 0, or 1 with `gradient="straight_through"` (Bengio et al., 2013).

    >>> td.round([-1.5, 0.4, 1.6]).tolist()
    [-2.0, 0.0, 2.0]
    """
    return whole(Round(straight(gradient)), x)


def rint(x: Any, gradient: str = "zero") -> Tensor:
    """The nearest whole number, the even one of two: another name of round.

    >>> td.rint([0.5, 1.5]).tolist()
    [0.0, 2.0]
    """
    return round(x, gradient)
