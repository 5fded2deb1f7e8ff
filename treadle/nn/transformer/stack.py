"""Layers of a transformer one after the other, and places added to embeddings."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.container import ModuleList
from treadle.nn.linear import Embedding, above_zero
from treadle.nn.module import Module
from treadle.ops.attention import sinusoidal_positions

__all__ = [
    "LearnedPositions",
    "SinusoidalPositions",
    "TransformerDecoder",
    "TransformerEncoder",
]


States = list[dict[str, Any]]


class _Stack(Module):
    """Layers, or one with the number of its copies, and a last normalization if one
    is given."""

    def __init__(
        self,
        layers: Any,
        num_layers: int | None = None,
        norm: Module | None = None,
    ) -> None:
        one = isinstance(layers, Module) and not isinstance(layers, ModuleList)
        if one != (num_layers is not None):
            raise ArgumentError(
                "takes one layer and num_layers, or a list of layers without it"
            ).located(type(self).__name__)
        if num_layers is not None:
            above_zero(num_layers=num_layers)
            layers = [copy.deepcopy(layers) for _ in range(num_layers)]
        self.layers, self.norm = ModuleList(layers), norm

    def _last(self, x: Any) -> Any:
        return x if self.norm is None else self.norm(x)

    def step(self, x: Any, states: States) -> tuple[Tensor, States]:
        """The next places [rows, new, d_model], each of which sees those before it."""
        after = []
        for layer, state in zip(self.layers, states, strict=True):
            x, state = layer.step(x, state)
            after.append(state)
        return self._last(x), after


class TransformerEncoder(_Stack):
    """Encoder layers one after the other, and a last normalization if one is given.

    With `is_causal` it is a decoder without a memory, and `start` and `step` give what
    the whole sequence gives, place by place.

    >>> layer = td.nn.TransformerEncoderLayer(4, 2, 8)
    >>> td.nn.TransformerEncoder([layer])(td.ones((1, 3, 4))).shape
    (1, 3, 4)
    >>> len(td.nn.TransformerEncoder(layer, num_layers=6).layers)
    6
    """

    def forward(
        self,
        src: Any,
        mask: Any = None,
        is_causal: bool = False,
        *,
        src_key_padding_mask: Any = None,
    ) -> Tensor:
        padding = {"src_key_padding_mask": src_key_padding_mask}
        masks = padding if src_key_padding_mask is not None else {}
        for layer in self.layers:
            src = layer(src, mask, is_causal, **masks)
        return self._last(src)

    def start(self, rows: int, dtype: Any = None) -> States:
        """The states before the first place of `rows` sequences."""
        return [layer.start(rows, dtype) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Decoder layers one after the other, and a last normalization if one is given.

    `padding` are the masks of keys that a layer takes. `start` projects the memory
    once; `step` gives what the whole sequence gives.

    >>> layer = td.nn.TransformerDecoderLayer(4, 2, 8)
    >>> x = td.ones((1, 3, 4))
    >>> td.nn.TransformerDecoder([layer])(x, x).shape
    (1, 3, 4)
    """

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_is_causal: bool = False,
        **padding: Any,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_is_causal, **padding)
        return self._last(tgt)

    def start(self, memory: Any, memory_mask: Any = None) -> States:
        """The states before the first place, of sequences that see this memory."""
        return [layer.start(memory, memory_mask) for layer in self.layers]


class SinusoidalPositions(Module):
    """x + the sines and cosines of the places of x [..., length, width].

    `start` is the place of the first, for generation step by step. With `scale` x is
    multiplied first, by sqrt(width) in the paper. Vaswani et al. 2017.

    >>> places = td.nn.SinusoidalPositions(4)
    >>> x = td.zeros((2, 3, 4))
    >>> bool((places(x)[:, 2:] == places(x[:, 2:], start=2)).all())
    True
    """

    def __init__(self, width: int, scale: float = 1.0, dropout: float = 0.0) -> None:
        above_zero(width=width)
        self.width, self.scale, self.dropout = width, scale, dropout

    def forward(self, x: Any, start: int = 0) -> Tensor:
        node = _checked(x, self.width)
        table = sinusoidal_positions(
            node.shape[-2], self.width, dtype=node.dtype, start=start
        )
        y = node * self.scale if self.scale != 1.0 else node
        return F.dropout(y + table, self.dropout, self.training)

    def extra_repr(self) -> str:
        return f"{self.width}"


class LearnedPositions(Module):
    """x + a learned row for each place of x [..., length, width].

    There are `length` of them; with `clamp` later places share the last, as in Marian,
    else they are an error.

    >>> places = td.nn.LearnedPositions(16, 4)
    >>> places(td.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        length: int,
        width: int,
        *,
        clamp: bool = False,
        dropout: float = 0.0,
        dtype: Any = None,
    ) -> None:
        above_zero(length=length, width=width)
        self.length, self.width = length, width
        self.clamp, self.dropout = clamp, dropout
        drawn = init.normal(std=0.02)
        self.table = Embedding(length, width, weight_init=drawn, dtype=dtype)

    def forward(self, x: Any, start: int = 0) -> Tensor:
        node = _checked(x, self.width)
        places = np.arange(start, start + node.shape[-2])
        if places.size and places[-1] >= self.length and not self.clamp:
            raise ArgumentError(
                f"place {places[-1]} is behind the {self.length} that were learned",
                hint="cut the sequence, or let clamp=True share the last one",
            ).located("LearnedPositions", repr(node.type), node.line)
        y = node + self.table(np.minimum(places, self.length - 1))
        return F.dropout(y, self.dropout, self.training)

    def extra_repr(self) -> str:
        return f"{self.length}, {self.width}"


def _checked(x: Any, width: int) -> Tensor:
    node = as_tensor(x)
    if node.ndim < 2 or node.shape[-1] != width:
        raise ShapeError(f"places are added to [..., length, {width}], not {node.type}")
    return node
