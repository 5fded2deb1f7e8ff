"""The element-wise part of recurrent cells, after the products with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ShapeError
from treadle.base.types import TupleType, Type
from treadle.graph.op import Array, leading, matched, op
from treadle.graph.operators import functions
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor
from treadle.ops.cast import operands
from treadle.ops.families import Composite, outputs_of, same_dtype

__all__ = ["gru_cell", "lstm_cell"]


def parts(x: Any, count: int) -> list[Any]:
    """Equal parts of the last dimension, of an array or a tensor."""
    n = x.shape[-1] // count
    return [x[..., k * n : (k + 1) * n] for k in range(count)]


def logistic(x: Array) -> Array:
    """The sigmoid of an array."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class Cell(Composite):
    """Gates, `count` of them side by side, beside a state of the width of one."""

    __slots__ = ()
    takes = "float"

    def fits(self, types: Sequence[Type], wide: Sequence[Type], count: int) -> Type:
        """The state after; gates that are not `count` times as wide are refused."""
        same_dtype(types)
        state = types[-1]
        wanted = (*state.shape[:-1], count * state.shape[-1]) if state.shape else ()
        for t in wide:
            if not state.shape or t.shape != wanted:
                raise ShapeError(
                    f"{count} gates of state {state} have shape {wanted}, not {t.shape}"
                )
        lead = leading(state.ndim - 1)
        named = [(t, (*lead, "gates")) for t in wide] + [(state, (*lead, "width"))]
        return state.with_shape(state.shape, matched(named, (*lead, "width")))

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*spread(has_rows, xs))


@op()
class LstmCell(Cell):
    """Gates i, f, g, o and state c: c' = f c + i g and h' = o tanh(c').

    i, f and o pass through the sigmoid, g through tanh (Hochreiter and Schmidhuber,
    1997; Gers et al., 2000). Results: h', c'.
    """

    arity = 2

    def infer(self, *types: Type) -> TupleType:
        state = self.fits(types, types[:1], 4)
        return TupleType((state, state))

    def numpy(self, gates: Any, c: Any) -> Any:
        i, f, g, o = parts(gates, 4)
        after = logistic(f) * c + logistic(i) * np.tanh(g)
        return logistic(o) * np.tanh(after), after

    def expand(self, gates: Tensor, c: Tensor) -> Any:
        i, f, g, o = parts(gates, 4)
        after = functions.sigmoid(f) * c + functions.sigmoid(i) * functions.tanh(g)
        return functions.sigmoid(o) * functions.tanh(after), after


def lstm_cell(gates: Any, c: Any) -> tuple[Tensor, Tensor]:
    """One LSTM step from pre-activations: gates i, f, g, o [..., 4h] and state c.

    Returns h' = o tanh(c') and c' = f c + i g, of the shape of c.

    >>> h, c = td.lstm_cell(td.zeros((1, 8)), td.ones((1, 2)))
    >>> c.tolist(), h.shape
    ([[0.5, 0.5]], (1, 2))
    """
    h, after = outputs_of(LstmCell()(*operands(gates, c)))
    return h, after


@op()
class GruCell(Cell):
    """Gates r, z, n of the input and of the state h: h' = (1 - z) n + z h.

    n = tanh(own + r past), with r and z the sigmoids of the sums (Cho et al., 2014).
    """

    arity = 3

    def infer(self, *types: Type) -> Type:
        return self.fits(types, types[:2], 3)

    def numpy(self, inputs: Any, past: Any, h: Any) -> Any:
        (a, b, c), (d, e, f) = parts(inputs, 3), parts(past, 3)
        n = np.tanh(c + logistic(a + d) * f)
        return n + logistic(b + e) * (h - n)

    def expand(self, inputs: Tensor, past: Tensor, h: Tensor) -> Any:
        (a, b, c), (d, e, f) = parts(inputs, 3), parts(past, 3)
        n = functions.tanh(c + functions.sigmoid(a + d) * f)
        return n + functions.sigmoid(b + e) * (h - n)


def gru_cell(inputs: Any, past: Any, h: Any) -> Tensor:
    """One GRU step from pre-activations r, z, n of input and state [..., 3h] each.

    Returns h' = (1 - z) n + z h, where n = tanh(inputs_n + r past_n).

    >>> td.gru_cell(td.zeros((1, 6)), td.zeros((1, 6)), td.ones((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    return GruCell()(*operands(inputs, past, h))
