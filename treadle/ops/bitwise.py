"""Bits of integers; of bools, logic."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, int32, uint8
from treadle.graph.op import Input, op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import operands
from treadle.ops.families import Elementwise

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
]


class Bitwise(Elementwise):
    """An op on the bits of two integers or bools; it has no derivative."""

    __slots__ = ()
    arity = 2
    takes = "integral"
    domain = (Input(low=-9, high=9),)
    sample_dtypes = (int32, bool_)


class Shift(Elementwise):
    """The bits of an integer moved; it has no derivative."""

    __slots__ = ()
    arity = 2
    takes = "integer"
    domain = Input(low=0, high=9), Input(low=0, high=4)
    sample_dtypes = (int32, uint8)


@op(
    primitive=True, differentiable=False, commutative=True, idempotent=True, absorbing=0
)
class BitwiseAnd(Bitwise, ufunc=np.bitwise_and):
    """The bits set in both x and y."""


@provide
def bitwise_and(x: Any, y: Any) -> Tensor:
    """The bits set in both x and y.

    >>> td.bitwise_and([6, 3], 2).tolist()
    [2, 2]
    """
    return binary(BitwiseAnd(), x, y)


@op(primitive=True, differentiable=False, commutative=True, idempotent=True, identity=0)
class BitwiseOr(Bitwise, ufunc=np.bitwise_or):
    """The bits set in x or y."""


@provide
def bitwise_or(x: Any, y: Any) -> Tensor:
    """The bits set in x or y.

    >>> td.bitwise_or([6, 3], 2).tolist()
    [6, 3]
    """
    return binary(BitwiseOr(), x, y)


@op(primitive=True, differentiable=False, commutative=True, identity=0)
class BitwiseXor(Bitwise, ufunc=np.bitwise_xor):
    """The bits set in one of x and y."""


@provide
def bitwise_xor(x: Any, y: Any) -> Tensor:
    """The bits set in one of x and y.

    >>> td.bitwise_xor([6, 3], 2).tolist()
    [4, 1]
    """
    return binary(BitwiseXor(), x, y)


@op(primitive=True, differentiable=False)
class LeftShift(Shift, ufunc=np.left_shift):
    """The bits of x moved y places up."""


@provide
def bitwise_left_shift(x: Any, y: Any) -> Tensor:
    """The bits of x moved y places up.

    >>> td.bitwise_left_shift([6, 3], 2).tolist()
    [24, 12]
    """
    return binary(LeftShift(), x, y)


@op(primitive=True, differentiable=False)
class RightShift(Shift, ufunc=np.right_shift):
    """The bits of x moved y places down."""


@provide
def bitwise_right_shift(x: Any, y: Any) -> Tensor:
    """The bits of x moved y places down.

    >>> td.bitwise_right_shift([6, 3], 2).tolist()
    [1, 0]
    """
    return binary(RightShift(), x, y)


@op(primitive=True, differentiable=False, involution=True)
class BitwiseInvert(Elementwise):
    """Every bit turned over."""

    arity = 1
    takes = "integral"
    ufunc = np.invert
    sample_dtypes = (int32, bool_)


@provide
def bitwise_invert(x: Any) -> Tensor:
    """Every bit of x turned over; of bools, not x.

    >>> td.bitwise_invert([0, 5]).tolist()
    [-1, -6]
    """
    return BitwiseInvert()(*operands(x))
