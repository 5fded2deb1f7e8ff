"""Cells with one state and gates, or none: torch's, DyNet's, Nematus's, SRU."""

from __future__ import annotations

from typing import Any, ClassVar

from treadle.base.errors import ArgumentError
from treadle.nn import functional as F
from treadle.nn.recurrent.cell import Gated, State, normed, shifted, total
from treadle.ops.contract import matmul_transposed
from treadle.ops.create import zeros
from treadle.ops.join import concat
from treadle.ops.recurrent import gru_cell, parts

__all__ = [
    "GRUCell",
    "NematusGRUCell",
    "RNNCell",
    "SRUCell",
    "SSRUCell",
]


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
