"""Encoder and decoder layers: sublayers within what is done before and after them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.linear import Linear
from treadle.nn.module import Module
from treadle.nn.normalization import LayerNorm, RMSNorm
from treadle.nn.recurrent.gru import SSRUCell
from treadle.nn.transformer.heads import MultiHeadAttention
from treadle.nn.transformer.mixers import (
    AverageAttention,
    RecurrentMixer,
    activation_of,
)

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]

State = dict[str, Any]
Part = Callable[[Any], Any]


def check_operations(before: str, after: str) -> None:
    """Refuse operations around a sublayer that are none."""
    for letters, known in ((before, "dnr"), (after, "danrh")):
        if not set(letters) <= set(known):
            raise ArgumentError(
                f"operations {letters!r} around a sublayer: they are letters of "
                f"{known!r}",
                hint="d dropout, n layer norm, r RMS norm, a add, h highway",
            )


class _Layer(Module):
    """The common part of encoder and decoder layers: feed-forward and connections."""

    def _build(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: Any,
        norm_first: bool,
        bias: bool,
        dtype: Any,
        *,
        preprocess: str | None = None,
        postprocess: str | None = None,
        feedforward_depth: int = 2,
        feedforward_dropout: float | None = None,
    ) -> None:
        activation_of(activation)
        self.activation, self.norm_first, self.dropout = activation, norm_first, dropout
        self.feedforward_dropout = (
            dropout if feedforward_dropout is None else feedforward_dropout
        )
        self.before = ("n" if norm_first else "") if preprocess is None else preprocess
        after = "da" if norm_first else "dan"
        self.after = after if postprocess is None else postprocess
        check_operations(self.before, self.after)
        if feedforward_depth < 1:
            raise ArgumentError(f"a feed-forward part has no depth {feedforward_depth}")
        self.depth = feedforward_depth
        sizes = [d_model, *[dim_feedforward] * (feedforward_depth - 1), d_model]
        for k in range(feedforward_depth):
            layer = Linear(sizes[k], sizes[k + 1], bias, dtype)
            setattr(self, f"linear{k + 1}", layer)

    def _connections(
        self, count: int, d_model: int, eps: float, bias: bool, dtype: Any
    ) -> None:
        """Make what stands before and after each sublayer."""
        normalization = partial(LayerNorm, bias=bias)
        kinds: dict[str, Callable[..., Module]] = {"n": normalization, "r": RMSNorm}
        for k in range(1, count + 1):
            for name in [x for x in self.after if x in kinds][:1]:
                setattr(self, f"norm{k}", kinds[name](d_model, eps, dtype=dtype))
            for name in [x for x in self.before if x in kinds][:1]:
                attribute = (
                    f"norm{k}_before" if set(self.after) & set(kinds) else f"norm{k}"
                )
                setattr(self, attribute, kinds[name](d_model, eps, dtype=dtype))
            if "h" in self.after:
                setattr(self, f"highway{k}", Linear(d_model, d_model, bias, dtype))

    def _dropped(self, x: Any) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _feed(self, x: Any) -> Tensor:
        for k in range(1, self.depth):
            x = activation_of(self.activation)(getattr(self, f"linear{k}")(x))
            x = F.dropout(x, self.feedforward_dropout, self.training)
        return getattr(self, f"linear{self.depth}")(x)

    def _before(self, x: Any, k: int) -> Any:
        """The input of sublayer k after the operations before it."""
        for name in self.before:
            if name == "d":
                x = self._dropped(x)
            else:
                norms = set(self.after) & {"n", "r"}
                x = getattr(self, f"norm{k}_before" if norms else f"norm{k}")(x)
        return x

    def _after(self, y: Any, x: Any, k: int) -> Tensor:
        """The output y of sublayer k, of input x, after the operations behind it."""
        for name in self.after:
            if name == "d":
                y = self._dropped(y)
            elif name == "a":
                y = y + x
            elif name == "h":
                gate = F.sigmoid(getattr(self, f"highway{k}")(x))
                y = gate * y + (1.0 - gate) * x
            else:
                y = getattr(self, f"norm{k}")(y)
        return y

    def _around(self, x: Any, k: int, part: Part) -> Tensor:
        """Sublayer k within its connection."""
        return self._after(part(self._before(x, k)), x, k)


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward part, each with residual and normalization.

    `norm_first` normalizes what a sublayer reads, else what comes out; `activation` is
    a name or a function, and without `bias` no part has one. Other ways are
    strings of operations before (`preprocess`) and after it (`postprocess`), as in
    Marian: d dropout, n layer norm, r RMS norm, a add the input, h highway (Srivastava
    et al. 2015). The feed-forward part has `feedforward_depth` linear layers. Dropout
    of attention weights and within the feed-forward part is `dropout` unless given.
    `positions` are those of MultiHeadAttention, `src_mask` and `src_key_padding_mask`
    torch's masks, where True means: not attended to.

    With a causal mask it is a decoder without a memory: `start` and `step` generate.

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
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
        *,
        positions: str | None = None,
        attention_dropout: float | None = None,
        projection: bool = True,
        **connections: Any,
    ) -> None:
        self.self_attn = MultiHeadAttention(
            d_model,
            nhead,
            dropout if attention_dropout is None else attention_dropout,
            bias,
            batch_first=batch_first,
            dtype=dtype,
            positions=positions,
            projection=projection,
        )
        settings = (d_model, dim_feedforward, dropout, activation, norm_first)
        self._build(*settings, bias, dtype, **connections)
        self._connections(2, d_model, layer_norm_eps, bias, dtype)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        is_causal: bool = False,
        *,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
    ) -> Tensor:
        masks = {"attn_mask": src_mask, "key_padding_mask": src_key_padding_mask}
        x = self._around(
            as_tensor(src),
            1,
            lambda h: self.self_attn(h, mask=mask, is_causal=is_causal, **masks),
        )
        return self._around(x, 2, self._feed)

    def start(self, rows: int, dtype: Any = None) -> State:
        """The state before the first place of `rows` sequences."""
        return self.self_attn.start(rows, dtype)

    def step(self, src: Any, state: State) -> tuple[Tensor, State]:
        """The next places [rows, new, d_model], each of which sees those before it."""
        x = as_tensor(src)
        y, state = self.self_attn.step(self._before(x, 1), state)
        return self._around(self._after(y, x, 1), 2, self._feed), state


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, then a feed-forward part.

    Settings are those of the encoder's layer. `autoregression` is "self-attention",
    "average-attention" (nn.AverageAttention) or "rnn" (nn.RecurrentMixer, an SSRU);
    its settings are in `mixing`. The last two are causal by themselves and read no
    mask. `start` and `step` generate. True means in `tgt_key_padding_mask` and
    `memory_key_padding_mask`, as in torch: not attended to.

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
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
        *,
        positions: str | None = None,
        attention_dropout: float | None = None,
        projection: bool = True,
        autoregression: str = "self-attention",
        mixing: dict[str, Any] | None = None,
        **connections: Any,
    ) -> None:
        p = dropout if attention_dropout is None else attention_dropout
        settings: dict[str, Any] = {
            "bias": bias, "batch_first": batch_first, "dtype": dtype,
            "projection": projection,
        }  # fmt: skip
        options, self.autoregression = dict(mixing or {}), autoregression
        self.self_attn: Any
        if autoregression == "self-attention":
            settings_of_self = {**settings, "positions": positions, **options}
            self.self_attn = MultiHeadAttention(d_model, nhead, p, **settings_of_self)
        elif not batch_first:
            raise ArgumentError(f"{autoregression} has batch_first=True")
        elif autoregression == "average-attention":
            average = {"dropout": dropout, **options}
            self.self_attn = AverageAttention(d_model, dtype=dtype, **average)
        elif autoregression == "rnn":
            self.self_attn = RecurrentMixer(
                d_model, options.pop("cell", SSRUCell), dtype=dtype, **options
            )
        else:
            raise ArgumentError(
                f"no autoregression {autoregression!r}",
                hint='"self-attention", "average-attention" or "rnn"',
            )
        self.multihead_attn = MultiHeadAttention(d_model, nhead, p, **settings)
        self._build(
            *(d_model, dim_feedforward, dropout, activation, norm_first, bias, dtype),
            **connections,
        )
        self._connections(3, d_model, layer_norm_eps, bias, dtype)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_is_causal: bool = False,
        *,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Tensor:
        x = self._mixed(tgt, tgt_mask, tgt_is_causal, tgt_key_padding_mask)
        masks = {"mask": memory_mask, "key_padding_mask": memory_key_padding_mask}
        x = self._around(x, 2, lambda h: self.multihead_attn(h, memory, **masks))
        return self._around(x, 3, self._feed)

    def _mixed(
        self, tgt: Any, mask: Any, is_causal: bool, padding: Any = None
    ) -> Tensor:
        """The first sublayer: what each place takes of those before it."""
        x, y = as_tensor(tgt), None
        if self.autoregression == "self-attention":
            h, masks = self._before(x, 1), {"mask": mask, "key_padding_mask": padding}
            y = self.self_attn(h, is_causal=is_causal, **masks)
        elif self.autoregression == "average-attention":
            y = self.self_attn(x, lambda h: self._before(h, 1))
        else:
            y = self.self_attn(self._before(x, 1))
        return self._after(y, x, 1)

    def alignment(self, tgt: Any, memory: Any, memory_mask: Any = None) -> Tensor:
        """The weights of the attention to a causal target's memory, by heads."""
        query = self._before(self._mixed(tgt, None, True), 2)
        known = self.multihead_attn.project(memory)
        return self.multihead_attn.weights(query, known, memory_mask)

    def start(self, memory: Any, memory_mask: Any = None) -> State:
        """The state before the first place, with the memory projected once."""
        node = as_tensor(memory)
        state: State = {
            "past": self.self_attn.start(node.shape[0], node.dtype),
            "memory": self.multihead_attn.project(node),
        }
        if memory_mask is not None:
            state["mask"] = memory_mask
        return state

    def step(self, tgt: Any, state: State) -> tuple[Tensor, State]:
        """The next places [rows, new, d_model], each of which sees those before it."""
        x, past = as_tensor(tgt), state["past"]
        if self.autoregression == "average-attention":
            y, past = self.self_attn.step(x, past, lambda h: self._before(h, 1))
        else:
            y, past = self.self_attn.step(self._before(x, 1), past)
        x = self._around(
            self._after(y, x, 1),
            2,
            lambda h: self.multihead_attn.attend(h, state["memory"], state.get("mask")),
        )
        return self._around(x, 3, self._feed), {**state, "past": past}
