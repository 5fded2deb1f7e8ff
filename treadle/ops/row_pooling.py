"""Pooling of rows: the largest elements, and averages and maxima under a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import real_of
from treadle.base.errors import ArgumentError
from treadle.base.types import resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, astype, carried_wide
from treadle.ops.index import getitem
from treadle.ops.movement import broadcast_to
from treadle.ops.pick import TakeAlong

__all__ = ["kmax_pool", "masked_avg_pool", "masked_max_pool"]


@provide
def kmax_pool(x: Any, k: int, axis: Any = -1) -> Tensor:
    """The k largest elements along `axis`, in the order they stand in.

    >>> td.kmax_pool([[1.0, 9.0, 3.0, 7.0]], 2).tolist()
    [[9.0, 7.0]]
    """
    node = as_tensor(x)
    along = resolve_axis(axis, node.type)
    if not 0 <= k <= node.type.shape[along]:
        raise ArgumentError(
            f"k is {k}, but axis {axis} has {node.type.shape[along]} elements"
        ).located("kmax_pool", repr(node.type))
    order = functions.argsort(node, axis=along, descending=True)
    best = getitem(order, (*[slice(None)] * along, slice(0, k)))
    return TakeAlong(along)(node, functions.sort(best, axis=along))


@provide
@carried_wide
def masked_avg_pool(x: Any, mask: Any, axis: Any) -> Tensor:
    """The average along `axis` of the elements whose mask is not 0; 0 without any.

    >>> td.masked_avg_pool([[1.0, 3.0, 9.0]], [[1, 1, 0]], 1).tolist()
    [2.0]
    """
    node = as_float(x)
    mask_node = align([node, astype(mask, real_of(node.type.dtype))])[1]
    weights = broadcast_to(mask_node, node.type.shape)
    count = functions.sum(weights, axis)
    return functions.sum(node * weights, axis) / functions.maximum(count, 1)


@provide
def masked_max_pool(x: Any, mask: Any, axis: Any) -> Tensor:
    """The maximum along `axis` of the elements whose mask is not 0; -inf without any.

    >>> td.masked_max_pool([[1.0, 3.0, 9.0]], [[1, 1, 0]], 1).tolist()
    [3.0]
    """
    node = as_float(x)
    chosen = functions.where(astype(mask, bool), node, -np.inf)
    return functions.max(chosen, axis)
