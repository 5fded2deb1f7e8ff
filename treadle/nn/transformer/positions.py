"""Places added to embeddings: sinusoids, or a table that is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Embedding, above_zero
from treadle.nn.module import Module
from treadle.ops.attention import sinusoidal_positions

__all__ = ["LearnedPositions", "SinusoidalPositions"]


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
