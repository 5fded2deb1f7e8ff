"""Facts about values that follow from a node's ancestors, for the guards of rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, float32, float64, kind
from treadle.base.symbolic import SymbolicNumber
from treadle.base.types import TupleType
from treadle.graph.leaves import Literal
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.ops.movement import BroadcastTo

# In normal form a literal with one value in all elements is a number, broadcast.
CONSTANTS: tuple[type[Op], ...] = (Literal, BroadcastTo)
DEPTH = 6  # how far facts are followed up
_BOUNDS = (0.0, 1.0, 8.0, 4096.0, 2.0**31, 1e29)
_BOUNDED = {"Cast", "Negative", "Abs", "Add", "Subtract", "Multiply", "BroadcastTo"}
_BOUNDED |= {"Reshape", "PermuteDims", "Slice", "Flip", "Roll"}
_PASSES = ("BroadcastTo", "Reshape", "PermuteDims", "Slice", "Flip", "Roll", "Index")


def number_of(x: Tensor) -> Any:
    """The number that every element of a node is by its structure; None if unknown."""
    if type(x.op) is BroadcastTo:
        x = x.inputs[0]
    if type(x.op) is not Literal or x.type.shape:
        return None
    if kind(x.type.dtype) == "complex":
        return None
    assert x.array is not None
    stored: Any = x.array
    if type(stored) is SymbolicNumber:
        return stored
    value = stored.item()
    return value if isinstance(value, (bool, int, float)) else float(value)


def is_number(x: Tensor, value: float) -> bool:
    """Whether a node is this number in every element; -0.0 is not 0."""
    number = number_of(x)
    if number is None or number != value:
        return False
    number = float(number)
    return number != 0 or math.copysign(1.0, number) == math.copysign(1.0, value)


def is_wide(x: Tensor) -> bool:
    """Whether sums of products may be ordered otherwise: not in 16-bit floats."""
    dtype = x.type.dtype
    return dtype in (float32, float64) or kind(dtype) == "integer"


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of one dtype is a value of another.

    >>> is_lossless(np.dtype("float32"), np.dtype("float64"))
    True
    """
    a, b = kind(source), kind(target)
    if source == target or a == "bool":
        return True
    if a == b == "integer":
        return bool(np.can_cast(source, target, "safe"))
    if a == "integer" and b == "float":
        return _bits(source) <= {float32: 24, float64: 53}.get(target, 0)
    if a == b == "float":
        return target.itemsize > source.itemsize
    return False


def _bits(dtype: DType) -> int:
    return dtype.itemsize * 8 - (dtype.kind == "i")


# -- facts that hold by the op, or because they hold of its operands -------------------


def _name(x: Tensor) -> str:
    return type(x.op).__name__


def _stored(x: Tensor) -> Any:
    """The array of a constant of the structure, or None."""
    return x.array if type(x.op) is Literal else None


def is_finite(x: Tensor) -> bool:
    """Whether no element can be infinite or NaN, by what numbers it is made of."""
    largest = bound(x)
    limit = 6e4 if x.type.dtype.itemsize == 2 else 1e30
    return kind(x.type.dtype) in ("bool", "integer") or largest < limit


def bound(x: Tensor, depth: int = DEPTH) -> float:
    """A number that no element exceeds in size; infinite where none is known.

    It is, of all that come from floats of which nothing is known.
    """
    source = kind(x.type.dtype)
    if source == "bool":
        return 1.0
    if source == "integer":
        return 2.0 ** (x.type.dtype.itemsize * 8)
    stored = _stored(x)
    if stored is not None:
        return _largest(stored)
    name = _name(x)
    if name == "OneHot":
        return 1.0
    if not depth or name not in _BOUNDED:
        return math.inf
    below = [bound(v, depth - 1) for v in x.inputs]
    if name == "Multiply":
        return below[0] * below[1]
    return sum(below) if name in ("Add", "Subtract") else below[0]


def _largest(stored: Any) -> float:
    """The `bound` of a constant: a few numbers, so that sizes change it rarely."""
    if stored.size > 4096:
        return math.inf
    if type(stored) is not SymbolicNumber:
        wide = np.abs(stored.astype(float))
        stored = wide.max(initial=0) if np.isfinite(wide).all() else math.inf
    return next((n for n in _BOUNDS if -n <= stored <= n), math.inf)


_NONNEGATIVE = {
    "Abs", "Exp", "Sigmoid", "Softmax", "Square", "Relu", "OneHot", "Softplus",
    "Hypot", "LogicalNot", "Equal", "Less", "Greater", "LessEqual", "GreaterEqual",
}  # fmt: skip
_KEEPS = {"Add", "Multiply", "Divide", "Minimum", "Sum", "Prod", "Mean", "Max", "Min"}
_KEEPS |= {"Cast", "Sqrt", "Rsqrt", "Reciprocal", "Log1p", *_PASSES}


def is_nonnegative(x: Tensor, depth: int = DEPTH) -> bool:
    """Whether every element is NaN or at least 0 (-0.0 among them)."""
    if isinstance(x.type, TupleType):
        return False
    dtype = x.type.dtype
    if kind(dtype) == "bool" or dtype.kind == "u":
        return True
    if kind(dtype) != "float":
        return False
    stored = _stored(x)
    if stored is not None:
        return stored.size <= 4096 and bool(np.all(stored >= 0))
    name = _name(x)
    if name in _NONNEGATIVE:
        return True
    if name == "Multiply" and x.inputs[0] is x.inputs[1]:
        return True
    if not depth:
        return False
    if name in _KEEPS:
        return all(is_nonnegative(y, depth - 1) for y in x.inputs[: _operands(name)])
    return name == "Maximum" and any(is_nonnegative(y, depth - 1) for y in x.inputs)


def _operands(name: str) -> int:
    return 1 if name == "Index" else 2


def is_positive(x: Tensor, depth: int = DEPTH) -> bool:
    """Whether every element is above 0 in exact arithmetic, where x is finite.

    A float may still be 0 where it underflows: what mathematics gives is meant then.
    """
    if kind(x.type.dtype) != "float":
        return False
    stored = _stored(x)
    if stored is not None:
        return stored.size <= 4096 and bool(np.all(stored > 0))
    name = _name(x)
    if name in ("Exp", "Sigmoid", "Softmax", "Softplus"):
        return True
    if not depth:
        return False
    if name == "Subtract":  # 1 - sigmoid(x) is sigmoid(-x)
        return is_number(x.inputs[0], 1) and _name(x.inputs[1]) == "Sigmoid"
    if name == "Add":
        a, b = x.inputs
        pairs = ((a, b), (b, a))
        return any(
            is_positive(p, depth - 1) and is_nonnegative(q, depth - 1) for p, q in pairs
        )
    if name in ("Sum", "Prod", "Mean", "Max", "Min"):
        return x.inputs[0].type.size > 0 and is_positive(x.inputs[0], depth - 1)
    if name in (*_PASSES, "Multiply", "Divide", "Sqrt", "Rsqrt", "Reciprocal"):
        return all(is_positive(y, depth - 1) for y in x.inputs[: _operands(name)])
    return False
