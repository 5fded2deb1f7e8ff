"""RNN, LSTM and GRU with torch's arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from treadle.nn.recurrent.cell import Cell
from treadle.nn.recurrent.elman import RNNCell
from treadle.nn.recurrent.gru import GRUCell
from treadle.nn.recurrent.lstm import LSTMCell
from treadle.nn.recurrent.stack import Recurrent

__all__ = ["GRU", "LSTM", "RNN"]


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
        **settings: Any,
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
        **settings: Any,
    ) -> None:
        settings["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, *places, **settings)


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
