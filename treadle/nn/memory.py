"""Attention of a decoder's state to a memory, and biases by distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.nn import init
from treadle.nn.linear import Linear, above_zero
from treadle.nn.module import Module
from treadle.nn.normalization import LayerNorm
from treadle.ops.attention import additive_scores, alibi_bias
from treadle.ops.contract import matmul
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims, squeeze
from treadle.ops.select import where
from treadle.ops.softmax import softmax

__all__ = ["ALiBi", "AdditiveAttention", "DotAttention", "GeneralAttention"]


class _Attention(Module):
    """softmax of scores over a memory [..., length, width], and what they pick.

    `attend(query, memory, mask)` gives (context, weights) for a query [..., width] or
    several [..., queries, width]. `mask` [..., length] is True where the memory may be
    seen; a query that sees nothing takes nothing. What is taken is the memory itself,
    or `values`. Where many queries meet one memory one after the other, project it
    once: `attend(query, memory, mask, keys=attend.project(memory))`.
    """

    def project(self, memory: Any) -> Tensor:
        """The memory as scores see it."""
        return as_tensor(memory)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """[..., queries, length] from queries and a projected memory."""
        raise NotImplementedError(f"{type(self).__name__} does not define scores")

    def forward(
        self,
        query: Any,
        memory: Any,
        mask: Any = None,
        *,
        keys: Any = None,
        values: Any = None,
    ) -> tuple[Tensor, Tensor]:
        queries, memory = as_tensor(query), as_tensor(memory)
        if memory.ndim < 2 or not queries.ndim:
            raise ShapeError(
                f"a memory is [..., length, width], a query [..., width]; got "
                f"{memory.type} and {queries.type}"
            )
        one = queries.ndim < memory.ndim
        known = self.project(memory) if keys is None else as_tensor(keys)
        scores = self.scores(expand_dims(queries, -2) if one else queries, known)
        weights = _weights(scores, mask, memory.ndim)
        context = matmul(weights, memory if values is None else as_tensor(values))
        if one:
            return squeeze(context, -2), squeeze(weights, -2)
        return context, weights


def _weights(scores: Tensor, mask: Any, ndim: int) -> Tensor:
    """softmax over what may be seen; zeros where that is nothing."""
    if mask is None or not scores.shape[-1]:
        return softmax(scores, -1)
    seen = as_tensor(mask)
    if seen.ndim < ndim:
        seen = expand_dims(seen, -2)
    scores = where(seen, scores, -math.inf)
    some = scores.max(-1, keepdims=True) != -math.inf
    return where(some, softmax(where(some, scores, 0.0), -1), 0.0)


class AdditiveAttention(_Attention):
    """Scores v · tanh(W q + U m + b).

    With `layer_norm` W q and U m are normalized first, as in Marian. Bahdanau, Cho and
    Bengio, Neural machine translation by jointly learning to align and translate, 2015.

    >>> attend = td.nn.AdditiveAttention(3, 4)
    >>> context, weights = attend(td.ones((2, 3)), td.ones((2, 5, 4)))
    >>> context.shape, weights.shape
    ((2, 4), (2, 5))
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        hidden_size: int | None = None,
        *,
        layer_norm: bool = False,
        dtype: Any = None,
    ) -> None:
        n = memory_size if hidden_size is None else hidden_size
        above_zero(query_size=query_size, memory_size=memory_size, hidden_size=n)
        drawn = init.glorot_uniform
        self.query = Linear(query_size, n, False, dtype, weight_init=drawn)
        self.key = Linear(
            memory_size, n, True, dtype, weight_init=drawn, bias_init=init.zeros
        )
        limit = math.sqrt(6.0 / (n + 1))
        self.weight = param(
            shape=(n,), init=init.uniform(low=-limit, high=limit), dtype=dtype
        )
        self.query_norm = LayerNorm(n, dtype=dtype) if layer_norm else None
        self.key_norm = LayerNorm(n, dtype=dtype) if layer_norm else None

    def project(self, memory: Any) -> Tensor:
        y = self.key(memory)
        return y if self.key_norm is None else self.key_norm(y)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        y = self.query(queries)
        y = y if self.query_norm is None else self.query_norm(y)
        return additive_scores(y, keys, self.weight)


class DotAttention(_Attention):
    """Scores q · m, over sqrt(width) if `scaled`. Luong, Pham and Manning 2015.

    >>> attend = td.nn.DotAttention()
    >>> context, weights = attend([1.0, 0.0], [[9.0, 0.0], [0.0, 9.0]], [True, False])
    >>> context.tolist(), weights.tolist()
    ([9.0, 0.0], [1.0, 0.0])
    """

    def __init__(self, scaled: bool = False) -> None:
        self.scaled = scaled

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        products = matmul(queries, keys.mT)
        return products / math.sqrt(keys.shape[-1]) if self.scaled else products


class GeneralAttention(_Attention):
    """Scores q · W m. Luong, Pham and Manning, Effective approaches to attention-based
    neural machine translation, 2015.

    >>> attend = td.nn.GeneralAttention(3, 4)
    >>> context, weights = attend(td.ones((2, 6, 3)), td.ones((2, 5, 4)))
    >>> context.shape, weights.shape
    ((2, 6, 4), (2, 6, 5))
    """

    def __init__(self, query_size: int, memory_size: int, dtype: Any = None) -> None:
        self.key = Linear(
            memory_size, query_size, False, dtype, weight_init=init.glorot_uniform
        )

    def project(self, memory: Any) -> Tensor:
        return self.key(memory)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return matmul(queries, keys.mT)


class ALiBi(Module):
    """-m |i - j| for queries i, keys j and a slope m a head, as a mask to be added.

    `alibi(queries, keys, mask)` is [heads, queries, keys], or what a bool `mask`, True
    where a key may be seen, broadcasts it to; -inf where it is False, and with `causal`
    for keys behind the query. The last query stands at the last key, unless the first
    one's place is given as `start`. Slopes are those of the paper, and parameters
    if `trainable` (Marian). Press, Smith and Lewis, Train short, test long, 2022.

    >>> layer, alibi = td.nn.MultiHeadAttention(8, 2), td.nn.ALiBi(2, causal=True)
    >>> x = td.ones((3, 5, 8))
    >>> layer(x, mask=alibi(5)).shape, alibi(2)[0].tolist()
    ((3, 5, 8), [[0.0, -inf], [-0.0625, 0.0]])
    """

    def __init__(
        self,
        heads: int,
        causal: bool = False,
        trainable: bool = False,
        dtype: Any = None,
    ) -> None:
        above_zero(heads=heads)
        self.heads, self.causal = heads, causal
        # Two places that are one apart have the slope between them.
        slopes = -alibi_bias(heads, 1, 2, dtype=dtype).numpy()[:, 0, 0]
        self.slopes = param(init=slopes, trainable=trainable, dtype=slopes.dtype)

    def forward(
        self,
        queries: int,
        keys: int | None = None,
        mask: Any = None,
        *,
        start: int | None = None,
    ) -> Tensor:
        keys = queries if keys is None else keys
        first = keys - queries if start is None else start
        if queries < 0 or (first < 0 and self.causal):
            raise ArgumentError(f"{queries} queries do not stand among {keys} keys")
        places = np.arange(first, first + queries)[:, None]
        ahead = np.arange(keys) - places
        apart = as_tensor(np.minimum(ahead, -ahead).astype(self.slopes.dtype))
        bias: Tensor = reshape(self.slopes, (-1, 1, 1)) * apart
        if self.causal:
            bias = where(as_tensor(ahead <= 0), bias, -math.inf)
        if mask is None:
            return bias
        allowed = as_tensor(mask)
        if allowed.dtype.kind != "b":
            return bias + allowed
        return functions.where(allowed, bias, -math.inf)

    def extra_repr(self) -> str:
        return f"{self.heads}, causal={self.causal}"
