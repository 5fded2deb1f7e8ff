"""Multi-head attention over whole sequences, and step by step with a cache of keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Linear, above_zero
from treadle.nn.memory import ALiBi
from treadle.nn.module import Module
from treadle.ops.attention import rotary
from treadle.ops.create import full, zeros
from treadle.ops.join import concat
from treadle.ops.movement import broadcast_to, permute_dims, reshape
from treadle.ops.naming import by_role
from treadle.ops.select import where

__all__ = [
    "MultiHeadAttention",
    "MultiheadAttention",
]


BLOCK = 32  # places of room made at once: as many steps run one program
State = dict[str, Any]


def empty(rows: int, heads: int, width: int, dtype: Any) -> State:
    """No places yet, of `rows` sequences."""
    none = zeros((rows, heads, 0, width), dtype)
    return {"place": 0, "keys": none, "values": none}


def extended(state: State, keys: Tensor, values: Tensor) -> State:
    """The state with keys and values [rows, heads, new, width] behind it."""
    place, new = state["place"], keys.shape[2]
    return {
        "place": place + new,
        "keys": _written(as_tensor(state["keys"]), keys, place),
        "values": _written(as_tensor(state["values"]), values, place),
    }


def seen(state: State, queries: int) -> np.ndarray[Any, Any]:
    """The causal mask of the last `queries` places: bool[queries, capacity]."""
    capacity = state["keys"].shape[2]
    places = np.arange(state["place"] - queries, state["place"])
    return np.arange(capacity) <= places[:, None]


def _written(old: Tensor, new: Tensor, place: int) -> Tensor:
    """`new` at the places from `place` on; `place` is data, so steps look alike."""
    rows, heads, count, width = new.shape
    capacity = max(old.shape[2], -(-(place + count) // BLOCK) * BLOCK)
    if capacity > old.shape[2]:
        more = zeros((rows, heads, capacity - old.shape[2], width), new.dtype)
        old = concat([old, more], 2) if old.shape[2] else more
    ahead = np.arange(capacity) - place
    if count > 1:
        new = functions.take(new, np.clip(ahead, 0, count - 1), axis=2)
    fresh = as_tensor(((ahead >= 0) & (ahead < count))[:, None])
    return where(fresh, new, old)


POSITIONS = (None, "rotary", "rotary halves", "alibi")


class MultiHeadAttention(Module):
    """Concat of softmax(Q Kᵀ / sqrt(d)) V over heads, projected back.

    Inputs (batch, time, embed_dim), or (time, batch, embed_dim) with
    batch_first=False. A mask that is True, or a float that is added, broadcasts to
    (batch, heads, queries, keys); True means: may be attended to. `attn_mask` and
    `key_padding_mask` are torch's, where True means that it may not. Vaswani et al.
    2017.

    `positions` says how self-attention knows of places: "rotary" turns queries and keys
    (`td.rotary`; "rotary halves" pairs k with k + d / 2, as GPT-NeoX and Llama store
    their weights), "alibi" adds the biases of `nn.ALiBi`. Without `projection` heads
    are returned as they are (Marian's transformer-no-projection).

    >>> attend = td.nn.MultiHeadAttention(8, 2, positions="rotary")
    >>> x = td.ones((3, 5, 8))
    >>> attend(x, x, x).shape
    (3, 5, 8)
    >>> state = attend.start(3)
    >>> for t in range(5):
    ...     y, state = attend.step(x[:, t : t + 1], state)
    >>> bool((td.abs(y - attend(x, is_causal=True)[:, 4:]) < 1e-6).all())
    True
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
        positions: str | None = None,
        projection: bool = True,
    ) -> None:
        above_zero(embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ArgumentError(f"{num_heads} heads do not divide {embed_dim}")
        if positions not in POSITIONS:
            raise ArgumentError(
                f"attention knows no positions {positions!r}",
                hint=f"one of {', '.join(map(repr, POSITIONS))}",
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.positions = positions

        def linear(width: int) -> Linear:
            return Linear(
                width,
                embed_dim,
                bias,
                dtype,
                weight_init=init.glorot_uniform,
                bias_init=init.zeros,
            )

        self.q_proj = linear(embed_dim)
        self.k_proj = linear(embed_dim if kdim is None else kdim)
        self.v_proj = linear(embed_dim if vdim is None else vdim)
        self.out_proj = linear(embed_dim) if projection else None
        self.alibi = ALiBi(num_heads, dtype=dtype) if positions == "alibi" else None

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        is_causal: bool = False,
        *,
        key_padding_mask: Any = None,
        attn_mask: Any = None,
    ) -> Tensor:
        free = (-2, -1) if self.batch_first else (-3, -1)
        mask = self._allowed(mask, attn_mask, key_padding_mask)
        return by_role(0, free)(self._attended)(query, key, value, mask, is_causal)

    def _allowed(self, mask: Any, attn_mask: Any, key_padding_mask: Any) -> Any:
        """A mask of this layer's with torch's, in which True means: not attended to."""
        if attn_mask is not None:
            other = as_tensor(attn_mask)
            if other.ndim == 3:  # (batch heads, queries, keys)
                shape = (-1, self.num_heads, *other.shape[1:])
                other = reshape(other, shape)
            mask = _both(mask, _turned(other))
        if key_padding_mask is not None:
            other = as_tensor(key_padding_mask)
            shape = (-1, 1, 1, other.shape[-1])
            mask = _both(mask, _turned(reshape(other, shape)))
        return mask

    def _attended(
        self, query: Any, key: Any, value: Any, mask: Any, is_causal: bool
    ) -> Tensor:
        key = query if key is None else key
        known = self.project(key, value)
        q = self._placed(self._heads(self.q_proj(query)), 0)
        bias = self._bias(q.shape[2], known["keys"].shape[2], mask)
        return self._joined(q, known, bias, is_causal)

    def project(self, key: Any, value: Any = None) -> State:
        """Keys and values by heads, of a memory that many queries meet: `attend`."""
        k = self._placed(self._heads(self.k_proj(key)), 0)
        value = key if value is None else value
        return {"keys": k, "values": self._heads(self.v_proj(value))}

    def attend(self, query: Any, known: State, mask: Any = None) -> Tensor:
        """Attention to what `project` gave; masks are as in a call."""
        q = self._placed(self._heads(self.q_proj(query)), 0)
        return self._joined(q, known, mask, False)

    # -- step by step --------------------------------------------------------------

    def start(self, rows: int, dtype: Any = None) -> State:
        """The state before the first place of `rows` sequences."""
        if not self.batch_first:
            raise ArgumentError("step by step attention has batch_first=True")
        dtype = self.q_proj.weight.dtype if dtype is None else dtype
        return empty(rows, self.num_heads, self.embed_dim // self.num_heads, dtype)

    def step(self, x: Any, state: State) -> tuple[Tensor, State]:
        """Self-attention of the next places [rows, new, embed_dim] to all so far."""
        node = as_tensor(x)
        if node.ndim != 3 or node.shape[0] != state["keys"].shape[0]:
            raise ShapeError(
                f"a step takes ({state['keys'].shape[0]}, new, {self.embed_dim}), "
                f"got {node.type}",
                hint="one new place: x[:, t : t + 1]",
            ).located("MultiHeadAttention.step")
        place = state["place"]
        q = self._placed(self._heads(self.q_proj(node)), place)
        k = self._placed(self._heads(self.k_proj(node)), place)
        state = extended(state, k, self._heads(self.v_proj(node)))
        mask = as_tensor(seen(state, q.shape[2]))
        capacity = state["keys"].shape[2]
        bias = self._bias(q.shape[2], capacity, mask, place)
        return self._joined(q, state, bias, False), state

    # -- parts ---------------------------------------------------------------------

    def weights(self, query: Any, known: State, mask: Any = None) -> Tensor:
        """Attention weights: [batch, heads, queries, keys]."""
        q = self._placed(self._heads(self.q_proj(query)), 0)
        scores = functions.matmul(q, known["keys"].mT) / math.sqrt(q.shape[-1])
        if mask is not None:
            allowed = as_tensor(mask)
            if allowed.dtype.kind == "b":
                allowed = functions.where(allowed, 0.0, -math.inf)
            scores = scores + allowed
        return F.softmax(scores, -1)

    def _placed(self, x: Tensor, place: int) -> Tensor:
        """Heads turned by their places, the first of which is `place`."""
        if self.positions not in ("rotary", "rotary halves"):
            return x
        return rotary(x, start=place, halves=self.positions == "rotary halves")

    def _bias(self, queries: int, keys: int, mask: Any, place: int = 0) -> Any:
        """The mask, with what ALiBi adds."""
        if self.alibi is None:
            return mask
        return self.alibi(queries, keys, mask, start=place)

    def _joined(self, q: Tensor, known: State, mask: Any, is_causal: bool) -> Tensor:
        """Heads that have attended, side by side and projected."""
        p = self.dropout if self.training else 0.0
        k, v = known["keys"], known["values"]
        attended = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal)
        n, h, t, d = attended.shape
        joined: Tensor = reshape(permute_dims(attended, (0, 2, 1, 3)), (n, t, h * d))
        if not self.batch_first:
            joined = permute_dims(joined, (1, 0, 2))
        return joined if self.out_proj is None else self.out_proj(joined)

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, heads, time, width) from one projection."""
        if not self.batch_first:
            x = permute_dims(x, (1, 0, 2))
        n, t, width = x.shape
        split = reshape(x, (n, t, self.num_heads, width // self.num_heads))
        return permute_dims(split, (0, 2, 1, 3))

    def extra_repr(self) -> str:
        text = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
        return text if self.positions is None else f"{text}, {self.positions}"


def _turned(mask: Tensor) -> Tensor:
    """A mask of torch's as one here: floats are added in both."""
    return functions.logical_not(mask) if mask.dtype.kind == "b" else mask


def _both(first: Any, second: Tensor) -> Tensor:
    """One mask that lets attend where two do."""
    if first is None:
        return second
    first = as_tensor(first)
    if first.dtype.kind == second.dtype.kind == "b":
        return first & second
    added = [
        functions.where(m, 0.0, -math.inf) if m.dtype.kind == "b" else m
        for m in (first, second)
    ]
    return added[0] + added[1]


class MultiheadAttention(MultiHeadAttention):
    """MultiHeadAttention as torch calls it: (time, batch, embed_dim) unless
    `batch_first`, or (time, embed_dim) alone; the result is (output, weights), of which
    the weights are the mean over heads if `average_attn_weights`, or None.

    >>> attend = td.nn.MultiheadAttention(8, 2)
    >>> x = td.ones((5, 3, 8))
    >>> output, weights = attend(x, x, x)
    >>> output.shape, weights.shape
    ((5, 3, 8), (3, 5, 5))
    """

    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            embed_dim,
            num_heads,
            dropout,
            bias,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            dtype=dtype,
        )
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            drawn, shape = init.xavier_normal, (1, 1, embed_dim)
            self.bias_k = param(shape=shape, init=drawn, dtype=dtype)
            self.bias_v = param(shape=shape, init=drawn, dtype=dtype)
        self.add_zero_attn = add_zero_attn

    def forward(  # type: ignore[override]
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        alone = as_tensor(query).ndim == 2
        batch = 0 if self.batch_first else 1
        if alone:
            query, key, value = (
                functions.expand_dims(as_tensor(x), batch) for x in (query, key, value)
            )
        known = self.project(key, value)
        mask = self._allowed(None, attn_mask, key_padding_mask)
        known, mask = self._with_more(known, mask)
        # torch's flag is a hint about a mask that is there.
        if is_causal and attn_mask is None:
            raise ArgumentError("is_causal tells of an attn_mask: give it, too")
        q = self._placed(self._heads(self.q_proj(query)), 0)
        output = self._joined(q, known, mask, False)
        weights = None
        if need_weights:
            weights = self.weights(query, known, mask)
            weights = weights.mean(1) if average_attn_weights else weights
        if alone:
            output = functions.squeeze(output, batch)
            weights = None if weights is None else functions.squeeze(weights, 0)
        return output, weights

    def _with_more(self, known: State, mask: Any) -> tuple[State, Any]:
        """Keys and values with the learned ones and those of zeros behind."""
        more = []
        if self.bias_k is not None:
            more.append((self._heads(self.bias_k), self._heads(self.bias_v)))
        if self.add_zero_attn:
            width = self.embed_dim // self.num_heads
            more.append((zeros((1, self.num_heads, 1, width)),) * 2)
        for pair in more:
            for name, one in zip(("keys", "values"), pair, strict=True):
                n, h, _, d = known[name].shape
                wide = broadcast_to(one.astype(known[name].dtype), (n, h, 1, d))
                known = {**known, name: functions.concat([known[name], wide], 2)}
            if mask is not None:
                seen = mask.dtype.kind == "b"
                extra = full((*mask.shape[:-1], 1), seen, mask.dtype)
                mask = functions.concat([mask, extra], -1)
        return known, mask
