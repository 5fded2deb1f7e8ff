"""Replacements of a decoder's self-attention: averages, and recurrent cells."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.container import ModuleList
from treadle.nn.linear import Linear, above_zero
from treadle.nn.module import Module
from treadle.nn.recurrent.cell import Cell
from treadle.nn.recurrent.gru import SSRUCell
from treadle.nn.recurrent.sequence import one_by_one
from treadle.ops.create import zeros
from treadle.ops.join import stack
from treadle.ops.scan import cumulative_sum

__all__ = ["AverageAttention", "RecurrentMixer"]

ACTIVATIONS: dict[str, Callable[[Any], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "silu": F.silu,
    "swish": F.silu,
    "tanh": F.tanh,
}


def activation_of(name: Any) -> Callable[[Any], Tensor]:
    """An activation by name, or a function; an error tells which names there are."""
    if callable(name):
        return name
    activation = ACTIVATIONS.get(name)
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        raise ArgumentError(f"no activation {name!r} here", hint=f"one of {known}")
    return activation


class AverageAttention(Module):
    """The mean of all places so far, a feed-forward part of it, and gates.

    a_t = mean(x_1 .. x_t); y = FFN(a); i = sigmoid(W x + b), f = sigmoid(U y + c);
    the result is i x + f y, or y without `gate`. `depth` layers of width `dim` make up
    the FFN. Zhang, Xiong and Su, Accelerating neural transformer via an average
    attention network, 2018, with the gates as Marian has them. In Marian what is done
    before a sublayer is done to the averages: `prepare`.

    >>> average = td.nn.AverageAttention(4, 8)
    >>> average(td.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        width: int,
        dim: int = 2048,
        depth: int = 2,
        activation: str = "relu",
        gate: bool = True,
        dropout: float = 0.0,
        dtype: Any = None,
    ) -> None:
        above_zero(width=width, dim=dim, depth=depth)
        self.width, self.activation, self.dropout = width, activation, dropout
        activation_of(activation)
        sizes = [width, *[dim] * (depth - 1), width]
        settings = {"weight_init": init.glorot_uniform, "bias_init": init.zeros}

        def linear(below: int, above: int) -> Linear:
            return Linear(below, above, dtype=dtype, **settings)

        self.layers = ModuleList(linear(a, b) for a, b in pairwise(sizes))
        self.input_gate = linear(width, width) if gate else None
        self.forget_gate = linear(width, width) if gate else None

    def forward(
        self, x: Any, prepare: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        node = as_tensor(x)
        count = np.arange(1, node.shape[-2] + 1)[:, None].astype(node.dtype)
        return self._mixed(node, cumulative_sum(node, -2) / count, prepare)

    def start(self, rows: int, dtype: Any = None) -> dict[str, Any]:
        """The state before the first place of `rows` sequences."""
        dtype = self.layers[0].weight.dtype if dtype is None else dtype
        return {"place": 0, "sum": zeros((rows, 1, self.width), dtype)}

    def step(
        self,
        x: Any,
        state: dict[str, Any],
        prepare: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The next places [rows, new, width] after those so far."""
        node = as_tensor(x)
        place, new = state["place"], node.shape[-2]
        total = cumulative_sum(node, -2) + state["sum"]
        count = np.arange(place + 1, place + new + 1)[:, None].astype(node.dtype)
        y = self._mixed(node, total / as_tensor(count), prepare)
        return y, {"place": place + new, "sum": total[:, new - 1 :]}

    def _mixed(
        self, x: Tensor, mean: Tensor, prepare: Callable[[Tensor], Tensor] | None
    ) -> Tensor:
        y: Any = mean if prepare is None else prepare(mean)
        for layer in self.layers[:-1]:
            y = activation_of(self.activation)(layer(y))
            y = F.dropout(y, self.dropout, self.training)
        y = self.layers[-1](y)
        if self.input_gate is None or self.forget_gate is None:
            return y
        i, f = F.sigmoid(self.input_gate(x)), F.sigmoid(self.forget_gate(y))
        return i * x + f * y

    def extra_repr(self) -> str:
        return f"{self.width}, activation={self.activation!r}"


class RecurrentMixer(Module):
    """A recurrent cell over the places, SSRU's unless another is given.

    With `projection` a linear layer follows (Marian's transformer-rnn-projection).
    Kim et al., From research to production and back: ludicrously fast neural machine
    translation, 2019.

    >>> mixer = td.nn.RecurrentMixer(4)
    >>> mixer(td.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        width: int,
        cell: Callable[..., Cell] = SSRUCell,
        projection: bool = False,
        dtype: Any = None,
        **settings: Any,
    ) -> None:
        above_zero(width=width)
        self.width = width
        self.cell = cell(width, width, dtype=dtype, **settings)
        self.out_proj = Linear(width, width, dtype=dtype) if projection else None

    def forward(self, x: Any) -> Tensor:
        return self.step(x, {"cell": None})[0]

    def start(self, rows: int, dtype: Any = None) -> dict[str, Any]:
        """The state before the first place of `rows` sequences."""
        dtype = next(iter(self.cell.parameters())).dtype if dtype is None else dtype
        return {"cell": self.cell.initial_state((rows,), dtype)}

    def step(self, x: Any, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The next places [rows, new, width] after those so far."""
        node, after = as_tensor(x), state["cell"]
        steps = [node[:, t] for t in range(node.shape[1])]
        outputs, after = one_by_one(self.cell.advance, steps, after)
        y: Tensor = stack(outputs, 1)
        return y if self.out_proj is None else self.out_proj(y), {"cell": after}
