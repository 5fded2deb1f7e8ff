"""Attention of queries over keys and values, and encodings of positions for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator
from treadle.base.errors import ArgumentError, ArityError, ShapeError
from treadle.base.symbolic import array_of
from treadle.base.types import Names, Type, broadcast_shapes
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, leading, matched, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import lifted, repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, factors, operands
from treadle.ops.create import asked_dtype
from treadle.ops.elementary import tanh
from treadle.ops.families import Composite, same_dtype
from treadle.ops.join import stack
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims

__all__ = [
    "additive_scores",
    "alibi_bias",
    "attention",
    "rotary",
    "sinusoidal_positions",
]


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
    whole = _attended(q, k, v, mask, causal, scale)
    if dropout is None:
        return whole
    a, b, c, scaling, *masks = whole.inputs
    a, b, c, *masks = map(functions.unname, (a, b, c, *masks))
    weights = dropout(weights_of(a, b, scaling, masks, causal))
    attended: Tensor = functions.matmul(weights, c)
    return functions.reshape(attended, whole.type.shape, axes=whole.type.axes)


@recorded
def _attended(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: Any) -> Tensor:
    """Attention whose weights stay as they are."""
    a, b, c = factors(q, k, v)
    width = a.type.shape[-1] if a.type.shape else 1
    factor = 1.0 / math.sqrt(max(width, 1)) if scale is None else scale
    masks: list[Tensor] = []
    if mask is not None:
        mask_node = as_tensor(mask)
        if mask_node.type.dtype.kind == "b":
            mask_node = functions.where(mask_node, 0.0, -math.inf)
        masks.append(astype(mask_node, a.type.dtype))
    return Attention(causal)(a, b, c, astype(as_tensor(factor), a.type.dtype), *masks)


def _angles(length: int, width: int, base: float, start: int = 0) -> Any:
    """Place t times base^(-2k / width), for each k: [length, width / 2]."""
    rates = base ** (-np.arange(0, width, 2) / max(width, 1))
    return np.arange(start, start + length)[:, None] * rates


def sinusoidal_positions(
    length: int,
    width: int,
    base: float = 10000.0,
    dtype: Any = None,
    *,
    start: int = 0,
) -> Tensor:
    """Sines and cosines of each place t from `start` on, in turns: [length, width].

    Column 2k is sin(t base^(-2k / width)) and column 2k + 1 its cosine. Vaswani et al.,
    Attention is all you need, 2017.

    >>> td.sinusoidal_positions(2, 2).numpy().round(4).tolist()
    [[0.0, 1.0], [0.8414999842643738, 0.5403000116348267]]
    """
    if length < 0 or width < 0:
        raise ArgumentError(f"no table has {length} rows of {width}").located(
            "sinusoidal_positions"
        )
    angles = _angles(length, width, base, start)
    turns = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, -1)
    wanted = asked_dtype(dtype)
    return constant_node(np.ascontiguousarray(turns[:, :width], dtype=wanted))


def alibi_bias(
    heads: int, queries: int, keys: int | None = None, dtype: Any = None
) -> Tensor:
    """-m |i - j| to add to the scores of query i and key j: [heads, queries, keys].

    The slopes m of the heads are 2^(-8 h / heads), h = 1 .. heads; between powers of
    two, as in the paper, every second slope of the next power fills up. The last query
    stands at the last key. Press, Smith and Lewis, Train short, test long, 2022.

    >>> td.alibi_bias(8, 2)[0].tolist()
    [[0.0, -0.5], [-0.5, 0.0]]
    """
    if heads < 1:
        raise ArgumentError(f"{heads} heads have no slopes").located("alibi_bias")
    keys = queries if keys is None else keys
    whole = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * h / whole) for h in range(1, whole + 1)]
    slopes += [2.0 ** (-4.0 * h / whole) for h in range(1, 2 * (heads - whole), 2)]
    places = np.arange(keys - queries, keys)[:, None]
    apart = np.abs(places - np.arange(keys))
    wanted = asked_dtype(dtype)
    return constant_node((np.array(slopes)[:, None, None] * -apart).astype(wanted))


def rotary(
    x: Any, base: float = 10000.0, start: int = 0, *, halves: bool = False
) -> Tensor:
    """The pairs (2k, 2k + 1) of x [..., length, width] turned by t base^(-2k / width).

    t counts the places from `start`, so products of queries and keys depend on how far
    they stand apart. With `halves` the pairs are (k, k + width / 2), as GPT-NeoX and
    Llama have them. Su et al., RoFormer, 2021.

    >>> td.rotary([[1.0, 0.0], [1.0, 0.0]]).numpy().round(4).tolist()
    [[1.0, 0.0], [0.5403000116348267, 0.8414999842643738]]
    """
    node = functions.unname(as_float(x))
    t = node.type
    if t.ndim < 2 or t.shape[-1] % 2:
        raise ShapeError(f"turns pairs of [..., length, width], not {t}").located(
            "rotary"
        )
    angles = _angles(t.shape[-2], t.shape[-1], base, start)
    wide = accumulator(t.dtype)
    cos, sin = (constant_node(f(angles).astype(wide)) for f in (np.cos, np.sin))
    half, axis = t.shape[-1] // 2, t.ndim - 1 if halves else t.ndim
    split = (2, half) if halves else (half, 2)
    pairs = reshape(astype(node, wide), (*t.shape[:-1], *split))
    a, b = (pairs[..., k, :] if halves else pairs[..., k] for k in (0, 1))
    turned = stack([a * cos - b * sin, a * sin + b * cos], axis)
    return astype(reshape(turned, t.shape), t.dtype)


def additive_scores(q: Any, k: Any, v: Any) -> Tensor:
    """v · tanh(q_i + k_j) for each query i and key j: [..., queries, keys].

    q [..., queries, width] and k [..., keys, width] are projected already; v has the
    width. Bahdanau, Cho and Bengio, 2015.

    >>> td.additive_scores(td.zeros((2, 3)), td.zeros((4, 3)), td.ones(3)).shape
    (2, 4)
    """
    a, b, w = operands(q, k, v)
    if min(a.type.ndim, b.type.ndim) < 2 or w.type.ndim != 1:
        raise ShapeError(
            f"q {a.type} and k {b.type} have lengths and a width, v {w.type} a width"
        ).located("additive_scores")
    met = tanh(expand_dims(a, -2) + expand_dims(b, -3))
    return functions.matmul(met, w)
