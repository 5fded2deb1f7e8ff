"""Rows of tables by ids, and by bags of them."""

from __future__ import annotations

import math
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
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at `ids`; that of `padding_idx` gets no gradient.

    Rows of a Variable that are read are first scaled down to a norm of `max_norm` where
    it is larger, as an assignment; `scale_grad_by_freq` divides the gradient of a row
    by how often it is read. `sparse` asks for nothing: of which kind a gradient is, the
    Parameter tells.

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
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or max of the rows of `weight` at each bag of ids.

    Bags are the rows of ids (n, many); or ids are one row, and `offsets` tells where
    each bag begins in it (not for "max"), and with `include_last_offset` where the last
    ends. Ids of `padding_idx` are in no bag. A bag of nothing is 0. `max_norm`,
    `scale_grad_by_freq` and `sparse` are those of `embedding`.

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
    member = None
    if padding_idx is not None:
        padding = padding_idx + (weight.shape[0] if padding_idx < 0 else 0)
        member = functions.expand_dims(places != padding, -1)
        rows = where(member, rows, 0 if mode != "max" else -math.inf)
    if offsets is None:
        if mode == "max":
            first = functions.argmax(rows, -2, keepdims=True)  # of equals it alone
            y = functions.squeeze(functions.take_along_axis(rows, first, -2), -2)
            return y if member is None else where(functions.any(member, -2), y, 0)
        if mode == "mean" and member is None:
            return functions.mean(rows, -2)
        total = functions.sum(rows, -2)
        count = None if member is None else functions.sum(member, -2)
    else:
        if mode == "max":
            raise ArgumentError('bags by offsets have a "sum" or "mean"')
        starts = functions.astype(as_tensor(offsets), "int64")
        if not include_last_offset:
            end = as_tensor([places.shape[0]], "int64")
            starts = functions.concat([starts, end])
        total = segment_sum(rows, starts)
        if member is None:
            count = functions.expand_dims(starts[1:] - starts[:-1], -1)
        else:
            count = segment_sum(functions.astype(member, total.dtype), starts)
    if mode == "sum" or count is None:
        return total
    return total / functions.astype(functions.maximum(count, 1), total.dtype)
