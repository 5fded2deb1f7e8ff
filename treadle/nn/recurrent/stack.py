"""Layers of recurrent cells of any kind over sequences, and torch's RNN, LSTM, GRU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

from treadle.base.errors import ArgumentError
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn import functional as F
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.nn.recurrent.batch import Batch, batch_of
from treadle.nn.recurrent.cell import Cell, State, checked, first
from treadle.nn.recurrent.gru import GRUCell, RNNCell
from treadle.nn.recurrent.lstm import LSTMCell
from treadle.nn.recurrent.sequence import (
    concatenated,
    joined,
    named_state,
    one_by_one,
    parted,
    plain_state,
)
from treadle.nn.recurrent.stacked import StackedCells
from treadle.nn.recurrent.state import RecurrentState
from treadle.ops.create import ones
from treadle.ops.join import stack
from treadle.ops.naming import named_like, unname

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Recurrent",
]


class LayerSettings(TypedDict, total=False):
    """The further keywords of recurrent layers: those of Recurrent and of its cells."""

    variational: float | tuple[float, float]
    skip: bool
    layer_norm: bool
    weight_noise: float
    forget_bias: float
    reset_after: bool


class PlacedSettings(LayerSettings, total=False):
    """And those that may also be given by their places."""

    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    dtype: Any


class Recurrent(Module):
    """Layers of any cell over sequences: `(outputs, last states)` of an input.

    The input is a tensor (time, batch, width), (batch, time, width) if `batch_first`,
    or (time, width); with `lengths`, a whole number for each sequence of a batch, what
    lies behind them is padding: it is not read, outputs there are 0, last states are
    those at each sequence's end, and the reverse direction starts there. Or a list of
    sequences (time, width) of any lengths, 0 too: then the outputs are such a list.
    Last states are (layers directions, batch, hidden), in a tuple if there are several.

    `cell` is a class, or what makes a Cell of an input and a hidden size; it gets the
    further `settings`. Between layers `dropout` drops elements at every step;
    `variational` drops the same elements of the layers' inputs and of the outputs they
    see again at every step of a sequence, at one rate or at two (Gal and Ghahramani, A
    theoretically grounded application of dropout in recurrent neural networks, 2016).
    With `skip` every layer also sees the input, and the outputs of all are joined
    (Graves, Generating sequences with recurrent neural networks, 2013; DyNet's
    DeepLSTM). A layer's parameters are the cell's, with _l0, _l0_reverse, ... behind.

    >>> layer = td.nn.Recurrent(td.nn.SRUCell, 3, 4, num_layers=2, bidirectional=True)
    >>> outputs, (h, c) = layer([td.ones((5, 3)), td.ones((2, 3))])
    >>> [y.shape for y in outputs], h.shape
    ([(5, 8), (2, 8)], (4, 2, 4))
    """

    def __init__(
        self,
        cell: Callable[..., Cell],
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        variational: float | tuple[float, float] = 0.0,
        skip: bool = False,
        **settings: Any,
    ) -> None:
        above_zero(input_size=input_size, hidden_size=hidden_size, layers=num_layers)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.batch_first = num_layers, batch_first
        self.bidirectional, self.skip, self.dropout = bidirectional, skip, dropout
        pair = variational if isinstance(variational, tuple) else (variational,) * 2
        self.variational = pair
        for p in (dropout, *pair):
            if not 0.0 <= p <= 1.0:
                raise ArgumentError(f"a probability is from 0 to 1, got {p}")
        self.directions = ("", "_reverse") if bidirectional else ("",)
        self._layers = StackedCells()
        for layer in range(num_layers):
            below = hidden_size * len(self.directions) if layer else 0
            width = below + input_size if skip or not layer else below
            for direction in self.directions:
                self._take(cell(width, hidden_size, **settings), layer, direction)

    # -- cells ---------------------------------------------------------------------

    def _take(self, cell: Cell, layer: int, direction: str) -> None:
        """Register a cell's parameters here, under torch's names."""
        if not isinstance(cell, Cell):
            raise ArgumentError(
                f"{type(cell).__name__} is no Cell",
                hint="a cell is a class that defines project and step: see td.nn.Cell",
            )
        tag = f"_l{layer}{direction}"
        named = cell._attributes()
        names = [name for name, v in named if isinstance(v, (Variable, Module))]
        for name in names:
            value = getattr(cell, name)
            if isinstance(value, Module):
                value._path = ""
            else:
                self._named[name + tag] = value.name
            setattr(self, name + tag, value)
        self._layers.cells.append(cell)
        self._layers.names.append([(name, name + tag) for name in names])

    @property
    def cells(self) -> list[Cell]:
        """The cells, layer by layer, forward before reverse."""
        for cell, names in zip(self._layers.cells, self._layers.names, strict=True):
            if cell.training is not self.training:
                cell.training = self.training
            for inner, outer in names:
                value = getattr(self, outer)
                if cell.__dict__[inner] is not value:
                    setattr(cell, inner, value)
        return list(self._layers.cells)

    # -- a sequence at once --------------------------------------------------------

    def forward(
        self, x: Any, state: State = None, lengths: Any = None
    ) -> tuple[Any, State]:
        """(outputs of the last layer, last states of every layer and direction).

        Outputs have the axis names of the input, and so have states but for the time,
        behind the axis of layers, which has none.
        """
        if isinstance(x, Operand) and x.axes is not None:
            time = 1 if self.batch_first and x.ndim == 3 else 0
            axes = None, *x.axes[:time], *x.axes[time + 1 :]
            outputs, lasts = self.forward(unname(x), plain_state(state, axes), lengths)
            return named_like(outputs, x.axes), named_state(lasts, axes)
        cost = 4 * self.hidden_size**2
        batch = batch_of(x, lengths, self.input_size, self.batch_first, cost)
        if batch is not None:
            return self._over_time(batch, state)
        outputs, lasts = self._steps(list(checked(x, self.input_size)), state)
        return stack(outputs), joined(lasts)

    def transduce(self, xs: Iterable[Any], state: State = None) -> list[Tensor]:
        """The output for each of a list of inputs; each step of a layer is one node.

        >>> layer = td.nn.GRU(3, 4, bidirectional=True)
        >>> [y.shape for y in layer.transduce([td.ones(3), td.zeros(3)])]
        [(8,), (8,)]
        """
        steps = [checked(x, self.input_size) for x in xs]
        return self._steps(steps, state)[0] if steps else []

    def _steps(self, steps: list[Tensor], state: State) -> tuple[list[Any], list[Any]]:
        """Outputs and last states of inputs one by one, each a call of a cell: nodes
        that are batched with those of other sequences.
        """
        starts = parted(state, len(self.directions) * self.num_layers)
        lead, cells, inputs = steps[0].shape[:-1], self.cells, steps
        lasts: list[Any] = []
        tops: list[list[Any]] = []
        for layer in range(self.num_layers):
            below = self._below(steps, inputs, layer)
            outputs_by_direction = []
            for direction in self.directions:
                k = len(lasts)
                first_mask, mask = self._masks(cells[k], lead, steps[0].dtype)
                masked = (
                    below if first_mask is None else [x * first_mask for x in below]
                )
                outputs, last = one_by_one(
                    self._layers.call(k),
                    masked,
                    starts[k],
                    mask,
                    bool(direction),
                )
                outputs_by_direction.append(outputs)
                lasts.append(last)
            steps = [
                concatenated(both) for both in zip(*outputs_by_direction, strict=True)
            ]
            tops.append(steps)
        if self.skip:
            steps = [concatenated(every) for every in zip(*tops, strict=True)]
        return steps, lasts

    def _below(self, steps: list[Any], inputs: list[Any], layer: int) -> list[Any]:
        """A layer's input: the layer below after dropout, and the input if it skips."""
        if not layer:
            return steps
        if self.dropout:
            steps = [F.dropout(h, self.dropout, self.training) for h in steps]
        if self.skip:
            steps = [concatenated(pair) for pair in zip(steps, inputs, strict=True)]
        return steps

    def _masks(self, cell: Cell, lead: Any, dtype: Any) -> tuple[Any, Any]:
        """The dropout masks of a cell's inputs and outputs for a whole sequence."""
        widths = (cell.input_size, cell.hidden_size)
        return tuple(  # type: ignore[return-value]
            F.dropout(ones((*lead, width), dtype), p) if p and self.training else None
            for p, width in zip(self.variational, widths, strict=True)
        )

    # -- batches, in a loop over time ----------------------------------------------

    def _over_time(self, batch: Batch, state: State) -> tuple[Any, State]:
        starts = parted(state, len(self.directions) * self.num_layers)
        cells, rows = self.cells, batch.rows
        lasts: list[Any] = []
        tops: list[Tensor] = []
        for layer in range(self.num_layers):
            (below,) = self._below([rows], [batch.rows], layer)
            outputs = []
            for direction in self.directions:
                k = len(lasts)
                masks = self._masks(cells[k], (batch.count,), rows.dtype)
                looped = self._layers.looped(k)
                output, last = batch.run(
                    looped, below, starts[k], masks, bool(direction)
                )
                outputs.append(output)
                lasts.append(last)
            rows = concatenated(outputs)
            tops.append(rows)
        return batch.result(concatenated(tops) if self.skip else rows), joined(lasts)

    # -- step by step --------------------------------------------------------------

    def initial_state(self, state: State = None) -> RecurrentState:
        """A state to add inputs to one at a time; zeros unless one is given.

        >>> state = td.nn.RNN(3, 4).initial_state()
        >>> for x in td.ones((2, 3)):
        ...     state = state.add_input(x)
        >>> state.output().shape
        (4,)
        """
        if self.bidirectional:
            raise ArgumentError(
                "the reverse direction starts at the end of a sequence",
                hint="call the layer, or transduce, with the whole of it",
            )
        starts = None if state is None else parted(state, self.num_layers)
        return RecurrentState(self, starts)

    def advance(
        self, x: Tensor, states: Sequence[State] | None, masks: dict[int, Any]
    ) -> tuple[list[State], Tensor]:
        """The layers' states, and the output, after one input; `masks` are kept."""
        after: list[State] = []
        y = x
        for k, cell in enumerate(self.cells):
            if k not in masks:
                masks[k] = self._masks(cell, x.shape[:-1], x.dtype)
            first_mask, mask = masks[k]
            (y,) = self._below([y], [x], k)
            y = y if first_mask is None else y * first_mask
            before = None if states is None else states[k]
            after.append(self._layers.call(k)(y, before, mask))
            y = first(after[-1])
        return after, self.output_of(after)

    def output_of(self, states: Sequence[State]) -> Tensor:
        """The output that goes with the layers' states."""
        tops = [first(state) for state in states]
        return concatenated(tops) if self.skip else tops[-1]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if type(self) is Recurrent:
            text = f"{type(self._layers.cells[0]).__name__}, {text}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        for name in ("batch_first", "dropout", "bidirectional", "skip"):
            if value := getattr(self, name):
                text += f", {name}={value}"
        if any(self.variational):
            text += f", variational={self.variational}"
        return text


class _Torch(Recurrent):
    """A network of one kind of cell; its arguments stand where torch has them."""

    kind: ClassVar[type[Cell]]

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
        **settings: Unpack[LayerSettings],
    ) -> None:
        super().__init__(
            self.kind,
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            dtype=dtype,
            **settings,
        )


class RNN(_Torch):
    """Elman's network: h' = tanh(W x + b + U h + c) over a sequence. Elman 1990.

    Further settings are those of `Recurrent` and `RNNCell`.

    >>> output, last = td.nn.RNN(3, 4, bidirectional=True)(td.ones((5, 2, 3)))
    >>> output.shape, last.shape
    ((5, 2, 8), (2, 2, 4))
    """

    kind = RNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *places: Any,
        **settings: Unpack[PlacedSettings],
    ) -> None:
        given: dict[str, Any] = {**settings, "nonlinearity": nonlinearity}
        super().__init__(input_size, hidden_size, num_layers, *places, **given)


class LSTM(_Torch):
    """Long short-term memory over a sequence. Hochreiter and Schmidhuber 1997.

    Further settings are those of `Recurrent` and `LSTMCell`.

    >>> output, (h, c) = td.nn.LSTM(3, 4, 2, batch_first=True)(td.ones((2, 5, 3)))
    >>> output.shape, h.shape, c.shape
    ((2, 5, 4), (2, 2, 4), (2, 2, 4))
    """

    kind = LSTMCell


class GRU(_Torch):
    """Gated recurrent units over a sequence, as torch writes them. Cho et al. 2014.

    Further settings are those of `Recurrent` and `GRUCell`.

    >>> output, last = td.nn.GRU(3, 4)(td.ones((5, 2, 3)))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    kind = GRUCell
