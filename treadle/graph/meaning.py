"""The value of a node from the values of its inputs: what every engine keeps to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import HALF, float32
from treadle.base.errors import OutOfMemoryError, RunError, TreadleError
from treadle.base.types import TupleType, Type
from treadle.graph.op import Op
from treadle.graph.origin import Origin, describe


def is_empty(op: Op, type_: Type | TupleType) -> bool:
    """True if an op gives an array without elements, and nothing else is seen of it.

    No engine computes such a value: it is known from its type.
    """
    if isinstance(type_, TupleType) or type_.size:
        return False
    return not op.traits.effect and op.family not in ("control", "state")


def compute(
    op: Op,
    type_: Type | TupleType,
    arrays: Sequence[Any],
    rule: Callable[..., Any] | None = None,
) -> Any:
    """The op's NumPy rule, or another rule of it; 16-bit floats are computed in float32
    and rounded once, but for ops to which their bits matter."""
    if is_empty(op, type_):
        assert isinstance(type_, Type)
        return np.empty(type_.shape, type_.dtype)
    operands = _widened(arrays) if op.traits.widened else arrays
    with np.errstate(all="ignore"):
        result = (rule or op.numpy)(*operands)
        if isinstance(type_, TupleType):
            pairs = zip(result, type_, strict=True)
            return tuple(np.asarray(r, dtype=t.dtype) for r, t in pairs)
        return np.asarray(result, dtype=type_.dtype)


def _widened(arrays: Sequence[Any]) -> list[Any]:
    return [
        a.astype(float32) if isinstance(a, np.ndarray) and a.dtype in HALF else a
        for a in arrays
    ]


def begin(
    op: Op, type_: Type | TupleType, arrays: Sequence[Any], rule: object = None
) -> Callable[[], Any]:
    """The rule that ends an op that waits, which is begun now."""
    return op.begin(*_widened(arrays))


def compute_at(
    op: Op,
    type_: Type | TupleType,
    arrays: Sequence[Any],
    origin: Origin,
    rule: Callable[..., Any] | None = None,
) -> Any:
    """`compute`, with a failure told in terms of the op and the user's line."""
    return _at(compute, op, type_, arrays, origin, rule)


def begin_at(
    op: Op, type_: Type | TupleType, arrays: Sequence[Any], origin: Origin
) -> Callable[[], Any]:
    """`begin`, with a failure told in the same way."""
    return _at(begin, op, type_, arrays, origin, None)


def _at(
    action: Callable[..., Any],
    op: Op,
    type_: Type | TupleType,
    arrays: Sequence[Any],
    origin: Origin,
    rule: Callable[..., Any] | None,
) -> Any:
    try:
        return action(op, type_, arrays, rule)
    except TreadleError as error:
        place = op.name, shown(arrays), describe(origin)
        raise error.located(*place) from error.__cause__
    except (ValueError, IndexError, ArithmeticError, MemoryError) as error:
        types = type_ if isinstance(type_, TupleType) else (type_,)
        huge = isinstance(error, MemoryError) or any(
            t.nbytes > sys.maxsize for t in types
        )
        kind = OutOfMemoryError if huge else RunError
        failure = kind(f"failed while running: {error}")
        raise failure.located(op.name, shown(arrays), describe(origin)) from error


def shown(arrays: Sequence[Any]) -> str:
    """The types of arrays, for a message."""
    known = [a for a in arrays if isinstance(a, np.ndarray)]
    return ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in known)
