"""Rows of tables by ids, and by bags of them."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.create import ones
from treadle.ops.flow import scale_gradient, stop_gradient
from treadle.ops.lookup import combine_rows
from treadle.ops.lookup import embedding as rows_at
from treadle.ops.movement import reshape
from treadle.ops.norms import norm
from treadle.ops.pick import positions
from treadle.ops.segments import segment_sum
from treadle.ops.select import where

__all__ = ["embedding", "embedding_bag"]


def embedding(
    ids: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """The rows of `weight` at `ids`; that of `padding_idx` gets no gradient.

    Rows of a Variable that are read are first scaled down to a norm of `max_norm` where
    it is larger, as an assignment; `scale_grad_by_freq` divides the gradient of a row
    by how often it is read.

    >>> embedding([1], [[1.0], [2.0]]).tolist()
    [[2.0]]
    """
    if max_norm is None and not scale_grad_by_freq:
        return rows_at(weight, ids, padding_idx)
    places = reshape(positions(ids), (-1,))
    if max_norm is not None:
        seen = stop_gradient(rows_at(weight, places))
        norms = norm(seen, norm_type, -1, keepdims=True)
        factor = where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        weight[places] = seen * factor
    rows = rows_at(weight, ids, padding_idx)
    if scale_grad_by_freq:
        each = ones((places.size, 1), rows.dtype)
        count = combine_rows(places, each, weight.shape[0])
        shape = (*rows.shape[:-1], 1)
        rows = scale_gradient(rows, 1.0 / reshape(count, shape))
    return rows


def embedding_bag(
    ids: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
) -> Tensor:
    """The sum, mean or max of the rows of `weight` at each bag of ids.

    Bags are the rows of ids (n, many); or ids are one row, and `offsets` tells where
    each bag begins in it (not for "max"). A bag of nothing is 0. `max_norm` and
    `scale_grad_by_freq` are those of `embedding`.

    >>> embedding_bag([[0, 1]], [[1.0], [3.0]]).tolist()
    [[2.0]]
    >>> embedding_bag([0, 1, 1], [[1.0], [3.0]], [0, 1], mode="sum").tolist()
    [[1.0], [6.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f'mode is "sum", "mean" or "max", not {mode!r}')
    places = as_tensor(ids)
    rows = embedding(places, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * functions.expand_dims(per_sample_weights, -1)
    if offsets is None:
        if mode != "max":
            return (functions.sum if mode == "sum" else functions.mean)(rows, -2)
        first = functions.argmax(rows, -2, keepdims=True)  # of equals it has the slope
        return functions.squeeze(functions.take_along_axis(rows, first, -2), -2)
    if mode == "max":
        raise ArgumentError('bags by offsets have a "sum" or "mean"')
    first = functions.astype(as_tensor(offsets), "int64")
    starts = functions.concat([first, as_tensor([places.shape[0]], "int64")])
    total = segment_sum(rows, starts)
    if mode == "sum":
        return total
    count = functions.maximum(starts[1:] - starts[:-1], 1)
    return total / functions.expand_dims(functions.astype(count, total.dtype), -1)
