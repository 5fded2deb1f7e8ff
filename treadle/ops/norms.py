"""Norms of vectors, over any axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.power import squared_modulus
from treadle.ops.reduce import along, sum
from treadle.ops.statistics import extent, kept

__all__ = ["l1_norm", "l2_norm", "norm", "squared_l2_norm"]


@carried_wide
def squared_l2_norm(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The sum of squares over `axis`; of absolute values where x is complex.

    >>> float(td.squared_l2_norm([3.0, 4.0]))
    25.0
    """
    return sum(squared_modulus(as_float(x)), axis, keepdims=keepdims)


@provide
@recorded
@carried_wide
def l2_norm(
    x: Any, axis: Any = None, *, epsilon: Any = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of (the sum of squares + epsilon); its derivative at 0 is 0.

    >>> float(td.l2_norm([3.0, 4.0]))
    5.0
    """
    node, axes = along(as_float(x), axis)
    y = functions.norm_of(squared_l2_norm(node, axes) + epsilon)
    return kept(y, node, axes, keepdims)


@carried_wide
def l1_norm(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The sum of absolute values over `axis`.

    >>> float(td.l1_norm([3.0, -4.0]))
    7.0
    """
    return sum(functions.abs(as_float(x)), axis, keepdims=keepdims)


def greatest(x: Any, axis: Any, *, keepdims: bool = False) -> Tensor:
    """The greatest of numbers that are not negative; 0 of none."""
    node, axes = along(x, axis)
    fold = functions.max if extent(node, axes) else sum
    return fold(node, axes, keepdims=keepdims)


@recorded
@carried_wide
def norm(x: Any, ord: Any = 2, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The vector norm of an order: sum(|x|**ord)**(1/ord).

    Order 0 counts what is not 0; infinity and -infinity take the greatest and least;
    "fro" is 2.
    Where an element is 0 its derivative is 0, as torch's.

    >>> float(td.norm([3.0, -4.0], float("inf")))
    4.0
    """
    node, axes = along(as_float(x), axis)
    if ord in (2, "fro"):
        return l2_norm(node, axes, keepdims=keepdims)
    size = functions.abs(node)
    if ord == 1:
        return sum(size, axes, keepdims=keepdims)
    if ord in (np.inf, -np.inf):
        fold = greatest if ord > 0 else functions.min
        return fold(size, axes, keepdims=keepdims)
    if ord == 0:
        counted = functions.where(functions.isnan(size), 1, functions.sign(size))
        return sum(counted, axes, keepdims=keepdims)
    y = _flat_power(sum(_flat_power(size, ord), axes), 1.0 / ord)
    return kept(y, node, axes, keepdims)


def _flat_power(x: Tensor, y: float) -> Tensor:
    """x**y of numbers from 0 on, of which the derivative at 0 is 0."""
    power = functions.pow(functions.where(x == 0, 1, x), y)
    return functions.where(x == 0, 0.0 if y > 0 else np.inf, power)
