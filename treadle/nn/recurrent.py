"""Recurrent networks: cells for one step, and stacks over a sequence."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.ops.contract import matmul
from treadle.ops.create import zeros
from treadle.ops.join import concat, stack
from treadle.ops.recurrent import gru_cell, lstm_cell

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell"]

Weights = tuple[Any, Any, Any, Any]


def _rnn(x: Any, state: Any, weights: Weights, nonlinearity: str) -> Any:
    """h' = f(W x + b + U h + c)."""
    total = _affine(x, weights[0], weights[2]) + _affine(state, weights[1], weights[3])
    return F.tanh(total) if nonlinearity == "tanh" else F.relu(total)


def _lstm(x: Any, state: Any, weights: Weights) -> Any:
    """Gates i, f, g, o; c' = f c + i g; h' = o tanh(c')."""
    h, c = state
    total = _affine(x, weights[0], weights[2]) + _affine(h, weights[1], weights[3])
    return lstm_cell(total, c)


def _gru(x: Any, state: Any, weights: Weights) -> Any:
    """Gates r, z, n; n = tanh(Wx + b + r (Uh + c)); h' = (1 - z) n + z h. Cho 2014."""
    own = _affine(x, weights[0], weights[2])
    return gru_cell(own, _affine(state, weights[1], weights[3]), state)


def _affine(x: Any, weight: Any, bias: Any) -> Tensor:
    y = matmul(x, weight.T)
    return y if bias is None else y + bias


def _parts(x: Tensor, count: int) -> list[Tensor]:
    width = x.shape[-1] // count
    return [x[..., k * width : (k + 1) * width] for k in range(count)]


class _Recurrent(Module):
    """What cells and stacks share: gates, weights and their first values."""

    gates: ClassVar[int] = 1
    pair: ClassVar[bool] = False  # whether the state is (h, c)
    nonlinearity: str = "tanh"
    hidden_size: int

    def _make(
        self, name: str, width: int, count: int, bias: bool, dtype: Any
    ) -> Parameter | None:
        """A weight (gates hidden, width), or a bias if width is 0; as torch's."""
        if not width and not bias:
            return None
        limit = 1.0 / math.sqrt(self.hidden_size)
        shape = (count, width) if width else (count,)
        drawn = init.uniform(low=-limit, high=limit)
        return param(shape=shape, init=drawn, dtype=dtype)

    def _weights(self, tag: str, width: int, bias: bool, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        extents = (("weight_ih", width), ("weight_hh", self.hidden_size))
        for name, n in (*extents, ("bias_ih", 0), ("bias_hh", 0)):
            setattr(self, name + tag, self._make(name, n, rows, bias, dtype))

    def _named_weights(self, tag: str) -> Weights:
        return (
            getattr(self, f"weight_ih{tag}"),
            getattr(self, f"weight_hh{tag}"),
            getattr(self, f"bias_ih{tag}"),
            getattr(self, f"bias_hh{tag}"),
        )

    def _advance(self, x: Any, state: Any, weights: Weights) -> Any:
        """The next state from an input and a state."""
        return _rnn(x, state, weights, self.nonlinearity)


class _Cell(_Recurrent):
    """One step: cell(x, state) gives the next state; no state is zeros."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None
    ) -> None:
        above_zero(input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self._weights("", input_size, bias, dtype)

    def forward(self, x: Any, state: Any = None) -> Any:
        node = as_tensor(x)
        if state is None:
            empty = zeros((*node.shape[:-1], self.hidden_size), node.dtype)
            state = (empty, empty) if self.pair else empty
        return self._advance(node, state, self._named_weights(""))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """h' = tanh(W x + b + U h + c), or relu in tanh's place.

    >>> import treadle as td
    >>> td.nn.RNNCell(3, 4)(td.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype)
        self.nonlinearity = _checked(nonlinearity)


class LSTMCell(_Cell):
    """Gates i, f, g, o stacked in the weights; (h, c) to the next (h, c).

    >>> import treadle as td
    >>> h, c = td.nn.LSTMCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates, pair = 4, True

    def _advance(self, x: Any, state: Any, weights: Weights) -> Any:
        return _lstm(x, state, weights)


class GRUCell(_Cell):
    """Gates r, z, n stacked in the weights, as torch writes it.

    >>> import treadle as td
    >>> td.nn.GRUCell(3, 4)(td.ones((2, 3))).shape
    (2, 4)
    """

    gates = 3

    def _advance(self, x: Any, state: Any, weights: Weights) -> Any:
        return _gru(x, state, weights)


def _checked(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f'nonlinearity is "tanh" or "relu", not {nonlinearity!r}')
    return nonlinearity


class _Stack(_Recurrent):
    """Layers over a sequence (time, batch, width), or (batch, time, width)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        above_zero(input_size=input_size, hidden_size=hidden_size, layers=num_layers)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.batch_first = num_layers, batch_first
        self.dropout, self.bidirectional = dropout, bidirectional
        self.directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = hidden_size * len(self.directions) if layer else input_size
            for direction in self.directions:
                self._weights(f"_l{layer}{direction}", width, bias, dtype)

    def forward(self, x: Any, state: Any = None) -> tuple[Tensor, Any]:
        """(outputs of the last layer, last states of every layer and direction)."""
        node = as_tensor(x)
        if node.ndim not in (2, 3):
            raise ShapeError(f"a sequence is (time, batch, width), got {node.type}")
        batched = node.ndim == 3
        axis = 1 if self.batch_first and batched else 0
        steps = [node[:, t] if axis else node[t] for t in range(node.shape[axis])]
        if not steps:
            raise ShapeError("a sequence has at least one step")
        starts = self._starts(state, steps[0])
        lasts: list[Any] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                steps = [F.dropout(h, self.dropout, self.training) for h in steps]
            found = []
            for k, direction in enumerate(self.directions):
                weights = self._named_weights(f"_l{layer}{direction}")
                start = starts[layer * len(self.directions) + k]
                outputs, last = self._run(steps, start, weights, bool(direction))
                found.append(outputs)
                lasts.append(last)
            steps = [
                concat(list(both), -1) if len(both) > 1 else both[0]
                for both in zip(*found, strict=True)
            ]
        output = stack(steps, axis)
        if self.pair:
            return output, (stack([h for h, _ in lasts]), stack([c for _, c in lasts]))
        return output, stack(lasts)

    def _run(
        self, steps: list[Tensor], state: Any, weights: Weights, backwards: bool
    ) -> tuple[list[Tensor], Any]:
        outputs = []
        for x in reversed(steps) if backwards else steps:
            state = self._advance(x, state, weights)
            outputs.append(state[0] if self.pair else state)
        return (outputs[::-1] if backwards else outputs), state

    def _starts(self, state: Any, first: Tensor) -> list[Any]:
        count = self.num_layers * len(self.directions)
        if state is None:
            empty = zeros((*first.shape[:-1], self.hidden_size), first.dtype)
            return [(empty, empty) if self.pair else empty] * count
        if self.pair:
            h, c = (s if isinstance(s, Operand) else as_tensor(s) for s in state)
            return [(h[k], c[k]) for k in range(count)]
        whole = as_tensor(state)
        return [whole[k] for k in range(count)]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.batch_first:
            text += ", batch_first=True"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(_Stack):
    """Elman's network: h' = tanh(W x + b + U h + c) over a sequence. Elman 1990.

    >>> import treadle as td
    >>> output, last = td.nn.RNN(3, 4, bidirectional=True)(td.ones((5, 2, 3)))
    >>> output.shape, last.shape
    ((5, 2, 8), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        **settings: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, **settings)
        self.nonlinearity = _checked(nonlinearity)


class LSTM(_Stack):
    """Long short-term memory over a sequence. Hochreiter and Schmidhuber 1997.

    >>> import treadle as td
    >>> output, (h, c) = td.nn.LSTM(3, 4, 2, batch_first=True)(td.ones((2, 5, 3)))
    >>> output.shape, h.shape, c.shape
    ((2, 5, 4), (2, 2, 4), (2, 2, 4))
    """

    gates, pair = 4, True

    def _advance(self, x: Any, state: Any, weights: Weights) -> Any:
        return _lstm(x, state, weights)


class GRU(_Stack):
    """Gated recurrent units over a sequence, as torch writes them. Cho et al. 2014.

    >>> import treadle as td
    >>> output, last = td.nn.GRU(3, 4)(td.ones((5, 2, 3)))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 3

    def _advance(self, x: Any, state: Any, weights: Weights) -> Any:
        return _gru(x, state, weights)
