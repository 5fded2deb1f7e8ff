"""Bits of integers; of bools, logic."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, int32, uint8
from treadle.graph.op import Array, Input, Sample, op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import operands
from treadle.ops.families import Elementwise, binary_samples, unary_samples

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

    @classmethod
    def samples(cls) -> list[Sample]:
        spread = Input(low=-9, high=9)
        return binary_samples(cls(), spread, spread, (int32, bool_))


class Shift(Elementwise):
    """The bits of an integer moved; it has no derivative."""

    __slots__ = ()
    arity = 2
    takes = "integer"

    @classmethod
    def samples(cls) -> list[Sample]:
        spread, few = Input(low=0, high=9), Input(low=0, high=4)
        return binary_samples(cls(), spread, few, (int32, uint8))


@op(
    primitive=True, differentiable=False, commutative=True, idempotent=True, absorbing=0
)
class BitwiseAnd(Bitwise):
    """The bits set in both x and y."""

    def numpy(self, *arrays: Any) -> Array:
        return np.bitwise_and(*arrays)


@provide
def bitwise_and(x: Any, y: Any) -> Tensor:
    """The bits set in both x and y.

    >>> import treadle as td
    >>> td.bitwise_and([6, 3], 2).tolist()
    [2, 2]
    """
    return binary(BitwiseAnd(), x, y)


@op(primitive=True, differentiable=False, commutative=True, idempotent=True, identity=0)
class BitwiseOr(Bitwise):
    """The bits set in x or y."""

    def numpy(self, *arrays: Any) -> Array:
        return np.bitwise_or(*arrays)


@provide
def bitwise_or(x: Any, y: Any) -> Tensor:
    """The bits set in x or y.

    >>> import treadle as td
    >>> td.bitwise_or([6, 3], 2).tolist()
    [6, 3]
    """
    return binary(BitwiseOr(), x, y)


@op(primitive=True, differentiable=False, commutative=True, identity=0)
class BitwiseXor(Bitwise):
    """The bits set in one of x and y."""

    def numpy(self, *arrays: Any) -> Array:
        return np.bitwise_xor(*arrays)


@provide
def bitwise_xor(x: Any, y: Any) -> Tensor:
    """The bits set in one of x and y.

    >>> import treadle as td
    >>> td.bitwise_xor([6, 3], 2).tolist()
    [4, 1]
    """
    return binary(BitwiseXor(), x, y)


@op(primitive=True, differentiable=False)
class LeftShift(Shift):
    """The bits of x moved y places up."""

    def numpy(self, *arrays: Any) -> Array:
        return np.left_shift(*arrays)


@provide
def bitwise_left_shift(x: Any, y: Any) -> Tensor:
    """The bits of x moved y places up.

    >>> import treadle as td
    >>> td.bitwise_left_shift([6, 3], 2).tolist()
    [24, 12]
    """
    return binary(LeftShift(), x, y)


@op(primitive=True, differentiable=False)
class RightShift(Shift):
    """The bits of x moved y places down."""

    def numpy(self, *arrays: Any) -> Array:
        return np.right_shift(*arrays)


@provide
def bitwise_right_shift(x: Any, y: Any) -> Tensor:
    """The bits of x moved y places down.

    >>> import treadle as td
    >>> td.bitwise_right_shift([6, 3], 2).tolist()
    [1, 0]
    """
    return binary(RightShift(), x, y)


@op(primitive=True, differentiable=False, involution=True)
class BitwiseInvert(Elementwise):
    """Every bit turned over."""

    arity = 1
    takes = "integral"

    def numpy(self, *arrays: Any) -> Array:
        return np.invert(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        return unary_samples(cls(), dtypes=(int32, bool_))


@provide
def bitwise_invert(x: Any) -> Tensor:
    """Every bit of x turned over; of bools, not x.

    >>> import treadle as td
    >>> td.bitwise_invert([0, 5]).tolist()
    [-1, -6]
    """
    return BitwiseInvert()(*operands(x))
