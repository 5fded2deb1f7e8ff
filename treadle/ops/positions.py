"""Position encodings for attention: sinusoids, rotations, biases, scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, as_dtype
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.options import current
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, operands
from treadle.ops.join import stack
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims
from treadle.ops.trigonometric import tanh

__all__ = ["additive_scores", "alibi_bias", "rotary", "sinusoidal_positions"]


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
    wanted = current().dtype if dtype is None else as_dtype(dtype)
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
    wanted = current().dtype if dtype is None else as_dtype(dtype)
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
