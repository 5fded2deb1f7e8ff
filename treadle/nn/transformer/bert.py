"""An encoder over tokens, as BERT and MiniLM are."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Embedding, Linear, above_zero
from treadle.nn.module import Module
from treadle.nn.normalization import LayerNorm
from treadle.nn.transformer.layers import TransformerEncoderLayer
from treadle.nn.transformer.stack import LearnedPositions, TransformerEncoder
from treadle.ops.normalization import normalize

__all__ = ["Bert"]


class Bert(Module):
    """The hidden states [rows, length, width] of tokens [rows, length].

    Embeddings of words, places and kinds are added and normalized; `layers` encoder
    layers follow. A bool `mask` is True where there is a token, `kinds` says which part
    of a pair it belongs to. `pooled` is the state of the first token through a dense
    layer and tanh, where the model has a `pooler`. Devlin et al., BERT, 2019.

    >>> model = td.nn.Bert(50, 8, layers=1, heads=2, feedforward=16, places=6).eval()
    >>> ids, mask = [[1, 2, 3], [4, 5, 0]], [[True] * 3, [True, True, False]]
    >>> model(ids, mask).shape, model.sentences(ids, mask).shape
    ((2, 3, 8), (2, 8))
    """

    def __init__(
        self,
        vocabulary: int,
        width: int = 768,
        *,
        layers: int = 12,
        heads: int = 12,
        feedforward: int = 3072,
        places: int = 512,
        kinds: int = 2,
        dropout: float = 0.1,
        activation: str = "gelu",
        eps: float = 1e-12,
        pooler: bool = True,
        dtype: Any = None,
    ) -> None:
        above_zero(layers=layers, heads=heads, feedforward=feedforward)
        self.width, self.dropout = width, dropout
        drawn = init.normal(std=0.02)
        self.words = Embedding(vocabulary, width, weight_init=drawn, dtype=dtype)
        self.places = LearnedPositions(places, width, dtype=dtype)
        self.kinds = Embedding(kinds, width, weight_init=drawn, dtype=dtype)
        self.norm = LayerNorm(width, eps, dtype=dtype)
        self.encoder = TransformerEncoder(
            TransformerEncoderLayer(
                width, heads, feedforward, dropout, activation, eps, dtype=dtype
            )
            for _ in range(layers)
        )
        self.pooler = Linear(width, width, dtype=dtype) if pooler else None

    def forward(self, ids: Any, mask: Any = None, kinds: Any = None) -> Tensor:
        tokens = as_tensor(ids)
        if tokens.ndim != 2:
            raise ShapeError(
                f"tokens are [rows, length], got {tokens.type}",
                hint="one sentence is a batch of one row: tokens[None]",
            ).located("Bert", repr(tokens.type), tokens.line)
        kind = self.kinds(np.zeros((1, 1), np.int64) if kinds is None else kinds)
        x = self.norm(self.places(self.words(tokens) + kind))
        x = F.dropout(x, self.dropout, self.training)
        if mask is not None:
            allowed = as_tensor(mask).astype(bool)
            mask = allowed.reshape((allowed.shape[0], 1, 1, allowed.shape[1]))
        return self.encoder(x, mask)

    def pooled(self, states: Any) -> Tensor:
        """tanh(W h + b) of the first token's state."""
        if self.pooler is None:
            raise ShapeError("this model has no pooler", hint="Bert(pooler=True)")
        return F.tanh(self.pooler(as_tensor(states)[:, 0]))

    def sentences(self, ids: Any, mask: Any = None, kinds: Any = None) -> Tensor:
        """The mean of the tokens' states, of length 1: [rows, width].

        Reimers and Gurevych, Sentence-BERT, 2019.
        """
        states = self(ids, mask, kinds)
        if mask is None:
            mean = states.mean(1)
        else:
            part = functions.expand_dims(as_tensor(mask).astype(states.dtype), -1)
            mean = (states * part).sum(1) / functions.maximum(part.sum(1), 1e-9)
        return normalize(mean)

    @staticmethod
    def hugging_face(layers: int) -> dict[str, str | None]:
        """The names of Hugging Face's BertModel and what they are here, for `rename` of
        `td.load`.

        >>> Bert.hugging_face(1)["encoder.layer.0.attention.self.query."]
        'encoder.layers.0.self_attn.q_proj.'
        """
        names: dict[str, str | None] = {
            "embeddings.word_embeddings.": "words.",
            "embeddings.position_embeddings.": "places.table.",
            "embeddings.token_type_embeddings.": "kinds.",
            "embeddings.LayerNorm.": "norm.",
            "pooler.dense.": "pooler.",
        }
        parts = {
            "attention.self.query": "self_attn.q_proj",
            "attention.self.key": "self_attn.k_proj",
            "attention.self.value": "self_attn.v_proj",
            "attention.output.dense": "self_attn.out_proj",
            "attention.output.LayerNorm": "norm1",
            "intermediate.dense": "linear1",
            "output.dense": "linear2",
            "output.LayerNorm": "norm2",
        }
        for k in range(layers):
            for theirs, ours in parts.items():
                names[f"encoder.layer.{k}.{theirs}."] = f"encoder.layers.{k}.{ours}."
        return names
