"""Rows of tables by bags of ids."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.lookup import embedding as rows_at
from treadle.ops.segments import segment_sum

__all__ = [
    "embedding_bag",
]


def embedding_bag(
    ids: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
) -> Tensor:
    """The sum, mean or max of the rows of `weight` at each bag of ids.

    Bags are the rows of ids (n, many); or ids are one row, and `offsets` tells where
    each bag begins in it (not for "max"). A bag of nothing is 0.

    >>> embedding_bag([[0, 1]], [[1.0], [3.0]]).tolist()
    [[2.0]]
    >>> embedding_bag([0, 1, 1], [[1.0], [3.0]], [0, 1], mode="sum").tolist()
    [[1.0], [6.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f'mode is "sum", "mean" or "max", not {mode!r}')
    places = as_tensor(ids)
    rows = rows_at(weight, places)
    if per_sample_weights is not None:
        rows = rows * functions.expand_dims(per_sample_weights, -1)
    if offsets is None:
        return {"sum": functions.sum, "mean": functions.mean, "max": functions.max}[
            mode
        ](rows, -2)
    if mode == "max":
        raise ArgumentError('bags by offsets have a "sum" or "mean"')
    first = functions.astype(as_tensor(offsets), "int64")
    starts = functions.concat([first, as_tensor([places.shape[0]], "int64")])
    total = segment_sum(rows, starts)
    if mode == "sum":
        return total
    count = functions.maximum(starts[1:] - starts[:-1], 1)
    return total / functions.expand_dims(functions.astype(count, total.dtype), -1)
