"""Values that are bound to placeholders: in their dtype and shape, or told why not."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import is_inexact
from treadle.base.errors import DTypeError, ShapeError
from treadle.base.types import Shape, broadcast_shapes
from treadle.graph.awaited import NUMBERS
from treadle.graph.leaves import to_array
from treadle.graph.operators import Operand
from treadle.graph.variable import Placeholder


def describe(x: Any) -> str:
    """A short text for a value."""
    if isinstance(x, (Operand, np.ndarray, *NUMBERS)):
        return repr(x.type) if isinstance(x, Operand) else f"{x.dtype}{[*x.shape]}"
    return repr(x) if isinstance(x, (int, float)) else type(x).__name__


def fits(p: Placeholder, x: Any) -> bool:
    """Return True if a value is what a placeholder takes, as it is."""
    return type(x) is np.ndarray and x.dtype == p.dtype and x.shape == p.shape


def _spreads(shape: Shape, wanted: Shape) -> bool:
    """Return True if a value of a shape can stand for one of another."""
    try:
        return broadcast_shapes(shape, wanted) == wanted
    except ShapeError:
        return False


def fitting(p: Placeholder, value: Any) -> Array:
    """The value for a placeholder in its dtype and shape."""
    raw = value.numpy() if isinstance(value, Operand) else value
    try:
        array = to_array(raw, p.dtype)
    except DTypeError as error:
        raise DTypeError(
            f"placeholder {p.name!r} is {p.type}: {error.message}"
        ) from None
    rounded = not is_inexact(p.dtype) and np.asarray(raw).dtype.kind in "fc"
    if rounded and not np.array_equal(array, raw):
        raise DTypeError(
            f"placeholder {p.name!r} is {p.type}, got numbers that are not whole"
        )
    if array.shape != p.shape:
        if not _spreads(array.shape, p.shape):
            raise ShapeError(f"placeholder {p.name!r} is {p.type}, got {array.shape}")
        array = np.array(np.broadcast_to(array, p.shape))
    return array
