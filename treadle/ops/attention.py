"""Attention of queries over keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArityError, ShapeError
from treadle.base.symbolic import array_of
from treadle.base.types import Names, Type, broadcast_shapes
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Input, Mistake, Sample, leading, matched, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import lifted, repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.cast import astype, factors
from treadle.ops.families import Composite, same_dtype

__all__ = ["attention"]


def _names(types: Sequence[Type]) -> Names | None:
    """The names of attention: a mask may call the queries' places what it likes."""
    q, k, v, _, *mask = types
    ends = ("queries", "width"), ("keys", "width"), ("keys", "width of values")
    operands = [
        (t, (*leading(t.ndim - 2), *end))
        for t, end in zip((q, k, v), ends, strict=True)
    ]
    for t in mask:
        parts = (*leading(max(t.ndim - 2, 0)), "queries of the mask", "keys")
        operands.append((t, parts[len(parts) - t.ndim :]))
    count = max(q.ndim, k.ndim, v.ndim) - 2
    return matched(operands, (*leading(count), "queries", "width of values"))


@op()
class Attention(Composite):
    """softmax(q kT scale + mask) v over [..., length, width]; mask may be left out.

    With `causal` a query sees the keys up to its own place (Vaswani et al., 2017). One
    that sees no key takes nothing: its row is 0.
    """

    causal: bool = False
    takes = "float"

    def infer(self, *types: Type) -> Type:
        if len(types) not in (4, 5):
            raise ArityError(f"takes q, k, v, scale and a mask, got {len(types)}")
        same_dtype(types)
        q, k, v, scale = types[:4]
        if scale.shape:
            raise ShapeError(f"the scale is a scalar, not {scale}")
        if min(q.ndim, k.ndim, v.ndim) < 2:
            raise ShapeError("q, k and v have a length and a width")
        if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
            raise ShapeError(
                f"q {q.shape}, k {k.shape} and v {v.shape} do not meet",
                hint="q and k share the width, k and v the length",
            )
        lead = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        scores = (*lead, q.shape[-2], k.shape[-2])
        if len(types) == 5 and broadcast_shapes(types[4].shape, scores) != scores:
            raise ShapeError(f"mask {types[4].shape} does not broadcast to {scores}")
        names = _names(types)
        return Type((*lead, q.shape[-2], v.shape[-1]), q.dtype, names)

    def numpy(self, q: Any, k: Any, v: Any, scale: Any, *mask: Any) -> Array:
        scores = np.matmul(q * scale, np.swapaxes(k, -1, -2))
        scores = scores + mask[0] if mask else scores
        if self.causal:
            seen = np.tri(*scores.shape[-2:]) > 0
            scores = np.where(seen, scores, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-math.inf)
        e = np.exp(scores - np.where(np.isneginf(top), np.zeros_like(top), top))
        total = e.sum(-1, keepdims=True)
        return np.matmul(e / np.where(total == 0, np.ones_like(total), total), v)

    def expand(self, *xs: Tensor) -> Tensor:
        weights = weights_of(xs[0], xs[1], xs[3], list(xs[4:]), self.causal)
        return functions.matmul(weights, xs[2])

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        if has_rows[3]:
            return super().rows(has_rows, *xs)
        (q, k, v, scale, *mask), marked = xs, [*has_rows[:3], *has_rows[4:]]
        if not any(has_rows[:3]):  # rows of the mask alone do not make any
            q, marked[0] = repeated(q, row_count(has_rows, xs)), True
        q, k, v, *mask = lifted(marked, [q, k, v, *mask])
        return self(q, k, v, scale, *mask)

    @classmethod
    def samples(cls) -> list[Sample]:
        scale = np.array(0.5, np.float32)
        q, k, v = Input((2, 3, 4)), Input((2, 5, 4)), Input((2, 5, 2))
        blind = np.array([[0, 0, 0], [-np.inf] * 3, [0, -np.inf, 1]], np.float32)
        square = (Input((3, 4)), Input((3, 4)), Input((3, 2)), scale)
        return [
            Sample(cls(), (q, k, v, scale)),
            Sample(cls(), (q, k, v, scale, Input((3, 5)))),
            Sample(cls(True), square),
            Sample(cls(), (*square, blind), (0, 1, 2)),
            Sample(cls(), (Input((1, 2)), Input((1, 2)), Input((1, 1)), scale)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, y = as_tensor(np.ones((3, 4))), as_tensor(np.ones((3, 5)))
        one, long = as_tensor(np.array(1.0)), as_tensor(np.ones((7, 7)))
        return [
            Mistake(lambda: cls()(x, y, y, one), ShapeError, "do not meet"),
            Mistake(lambda: cls()(x, x, x), ArityError, "q, k, v, scale"),
            Mistake(lambda: cls()(x, x, x, x), ShapeError, "scale is a scalar"),
            Mistake(lambda: cls()(x, x, x, one, long), ShapeError, "broadcast"),
        ]


def _seen(queries: int, keys: int) -> Array:
    """The keys that stand no later than each query."""
    return np.tri(queries, keys, dtype=bool)


def weights_of(
    q: Tensor, k: Tensor, scale: Tensor, masks: list[Tensor], causal: bool
) -> Tensor:
    """The share that each query takes of each key: rows add up to 1, or 0 of none."""
    scores = functions.matmul(q * scale, functions.matrix_transpose(k))
    for mask in masks:
        scores = scores + mask
    if causal:
        both = q.type.shape[-2], k.type.shape[-2]
        seen = constant_node(array_of(_seen, both, *both))
        scores = functions.where(seen, scores, -math.inf)
    weights: Tensor
    if not masks or not scores.type.shape[-1]:
        weights = functions.softmax(scores, -1)
        return weights
    sees = scores.max(-1, keepdims=True) != -math.inf
    weights = functions.softmax(functions.where(sees, scores, 0.0), -1)
    return functions.where(sees, weights, 0.0)


@provide
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: Any = None,
    dropout: Any = None,
) -> Tensor:
    """softmax(q kT scale + mask) v over [..., length, width].

    `scale` is 1 / sqrt(width) unless given; a bool mask is true where a key is seen, a
    float one is added. A query that sees no key gets 0. `dropout`, a function, is
    applied to the weights.

    >>> x = td.ones((1, 3, 2))
    >>> td.attention(x, x, x, causal=True).shape
    (1, 3, 2)
    """
    a, b, c = factors(q, k, v)
    width = a.type.shape[-1] if a.type.shape else 1
    factor = 1.0 / math.sqrt(max(width, 1)) if scale is None else scale
    scaling = astype(as_tensor(factor), a.type.dtype)
    masks: list[Tensor] = []
    if mask is not None:
        mask_node = as_tensor(mask)
        if mask_node.type.dtype.kind == "b":
            mask_node = functions.where(mask_node, 0.0, -math.inf)
        masks.append(astype(mask_node, a.type.dtype))
    whole = Attention(causal)(a, b, c, scaling, *masks)
    if dropout is None:
        return whole
    a, b, c, *masks = map(functions.unname, (a, b, c, *masks))
    weights = dropout(weights_of(a, b, scaling, masks, causal))
    attended: Tensor = functions.matmul(weights, c)
    return functions.reshape(attended, whole.type.shape, axes=whole.type.axes)
