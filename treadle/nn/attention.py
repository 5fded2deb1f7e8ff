"""Attention over sequences, and the layers of a transformer."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.container import ModuleList
from treadle.nn.linear import Linear
from treadle.nn.module import Module
from treadle.nn.normalization import LayerNorm
from treadle.ops.movement import permute_dims, reshape
from treadle.ops.naming import by_role

__all__ = [
    "MultiHeadAttention",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class MultiHeadAttention(Module):
    """Concat of softmax(Q Kᵀ / sqrt(d)) V over heads, projected back.

    Inputs (batch, time, embed_dim), or (time, batch, embed_dim) with
    batch_first=False. A mask that is True, or a float that is added, broadcasts to
    (batch, heads, queries, keys); True means: may be attended to. Vaswani et al. 2017.

    >>> import treadle as td
    >>> attend = td.nn.MultiHeadAttention(8, 2)
    >>> x = td.ones((3, 5, 8))
    >>> attend(x, x, x).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = True,
        dtype: Any = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(f"{num_heads} heads do not divide {embed_dim}")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.batch_first = dropout, batch_first

        def projection(width: int) -> Linear:
            return Linear(
                width,
                embed_dim,
                bias,
                dtype,
                weight_init=init.glorot_uniform,
                bias_init=init.zeros,
            )

        self.q_proj = projection(embed_dim)
        self.k_proj = projection(embed_dim if kdim is None else kdim)
        self.v_proj = projection(embed_dim if vdim is None else vdim)
        self.out_proj = projection(embed_dim)

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        free = (-2, -1) if self.batch_first else (-3, -1)
        return by_role(0, free)(self._attended)(query, key, value, mask, is_causal)

    def _attended(
        self, query: Any, key: Any, value: Any, mask: Any, is_causal: bool
    ) -> Tensor:
        key = query if key is None else key
        value = key if value is None else value
        q = self._heads(self.q_proj(query))
        k, v = self._heads(self.k_proj(key)), self._heads(self.v_proj(value))
        p = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal)
        n, h, t, d = found.shape
        joined = reshape(permute_dims(found, (0, 2, 1, 3)), (n, t, h * d))
        if not self.batch_first:
            joined = permute_dims(joined, (1, 0, 2))
        y: Tensor = self.out_proj(joined)
        return y

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, heads, time, width) from one projection."""
        if not self.batch_first:
            x = permute_dims(x, (1, 0, 2))
        n, t, width = x.shape
        split = reshape(x, (n, t, self.num_heads, width // self.num_heads))
        return permute_dims(split, (0, 2, 1, 3))

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


class _Layer(Module):
    """What encoder and decoder layers share: feed-forward part and residuals."""

    def _build(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: str,
        norm_first: bool,
        dtype: Any,
    ) -> None:
        known = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
        if activation not in known:
            raise ArgumentError(
                f"no activation {activation!r} here", hint=f"one of {', '.join(known)}"
            )
        self.activation, self.norm_first, self.dropout = activation, norm_first, dropout
        self.linear1 = Linear(d_model, dim_feedforward, dtype=dtype)
        self.linear2 = Linear(dim_feedforward, d_model, dtype=dtype)

    def _dropped(self, x: Any) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _feed(self, x: Any) -> Tensor:
        function = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[self.activation]
        y: Tensor = self.linear2(self._dropped(function(self.linear1(x))))
        return y

    def _residual(self, x: Any, norm: Module, part: Any) -> Tensor:
        """x + part(norm(x)), or norm(x + part(x))."""
        y: Tensor
        if self.norm_first:
            y = x + self._dropped(part(norm(x)))
        else:
            y = norm(x + self._dropped(part(x)))
        return y


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward part, each with residual and normalization.

    >>> import treadle as td
    >>> layer = td.nn.TransformerEncoderLayer(8, 2, 16).eval()
    >>> layer(td.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        dtype: Any = None,
    ) -> None:
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout, batch_first=batch_first, dtype=dtype
        )
        self._build(d_model, dim_feedforward, dropout, activation, norm_first, dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)

    def forward(self, src: Any, mask: Any = None, is_causal: bool = False) -> Tensor:
        x = self._residual(
            as_tensor(src),
            self.norm1,
            lambda h: self.self_attn(h, mask=mask, is_causal=is_causal),
        )
        return self._residual(x, self.norm2, self._feed)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, then a feed-forward part.

    >>> import treadle as td
    >>> layer = td.nn.TransformerDecoderLayer(8, 2, 16).eval()
    >>> layer(td.ones((3, 5, 8)), td.ones((3, 4, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        dtype: Any = None,
    ) -> None:
        settings: dict[str, Any] = {"batch_first": batch_first, "dtype": dtype}
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout, **settings)
        self.multihead_attn = MultiHeadAttention(d_model, nhead, dropout, **settings)
        self._build(d_model, dim_feedforward, dropout, activation, norm_first, dtype)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, dtype=dtype)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_is_causal: bool = False,
    ) -> Tensor:
        x = self._residual(
            as_tensor(tgt),
            self.norm1,
            lambda h: self.self_attn(h, mask=tgt_mask, is_causal=tgt_is_causal),
        )
        x = self._residual(
            x, self.norm2, lambda h: self.multihead_attn(h, memory, mask=memory_mask)
        )
        return self._residual(x, self.norm3, self._feed)


class TransformerEncoder(Module):
    """Encoder layers one after the other, and a last normalization if one is given.

    >>> import treadle as td
    >>> layer = td.nn.TransformerEncoderLayer(4, 2, 8)
    >>> td.nn.TransformerEncoder([layer])(td.ones((1, 3, 4))).shape
    (1, 3, 4)
    """

    def __init__(self, layers: Any, norm: Module | None = None) -> None:
        self.layers, self.norm = ModuleList(layers), norm

    def forward(self, src: Any, mask: Any = None, is_causal: bool = False) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Decoder layers one after the other, and a last normalization if one is given.

    >>> import treadle as td
    >>> layer = td.nn.TransformerDecoderLayer(4, 2, 8)
    >>> x = td.ones((1, 3, 4))
    >>> td.nn.TransformerDecoder([layer])(x, x).shape
    (1, 3, 4)
    """

    def __init__(self, layers: Any, norm: Module | None = None) -> None:
        self.layers, self.norm = ModuleList(layers), norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_is_causal)
        return tgt if self.norm is None else self.norm(tgt)
