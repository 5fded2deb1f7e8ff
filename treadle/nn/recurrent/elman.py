"""The simple recurrent cell."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.nn import functional as F
from treadle.nn.recurrent.cell import Gated, State, total

__all__ = ["RNNCell"]


class RNNCell(Gated):
    """h' = tanh(W x + b + U h + c), or relu in tanh's place.

    Elman, Finding structure in time, 1990; with relu Le, Jaitly and Hinton 2015.

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
        **settings: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype, **settings)
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                f'nonlinearity is "tanh" or "relu", not {nonlinearity!r}'
            )
        self.nonlinearity = nonlinearity

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        y = total(projected, self.past(state, mask))
        return F.tanh(y) if self.nonlinearity == "tanh" else F.relu(y)
