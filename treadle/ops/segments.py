"""Rows folded: of unequal length one after another, or under a mask."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, kind, real_of
from treadle.base.errors import ArgumentError, DTypeError, RunError, ShapeError
from treadle.base.symbolic import arange
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.bounds import InRange
from treadle.ops.cast import as_float, astype, carried_wide
from treadle.ops.create import full
from treadle.ops.families import Composite, some
from treadle.ops.gather import in_range
from treadle.ops.index import getitem
from treadle.ops.lookup import Embedding, RowsToDense
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.pick import TakeAlong, positions

__all__ = [
    "kmax_pool",
    "masked_avg_pool",
    "masked_max_pool",
    "segment_sum",
]


@op()
class SegmentSum(Composite):
    """y[i] = the sum of x[k] for starts[i] <= k < starts[i + 1]: inputs starts, x."""

    arity = 2

    def infer(self, starts: Type, x: Type) -> Type:
        if kind(starts.dtype) != "integer":
            raise DTypeError(f"starts are integers, not {starts.dtype.name}")
        if starts.ndim != 1 or not starts.size or not x.ndim:
            raise ShapeError(f"{x} has no rows that begin at {starts}")
        names = x.axes and some((None, *x.axes[1:]))
        return x.with_shape((starts.size - 1, *x.shape[1:]), names)

    def numpy(self, starts: Any, x: Any) -> Array:
        begins = begins_of(starts, len(x))
        sums = np.zeros((len(starts) - 1, *x.shape[1:]), x.dtype)
        for k, (first, last) in enumerate(itertools.pairwise(begins)):
            sums[k] = x[first:last].sum(0)
        return sums

    def expand(self, starts: Tensor, x: Tensor) -> Tensor:
        n = starts.type.size - 1
        if not n or not x.type.shape[0]:
            return full((n, *x.type.shape[1:]), 0, x.type.dtype)
        rows, kept = segment_of(x.type.shape[0], starts)
        return RowsToDense(n)(rows, functions.where(per_element(kept, x), x, 0))

    def vjp(self, g: Any, y: Any, starts: Tensor, x: Tensor) -> Cotangents:
        if not starts.type.size - 1 or not x.type.shape[0]:
            return None, full(x.type.shape, 0, x.type.dtype)
        rows, kept = segment_of(x.type.shape[0], starts)
        whole = Embedding()(reshape(g, g.type.shape), rows)
        return None, functions.where(per_element(kept, x), whole, 0)


def begins_of(starts: Array, count: int) -> Array:
    """The starts of rows among so many elements; those that fall are a RunError."""
    begins = in_range(starts, count + 1, "start", negative=False)
    falls = np.diff(begins) < 0
    if falls.any():
        raise RunError(f"starts of rows fall at {int(np.argmax(falls)) + 1}")
    return begins


def segment_of(count: int, starts: Tensor) -> tuple[Tensor, Tensor]:
    """The row of each of so many elements, and whether it lies in any."""
    numbers = constant_node(arange(count, starts.type.dtype))
    starts = InRange(count, "start")(starts)
    rises = InRange(count, "the distance of starts")(starts[1:] - starts[:-1])
    starts = functions.concat([starts[:1], starts[:-1] + rises])
    rows = functions.searchsorted(starts, numbers, side="right") - 1
    last = starts.type.size - 2
    kept: Tensor = functions.logical_and(rows >= 0, rows <= last)
    return functions.clip(rows, 0, max(last, 0)), kept


def per_element(kept: Tensor, x: Tensor) -> Tensor:
    """Marks of elements in a shape that meets them."""
    return reshape(kept, (*kept.type.shape, *[1] * (x.type.ndim - 1)))


@provide
def segment_sum(x: Any, starts: Sequence[int] | Any) -> Tensor:
    """The sums of rows of unequal length: of x[starts[i]:starts[i + 1]] for each i.

    Starts lie in 0 .. len(x) and do not fall; what lies before the first and from the
    last on is in no row. Sums of 16-bit floats are carried in float32.

    >>> td.segment_sum([1.0, 2.0, 4.0], [0, 2, 2, 3]).tolist()
    [3.0, 0.0, 4.0]
    """
    node = as_float(x)
    wide = astype(node, accumulator(node.type.dtype))
    return astype(SegmentSum()(positions(starts), wide), node.type.dtype)


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
