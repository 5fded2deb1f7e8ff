"""The greater and the lesser of two, a choice by a condition, and values in bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bfloat16, bool_, float32, int32, kind
from treadle.base.errors import DTypeError, TreadleError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded, recorded_with_numbers
from treadle.graph.tensor import Tensor
from treadle.ops.align import align, binary, located
from treadle.ops.cast import operands
from treadle.ops.families import Elementwise

__all__ = ["clip", "maximum", "minimum", "nan_to_num", "where"]

BFLOAT16_MAX = 3.3895313892515355e38  # np.finfo does not know the type


@op(primitive=True)
class Select(Elementwise):
    """x where the condition holds, else y."""

    arity = 3
    mixed = (0,)

    def infer(self, *types: Type) -> Type:
        if types[0].dtype != bool_:
            raise DTypeError(
                f"the condition is bool, not {types[0].dtype.name}",
                hint="compare first, e.g. x != 0",
            )
        return super().infer(*types)

    def numpy(self, *arrays: Any) -> Array:
        return np.where(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return None, where(xs[0], g, 0), where(xs[0], 0, g)


@provide
@recorded_with_numbers
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition holds, else y; all three broadcast.

    >>> td.where([True, False], 1.0, [5.0, 6.0]).tolist()
    [1.0, 6.0]
    """
    chosen = as_tensor(condition)
    nodes = [chosen, *operands(x, y)]
    try:
        nodes = align(nodes)
    except TreadleError as error:
        raise located(error, Select(), nodes) from None
    return Select()(*nodes)


@op(primitive=True, commutative=True, idempotent=True)
class Maximum(Elementwise):
    """The greater of x and y; NaN where either is. Of equals, x has the derivative."""

    arity = 2
    takes = "real"
    ufunc = np.maximum
    domain = Input(apart=0.01), Input(low=-1.9, high=1.7)
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # With a NaN neither holds: both have the derivative.
        return where(xs[0] < xs[1], 0, g), where(xs[0] >= xs[1], 0, g)


@provide
@recorded_with_numbers
def maximum(x: Any, y: Any) -> Tensor:
    """The greater of x and y, element by element; NaN where either is.

    Where they are equal the derivative goes to x.

    >>> td.maximum([1.0, 5.0], 3.0).tolist()
    [3.0, 5.0]
    """
    return binary(Maximum(), x, y)


@op(primitive=True, commutative=True, idempotent=True)
class Minimum(Elementwise):
    """The lesser of x and y; NaN where either is. Of equals, x has the derivative."""

    arity = 2
    takes = "real"
    ufunc = np.minimum
    domain = Input(apart=0.01), Input(low=-1.9, high=1.7)
    sample_dtypes = (float32, int32)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # With a NaN neither holds: both have the derivative.
        return where(xs[0] > xs[1], 0, g), where(xs[0] <= xs[1], 0, g)


@provide
@recorded_with_numbers
def minimum(x: Any, y: Any) -> Tensor:
    """The lesser of x and y, element by element; NaN where either is.

    Where they are equal the derivative goes to x.

    >>> td.minimum([1.0, 5.0], 3.0).tolist()
    [1.0, 3.0]
    """
    return binary(Minimum(), x, y)


@provide
@recorded
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x held between `min` and `max` (numbers or tensors; None for no bound).

    >>> td.clip([-2.0, 0.5, 9.0], 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    node = as_tensor(x)
    if min is not None:
        node = maximum(node, min)
    return node if max is None else minimum(node, max)


@provide
@recorded
def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """x with NaN replaced by `nan`, and infinities by the largest finite numbers.

    Or by `posinf` and `neginf`, where these are given.

    >>> td.nan_to_num([1.0, float("nan")]).tolist()
    [1.0, 0.0]
    """
    (node,) = operands(x)
    dtype = node.type.dtype
    if kind(dtype) == "complex":
        raise DTypeError(
            f"takes real operands, not {dtype.name}",
            hint="treat td.real(x) and td.imag(x) one by one",
        ).located("nan_to_num")
    if kind(dtype) != "float":
        return node
    limit = BFLOAT16_MAX if dtype == bfloat16 else float(np.finfo(str(dtype)).max)
    finite = clip(node, -limit, limit)
    if posinf is not None:
        finite = where(node > limit, as_tensor(posinf, dtype), finite)
    if neginf is not None:
        finite = where(node < -limit, as_tensor(neginf, dtype), finite)
    return where(node != node, as_tensor(nan, dtype), finite)
