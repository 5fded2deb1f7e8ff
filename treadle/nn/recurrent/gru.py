"""Gated recurrent units: as torch and DyNet write them, and Nematus's."""

from __future__ import annotations

from typing import Any

from treadle.nn import functional as F
from treadle.nn.recurrent.cell import Gated, State, normed, shifted
from treadle.ops.contract import matmul_transposed
from treadle.ops.create import zeros
from treadle.ops.join import concat
from treadle.ops.recurrent import gru_cell

__all__ = ["GRUCell", "NematusGRUCell"]


class GRUCell(Gated):
    """Gates r, z, n stacked in the weights, as torch writes it.

    h' = (1 - z) n + z h with n = tanh(W x + b + r (U h + c)). With `reset_after` False
    n = tanh(W x + b + U (r h) + c), as Cho et al. 2014 and DyNet have it; theirs is
    1 - z, which is another sign of its weights.

    >>> td.nn.GRUCell(3, 4)(td.ones((2, 3))).shape
    (2, 4)
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        reset_after: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype, **settings)
        self.reset_after = reset_after

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        if self.reset_after:
            past = self.past(state, mask)
            projected = (
                zeros(past.shape, past.dtype) if projected is None else projected
            )
            return gru_cell(projected, past, state)
        seen, n = state if mask is None else state * mask, 2 * self.hidden_size
        weight = self.matrix("weight_hh")
        past = self._part(seen, weight, slice(None, n))
        if projected is not None:
            past = projected[..., :n] + past
        gates = F.sigmoid(past)
        r, z = gates[..., : self.hidden_size], gates[..., self.hidden_size :]
        new = self._part(r * seen, weight, slice(n, None))
        new = F.tanh(new if projected is None else projected[..., n:] + new)
        return new + z * (state - new)

    def _part(self, h: Any, weight: Any, rows: slice) -> Any:
        """Some rows of what `past` is."""
        gain, bias = self.norm_hh, self.bias_hh
        y = normed(
            matmul_transposed(h, weight[rows]), None if gain is None else gain[rows]
        )
        return shifted(y, None if bias is None else bias[rows])


class NematusGRUCell(Gated):
    """The GRU of Nematus and Marian: one bias, and none under the reset gate.

    r, z = sigmoid(W x + b + U h), n = tanh(W x + b + r (U h)), h' = (1 - z) n + z h.
    With `layer_norm`, W x + b and U h are normalized, the gates' part and n's each by
    itself, and scaled and shifted by norm_ and shift_ (Sennrich et al., Nematus, 2017).
    A cell without input (`input_size` 0) is a transition: b is added after U h.

    >>> cell = td.nn.NematusGRUCell(3, 4)
    >>> cell(td.ones((2, 3))).shape, cell.bias_hh
    ((2, 4), None)
    """

    gates = 3

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
        super().__init__(
            input_size, hidden_size, bias, dtype, layer_norm=layer_norm, **settings
        )
        rows = (3 * hidden_size,)
        self.bias_ih = self.drawn(rows) if bias else None
        del self.bias_hh
        self.bias_hh = None
        for name in ("ih", "hh"):
            shift = layer_norm and getattr(self, f"norm_{name}") is not None
            setattr(self, f"shift_{name}", self.filled(rows, 0.0) if shift else None)

    def _normed(self, y: Any, name: str) -> Any:
        """Both parts normalized, each by itself."""
        gain, shift = getattr(self, f"norm_{name}"), getattr(self, f"shift_{name}")
        if gain is None:
            return y
        n = 2 * self.hidden_size
        halves = slice(None, n), slice(n, None)
        return concat([normed(y[..., k], gain[k], shift[k]) for k in halves], -1)

    def project(self, x: Any) -> Any:
        if not self.input_size:
            return None
        y = shifted(matmul_transposed(x, self.matrix("weight_ih")), self.bias_ih)
        return self._normed(y, "ih")

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        seen = state if mask is None else state * mask
        past = self._normed(matmul_transposed(seen, self.matrix("weight_hh")), "hh")
        if projected is None:
            projected = shifted(zeros(past.shape, past.dtype), self.bias_ih)
        return gru_cell(projected, past, state)
