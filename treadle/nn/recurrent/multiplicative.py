"""Multiplicative cells, in which the input chooses the transition."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.nn.recurrent.cell import Gated, State, normed, shifted
from treadle.nn.recurrent.gru import GRUCell
from treadle.nn.recurrent.lstm import LSTMCell
from treadle.ops.contract import matmul_transposed

__all__ = ["MGRUCell", "MLSTMCell"]


class _Multiplicative(Gated):
    """m = (W_m x + b) (U_m h + c), which the gates see in h's place."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        layer_norm: bool = False,
        **settings: Any,
    ) -> None:
        if not input_size:
            raise ArgumentError("a multiplicative cell takes an input")
        super().__init__(
            input_size, hidden_size, bias, dtype, layer_norm=layer_norm, **settings
        )
        n = hidden_size
        self.weight_mx = self.drawn((n, input_size))
        self.weight_mh = self.drawn((n, n))
        self.bias_mx = self.drawn((n,)) if bias else None
        self.bias_mh = self.drawn((n,)) if bias else None
        self.norm_mx = self.filled((n,), 1.0) if layer_norm else None
        self.norm_mh = self.filled((n,), 1.0) if layer_norm else None

    def project(self, x: Any) -> Any:
        y = matmul_transposed(x, self.matrix("weight_mx"))
        return super().project(x), shifted(normed(y, self.norm_mx), self.bias_mx)

    def mixed(self, factor: Any, h: Any) -> Any:
        """The multiplicative state m = (W_mx x) * (W_mh h) that the gates read."""
        y = matmul_transposed(h, self.matrix("weight_mh"))
        return factor * shifted(normed(y, self.norm_mh), self.bias_mh)


class MLSTMCell(_Multiplicative, LSTMCell):
    """An LSTM whose gates see m = (W_m x + b) (U_m h + c) in the place of h.

    Krause, Lu, Murray and Renals, Multiplicative LSTM for sequence modelling, 2016.

    >>> h, c = td.nn.MLSTMCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        gates, factor = projected
        h, c = state
        return super().step(gates, (self.mixed(factor, h), c), mask)


class MGRUCell(_Multiplicative, GRUCell):
    """A GRU whose gates see m = (W_m x + b) (U_m h + c) in the place of h.

    As in Marian, m is also what is carried over: h' = (1 - z) n + z m.

    >>> td.nn.MGRUCell(3, 4)(td.ones((2, 3))).shape
    (2, 4)
    """

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        gates, factor = projected
        return super().step(gates, self.mixed(factor, state), mask)
