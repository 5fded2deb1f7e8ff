"""Cells whose gates see the input alone, so that steps are element by element."""

from __future__ import annotations

from typing import Any, ClassVar

from treadle.nn import functional as F
from treadle.nn.recurrent.cell import Gated, State, normed, shifted
from treadle.ops.contract import matmul_transposed
from treadle.ops.recurrent import parts

__all__ = ["SRUCell", "SSRUCell"]


class _Simple(Gated):
    """Maps of the input side by side: the candidate, gates, and a way past them."""

    gates: ClassVar[int] = 2
    states = 2
    wide = False  # whether an input of another width gets a map of its own

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        layer_norm: bool = False,
        weight_noise: float = 0.0,
    ) -> None:
        super().__init__(
            input_size, hidden_size, False, dtype, weight_noise=weight_noise
        )
        del self.weight_hh
        self.weight_hh = None
        n, gates = hidden_size, self.gates
        self.mapped = self.wide and input_size != hidden_size
        rows = n * (gates + self.mapped)
        self.weight_ih = self.drawn((rows, input_size))
        self.bias_ih = self.filled(((gates - 1) * n,), 0.0) if bias else None
        self.norm_ih = self.filled((gates * n,), 1.0) if layer_norm else None

    def project(self, x: Any) -> Any:
        n, y = self.hidden_size, matmul_transposed(x, self.matrix("weight_ih"))
        pieces = parts(y, self.gates + self.mapped)
        for k in range(self.gates):
            gain: Any = self.norm_ih
            bias: Any = self.bias_ih if k else None
            if gain is not None:
                gain = gain[k * n : (k + 1) * n]
            if bias is not None:
                bias = bias[(k - 1) * n : k * n]
            pieces[k] = shifted(normed(pieces[k], gain), bias)
        return tuple(pieces)


class SRUCell(_Simple):
    """f, r = sigmoid(W x + b); c' = f c + (1 - f) W x; h' = r tanh(c') + (1 - r) x.

    The weights hold W of the candidate, of f and of r; where input and state differ in
    width, a fourth makes x fit. Lei et al., Simple recurrent units for highly
    parallelizable recurrence, 2018, as Marian writes it.

    >>> h, c = td.nn.SRUCell(4, 4)(td.ones((2, 4)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates, wide = 3, True

    def project(self, x: Any) -> Any:
        pieces = super().project(x)
        return pieces if self.mapped else (*pieces, x)

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        new, f, r, x = projected
        c = new + F.sigmoid(f) * (state[1] - new)
        return x + F.sigmoid(r) * (F.tanh(c) - x), c


class SSRUCell(_Simple):
    """f = sigmoid(W x + b); c' = f c + (1 - f) W x; h' = relu(c').

    The weights hold W of the candidate and of f. Kim et al., From research to
    production and back: ludicrously fast neural machine translation, 2019.

    >>> h, c = td.nn.SSRUCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        new, f = projected
        c = new + F.sigmoid(f) * (state[1] - new)
        return F.relu(c), c
