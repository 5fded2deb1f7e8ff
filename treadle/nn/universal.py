"""Embeddings that words of several languages have in common."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import float32, whole
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.scope import initial_array, param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Variable
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Init, above_zero
from treadle.nn.module import Module
from treadle.ops.contract import matmul, matmul_transposed
from treadle.ops.lookup import embedding
from treadle.ops.rearrange import expand_dims
from treadle.ops.softmax import softmax

__all__ = ["UniversalEmbedding"]


class UniversalEmbedding(Module):
    """Universal language representation: a mean of shared vectors, and one's own.

    E(w) = I_w + a_w softmax(Q_w A Kᵀ / sqrt(d) / temperature) U. `queries` Q (words, d)
    and `keys` K (tokens, d) are vectors of one space, trained before on each language
    and fixed here; U (tokens, width) are the universal embeddings, I (words, width)
    each word's own, with sparse gradients. A (d, d) is the identity, fixed unless
    `train_transform`; a is `shared`, 1 for all words unless given one for each, such
    as 0 for those frequent enough. In training scores are dropped out with probability
    `dropout`. Gu et al., Universal neural machine translation for extremely low
    resource languages, 2018; Marian's --ulr, whose ulr_query, ulr_keys, ulr_embed,
    ulr_src_embed, ulr_transform and ulr_shared are these in turn.

    >>> import numpy as np, treadle as td
    >>> words, tokens = np.eye(5, 3), np.eye(4, 3)
    >>> layer = td.nn.UniversalEmbedding(words, tokens, width=6)
    >>> trained = [name for name, p in layer.named_parameters() if p.trainable]
    >>> layer([[1, 4]]).shape, trained
    ((1, 2, 6), ['universal', 'own'])
    """

    def __init__(
        self,
        queries: Any,
        keys: Any,
        width: int,
        *,
        dropout: float = 0.0,
        temperature: float = 1.0,
        train_transform: bool = False,
        shared: Any = 1.0,
        weight_init: Init = None,
    ) -> None:
        above_zero(width=width)
        q, k = _table(queries, "queries"), _table(keys, "keys")
        if q.shape[1] != k.shape[1]:
            raise ArgumentError(
                f"queries of width {q.shape[1]} and keys of {k.shape[1]} are of "
                "different spaces"
            )
        if not 0.0 <= dropout <= 1.0 or not temperature > 0.0:
            raise ArgumentError(
                f"dropout is from 0 to 1, temperature above 0, got {dropout} and "
                f"{temperature}"
            )
        (self.rows, d), self.width = q.shape, width
        self.dropout, self.temperature = dropout, temperature
        self.queries, self.keys = Variable(q), Variable(k)
        chosen = init.glorot_uniform if weight_init is None else weight_init
        self.universal = param(shape=(len(k), width), init=chosen)
        table = initial_array(chosen, (self.rows, width), None)
        self.own = Parameter(table, sparse=True, copy=False)
        self.transform = param(
            shape=(d, d),
            init=init.glorot_uniform if train_transform else init.eye,
            trainable=train_transform,
        )
        share = np.asarray(shared, float32)
        if share.shape not in ((), (self.rows,)):
            raise ArgumentError(
                f"shared is a number, or one for each of {self.rows} words, not "
                f"{share.shape}"
            )
        self.shared = Variable(np.broadcast_to(share, (self.rows,)).copy())

    def weights(self, ids: Any) -> Tensor:
        """Weights of the universal embeddings for each word: [..., tokens], sums 1."""
        vectors = embedding(self.queries, ids)
        turned = matmul(vectors, self.transform) / math.sqrt(self.keys.shape[1])
        scores = F.dropout(
            matmul_transposed(turned, self.keys), self.dropout, self.training
        )
        return softmax(scores / self.temperature, -1)

    def forward(self, ids: Any) -> Tensor:
        words = as_tensor(ids)
        universal = matmul(self.weights(words), self.universal)
        share = embedding(self.shared, words)
        return embedding(self.own, words) + expand_dims(share, -1) * universal

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.width}, tokens={self.keys.shape[0]}"


def _table(vectors: Any, name: str) -> Array:
    table = np.asarray(whole(vectors), dtype=float32)
    if table.ndim != 2 or not table.size:
        raise ArgumentError(f"{name} are a vector for each word, not {table.shape}")
    return table
