"""Comparisons of elements and logic on their truth: results are bools."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import (
    bfloat16,
    bool_,
    complex128,
    float32,
    float64,
    int32,
    kind,
    uint64,
)
from treadle.graph.leaves import SCALARS, as_tensor
from treadle.graph.op import op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.recorded import recorded_with_numbers
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.cast import astype, operands
from treadle.ops.families import Elementwise

__all__ = [
    "allclose",
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


class Comparison(Elementwise):
    """A relation of two elements; it has no derivative."""

    __slots__ = ()
    arity = 2
    result = "bool"
    takes = "real"
    sample_dtypes = (float32, int32)


class Logical(Elementwise):
    """A connective of two truths; it has no derivative."""

    __slots__ = ()
    arity = 2
    result = "bool"
    takes = "bool"
    sample_dtypes = (bool_,)


def comparable(x: Any, y: Any) -> bool:
    """Whether both sides hold numbers, so that == has elements to compare."""
    kinds = (Operand, np.ndarray, list, tuple, *SCALARS)
    return isinstance(x, kinds) and isinstance(y, kinds)


def related(op: Comparison, x: Any, y: Any) -> Tensor:
    """`op` on operands as exact as NumPy compares them, whatever they promote to."""
    if isinstance(x, SCALARS) and isinstance(y, SCALARS):
        return binary(op, x, y)
    if isinstance(y, SCALARS):
        x = as_tensor(x)
        return _with_number(op, x, y, x, y)
    if isinstance(x, SCALARS):
        y = as_tensor(y)
        return _with_number(op, x, y, y, x)
    x, y = as_tensor(x), as_tensor(y)
    a, b = compared(x, y)
    if a.type.dtype.kind == "f" and all(v.type.dtype.kind in "iu" for v in (x, y)):
        return _signs_differ(op, x, y)
    return binary(op, a, b)


def compared(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Operands in the dtype NumPy compares them in: of integers and floats float64."""
    a, b = x.type.dtype, y.type.dtype
    if a is b:
        return x, y
    dtype = np.promote_types(*[float32 if d == bfloat16 else d for d in (a, b)])
    return astype(x, dtype), astype(y, dtype)


def _with_number(op: Comparison, x: Any, y: Any, node: Tensor, number: Any) -> Tensor:
    """`op` on x and y, of which one is a node and the other a number, which is weak."""
    dtype = node.type.dtype
    if kind(dtype) not in ("bool", "integer"):
        return binary(op, x, y)
    if isinstance(number, (float, complex, np.inexact)):  # in no narrower type exact
        parts = isinstance(number, (complex, np.complexfloating))
        wide = complex128 if parts else float64
        return binary(op, *[astype(as_tensor(v, wide), wide) for v in (x, y)])
    if dtype == bool_ or not isinstance(number, (int, np.integer)):
        return binary(op, x, y)
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max:
        return binary(op, x, y)
    # Outside of the type it is on one side of all that there may be.
    sides = [0 if v is node else 1 if number > 0 else -1 for v in (x, y)]
    return functions.broadcast_to(
        bool(op.numpy(*sides)), node.type.shape, axes=node.type.axes
    )


def _signs_differ(op: Comparison, x: Tensor, y: Tensor) -> Tensor:
    """`op` on an operand with a sign and one without, which no integer type holds."""
    first = x.type.dtype.kind == "i"
    unsigned = binary(op, astype(x, uint64), astype(y, uint64))
    below = less(x if first else y, 0)
    if bool(op.numpy(-1, 0) if first else op.numpy(0, -1)):
        return unsigned | below
    return unsigned & ~below


@op(primitive=True, differentiable=False, commutative=True)
class Equal(Comparison, takes="any", ufunc=np.equal):
    """x == y."""


@provide
@recorded_with_numbers
def equal(x: Any, y: Any) -> Any:
    """x == y, element by element; False where the other holds no numbers.

    >>> td.equal([1, 2, 3], 2).tolist()
    [False, True, False]
    """
    if not comparable(x, y):
        return False
    return related(Equal(), x, y)


@op(primitive=True, differentiable=False, commutative=True)
class NotEqual(Comparison, takes="any", ufunc=np.not_equal):
    """x != y."""


@provide
@recorded_with_numbers
def not_equal(x: Any, y: Any) -> Any:
    """x != y, element by element; True where the other holds no numbers.

    >>> td.not_equal([1, 2, 3], 2).tolist()
    [True, False, True]
    """
    if not comparable(x, y):
        return True
    return related(NotEqual(), x, y)


@op(primitive=True, differentiable=False)
class Less(Comparison, ufunc=np.less):
    """x < y."""


@provide
@recorded_with_numbers
def less(x: Any, y: Any) -> Tensor:
    """x < y, element by element.

    >>> td.less([1, 2, 3], 2).tolist()
    [True, False, False]
    """
    return related(Less(), x, y)


@op(primitive=True, differentiable=False)
class LessEqual(Comparison, ufunc=np.less_equal):
    """x <= y."""


@provide
@recorded_with_numbers
def less_equal(x: Any, y: Any) -> Tensor:
    """x <= y, element by element.

    >>> td.less_equal([1, 2, 3], 2).tolist()
    [True, True, False]
    """
    return related(LessEqual(), x, y)


@op(primitive=True, differentiable=False)
class Greater(Comparison, ufunc=np.greater):
    """x > y."""


@provide
@recorded_with_numbers
def greater(x: Any, y: Any) -> Tensor:
    """x > y, element by element.

    >>> td.greater([1, 2, 3], 2).tolist()
    [False, False, True]
    """
    return related(Greater(), x, y)


@op(primitive=True, differentiable=False)
class GreaterEqual(Comparison, ufunc=np.greater_equal):
    """x >= y."""


@provide
@recorded_with_numbers
def greater_equal(x: Any, y: Any) -> Tensor:
    """x >= y, element by element.

    >>> td.greater_equal([1, 2, 3], 2).tolist()
    [False, True, True]
    """
    return related(GreaterEqual(), x, y)


@op(
    primitive=True,
    commutative=True,
    differentiable=False,
    idempotent=True,
    identity=1,
    absorbing=0,
)
class LogicalAnd(Logical, ufunc=np.logical_and):
    """x and y."""


@provide
def logical_and(x: Any, y: Any) -> Tensor:
    """x and y, element by element; numbers are true where they are not 0.

    >>> td.logical_and([True, False], [True, True]).tolist()
    [True, False]
    """
    return binary(LogicalAnd(), *[astype(node, bool_) for node in operands(x, y)])


@op(
    primitive=True,
    commutative=True,
    differentiable=False,
    idempotent=True,
    identity=0,
    absorbing=1,
)
class LogicalOr(Logical, ufunc=np.logical_or):
    """x or y."""


@provide
def logical_or(x: Any, y: Any) -> Tensor:
    """x or y, element by element; numbers are true where they are not 0.

    >>> td.logical_or([True, False], [True, True]).tolist()
    [True, True]
    """
    return binary(LogicalOr(), *[astype(node, bool_) for node in operands(x, y)])


@op(primitive=True, commutative=True, differentiable=False, identity=0)
class LogicalXor(Logical, ufunc=np.logical_xor):
    """Either x or y, not both."""


@provide
def logical_xor(x: Any, y: Any) -> Tensor:
    """Either x or y, not both, element by element; numbers are true unless 0.

    >>> td.logical_xor([True, False], [True, True]).tolist()
    [False, True]
    """
    return binary(LogicalXor(), *[astype(node, bool_) for node in operands(x, y)])


@op(primitive=True, differentiable=False, involution=True)
class LogicalNot(Elementwise):
    """Not x."""

    arity = 1
    result = "bool"
    takes = "bool"
    ufunc = np.logical_not
    sample_dtypes = (bool_,)


@provide
def logical_not(x: Any) -> Tensor:
    """Not x, element by element; numbers are true where they are not 0.

    >>> td.logical_not([True, False]).tolist()
    [False, True]
    """
    (node,) = operands(x)
    return LogicalNot()(astype(node, bool_))


def isclose(
    x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8, *, equal_nan: bool = False
) -> Tensor:
    """Whether |x - y| <= atol + rtol |y|, element by element; equal infinities are.

    >>> td.isclose([1.0, 1.0], [1.000001, 1.1]).tolist()
    [True, False]
    """
    a, b = operands(x, y)
    if kind(a.type.dtype) in ("bool", "integer"):
        a, b = astype(a, float64), astype(b, float64)
    near = functions.abs(a - b) <= functions.abs(b) * rtol + atol
    finite = functions.isfinite(b)
    close: Tensor = (near & finite) | (a == b)
    return close | ((a != a) & (b != b)) if equal_nan else close


def allclose(
    x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8, *, equal_nan: bool = False
) -> Tensor:
    """Whether every element of x is close to that of y: one bool.

    >>> bool(td.allclose([1.0, 2.0], [1.000001, 2.0]))
    True
    """
    return isclose(x, y, rtol, atol, equal_nan=equal_nan).all()
