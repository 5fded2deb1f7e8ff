"""Long short-term memory and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.frame import explicit_updates
from treadle.graph.scope import param
from treadle.graph.variable import Parameter, Variable
from treadle.nn import functional as F
from treadle.nn.recurrent.cell import Gated, State, normed, total
from treadle.ops.contract import matmul_transposed
from treadle.ops.recurrent import lstm_cell
from treadle.runtime.evaluate import run

__all__ = [
    "CoupledLSTMCell",
    "FastLSTMCell",
    "LSTMCell",
    "PeepholeLSTMCell",
    "SparseLSTMCell",
    "sparsify",
]


class LSTMCell(Gated):
    """Gates i, f, g, o stacked in the weights; (h, c) to the next (h, c).

    c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'). Hochreiter and
    Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000. `forget_bias` is added to the
    first bias of f (Jozefowicz et al. 2015; DyNet takes 1). With `layer_norm` also the
    c' in tanh(c') is normalized, by norm_c and bias_c.

    >>> h, c = td.nn.LSTMCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates, states = 4, 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        forget_bias: float = 0.0,
        layer_norm: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(
            input_size, hidden_size, bias, dtype, layer_norm=layer_norm, **settings
        )
        if forget_bias:
            self.bias_hh = self._lifted(self.bias_hh, forget_bias)
        self.norm_c = self.filled((hidden_size,), 1.0) if layer_norm else None
        self.bias_c = self.filled((hidden_size,), 0.0) if layer_norm else None

    def _lifted(self, bias: Any, amount: float) -> Parameter:
        """A bias with more for f, the second of the gates."""
        if bias is None:
            raise ArgumentError("forget_bias is the first value of a bias: bias=True")
        array, n = bias.numpy().copy(), self.hidden_size
        array[n : 2 * n] += amount
        return param(init=array, dtype=array.dtype)

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        h, c = state
        gates = total(projected, self.past(h, mask))
        if self.norm_c is None:
            return lstm_cell(gates, c)
        i, f, g, o = self.split(gates)
        after = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        shown = normed(after, self.norm_c, self.bias_c)
        return F.sigmoid(o) * F.tanh(shown), after


class PeepholeLSTMCell(Gated):
    """An LSTM whose gates see the memory: p c is added to i and f, p c' to o.

    The p are vectors peephole_i, peephole_f, peephole_o, zero at first, multiplied
    element by element. Gers, Schraudolph and Schmidhuber, Learning precise timing with
    LSTM recurrent networks, 2002.

    >>> h, c = td.nn.PeepholeLSTMCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates, states = 4, 2

    def add_weights(self) -> None:
        n = (self.hidden_size,)
        self.peephole_i, self.peephole_f = self.filled(n, 0.0), self.filled(n, 0.0)
        self.peephole_o = self.filled(n, 0.0)

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        h, c = state
        i, f, g, o = self.split(total(projected, self.past(h, mask)))
        kept = F.sigmoid(f + self.peephole_f * c) * c
        after = kept + F.sigmoid(i + self.peephole_i * c) * F.tanh(g)
        return F.sigmoid(o + self.peephole_o * after) * F.tanh(after), after


class CoupledLSTMCell(Gated):
    """An LSTM that forgets what it lets in: gates i, g, o and f = 1 - i.

    i = sigmoid(W x + U h + V c + b), c' = (1 - i) c + i tanh(g), o = sigmoid(W x + U h
    + V c' + b), h' = o tanh(c'). `peepholes` says what the V are: "full" matrices
    peephole_i and peephole_o, as DyNet's CoupledLSTM has, "diagonal" vectors, or "none"
    (Greff et al., LSTM: a search space odyssey, 2015).

    >>> h, c = td.nn.CoupledLSTMCell(3, 4)(td.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates, states = 3, 2
    kind = "full"  # of peepholes, where none is given

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        peepholes: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype, **settings)
        peepholes = self.kind if peepholes is None else peepholes
        if peepholes not in ("full", "diagonal", "none"):
            raise ArgumentError(
                f'peepholes are "full", "diagonal" or "none", not {peepholes!r}'
            )
        self.peepholes = peepholes
        if peepholes != "none":
            full = peepholes == "full"
            shape = (hidden_size,) * (2 if full else 1)
            self.peephole_i, self.peephole_o = self.drawn(shape), self.drawn(shape)

    def _peep(self, name: str, c: Any) -> Any:
        if self.peepholes == "none":
            return 0.0
        if self.peepholes == "full":
            return matmul_transposed(c, self.matrix(name))
        return c * getattr(self, name)

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        h, c = state
        i, g, o = self.split(total(projected, self.past(h, mask)))
        let = F.sigmoid(i + self._peep("peephole_i", c))
        after = c + let * (F.tanh(g) - c)
        out = F.sigmoid(o + self._peep("peephole_o", after))
        return out * F.tanh(after), after


class FastLSTMCell(CoupledLSTMCell):
    """A coupled LSTM with diagonal peepholes: DyNet's FastLSTM as it is documented.

    >>> td.nn.FastLSTMCell(3, 4).peephole_i.shape
    (4,)
    """

    kind = "diagonal"


class SparseLSTMCell(LSTMCell):
    """An LSTM with pruned matrices: weights times masks of 0 and 1.

    `set_sparsity` masks the given fraction of the weights, those of least magnitude;
    training goes on with the others. Narang et al., Exploring sparsity in recurrent
    neural networks, 2017; DyNet's SparseLSTM.

    >>> cell = td.nn.SparseLSTMCell(2, 2)
    >>> cell.set_sparsity(0.75)
    >>> float(cell.mask_ih.sum() + cell.mask_hh.sum())
    8.0
    """

    def add_weights(self) -> None:
        for name in ("ih", "hh"):
            weight: Any = getattr(self, f"weight_{name}")
            if weight is not None:
                setattr(self, f"mask_{name}", Variable(np.ones_like(weight.numpy())))

    def matrix(self, name: str) -> Any:
        return super().matrix(name) * getattr(self, f"mask_{name[7:]}")

    def set_sparsity(self, fraction: float) -> None:
        """Mask this fraction of the weights; 0 brings all of them back."""
        sparsify([self], fraction)


def sparsify(cells: Sequence[SparseLSTMCell], fraction: float) -> None:
    """Mask the fraction of the weights of several cells that is least in magnitude.

    >>> stack = td.nn.Recurrent(td.nn.SparseLSTMCell, 2, 2, num_layers=2)
    >>> td.nn.sparsify(stack.cells, 0.5)
    >>> sum(float(cell.mask_hh.sum() + cell.mask_ih.sum()) for cell in stack.cells)
    32.0
    """
    if not 0.0 <= fraction <= 1.0:
        raise ArgumentError(f"a fraction is from 0 to 1, got {fraction}")
    pairs: list[tuple[Any, Any]] = [
        (getattr(cell, f"weight_{name}"), getattr(cell, f"mask_{name}"))
        for cell in cells
        for name in ("ih", "hh")
        if getattr(cell, f"weight_{name}") is not None
    ]
    sizes = [w.type.size for w, _ in pairs]
    flat = np.concatenate([np.abs(w.numpy()).reshape(-1) for w, _ in pairs])
    kept = np.ones(flat.size, flat.dtype)
    count = int(fraction * flat.size)
    kept[np.argsort(flat, kind="stable")[:count]] = 0
    starts = np.cumsum([0, *sizes])
    with explicit_updates():
        updates = [
            mask.assign(kept[start : start + n].reshape(mask.shape))
            for (_, mask), start, n in zip(pairs, starts, sizes, strict=False)
        ]
    run(updates)
