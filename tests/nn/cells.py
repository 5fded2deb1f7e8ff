"""Recurrent cells by their formulas in NumPy: a row a cell, weights by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from treadle import nn

Array = np.ndarray[Any, Any]
W = dict[str, Array]
WIDE, HIDDEN = 3, 4


def sig(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def norm(x: Array, gain: Any = 1.0, bias: Any = 0.0) -> Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain + bias


def gates(w: W, x: Any, h: Any, count: int) -> list[Array]:
    y = x @ w["weight_ih"].T + h @ w["weight_hh"].T + w["bias_ih"] + w["bias_hh"]
    return np.split(y, count, -1)


def rnn(w: W, x: Any, h: Any) -> Any:
    return np.tanh(gates(w, x, h, 1)[0])


def relu_rnn(w: W, x: Any, h: Any) -> Any:
    return np.maximum(gates(w, x, h, 1)[0], 0.0)


def normed_rnn(w: W, x: Any, h: Any) -> Any:
    own = norm(x @ w["weight_ih"].T, w["norm_ih"]) + w["bias_ih"]
    return np.tanh(own + norm(h @ w["weight_hh"].T, w["norm_hh"]) + w["bias_hh"])


def lstm(w: W, x: Any, state: Any) -> Any:
    h, c = state
    i, f, g, o = gates(w, x, h, 4)
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o) * np.tanh(c), c


def normed_lstm(w: W, x: Any, state: Any) -> Any:
    h, c = state
    y = norm(x @ w["weight_ih"].T, w["norm_ih"]) + w["bias_ih"]
    y = y + norm(h @ w["weight_hh"].T, w["norm_hh"]) + w["bias_hh"]
    i, f, g, o = np.split(y, 4, -1)
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o) * np.tanh(norm(c, w["norm_c"], w["bias_c"])), c


def peephole(w: W, x: Any, state: Any) -> Any:
    h, c = state
    i, f, g, o = gates(w, x, h, 4)
    i, f = i + w["peephole_i"] * c, f + w["peephole_f"] * c
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o + w["peephole_o"] * c) * np.tanh(c), c


def coupled(w: W, x: Any, state: Any) -> Any:
    def peep(name: str, c: Any) -> Any:
        v = w.get(name, np.zeros(HIDDEN))
        return c @ v.T if v.ndim == 2 else c * v

    h, c = state
    i, g, o = gates(w, x, h, 3)
    let = sig(i + peep("peephole_i", c))
    c = (1 - let) * c + let * np.tanh(g)
    return sig(o + peep("peephole_o", c)) * np.tanh(c), c


def sparse(w: W, x: Any, state: Any) -> Any:
    pruned = {f"weight_{k}": w[f"weight_{k}"] * w[f"mask_{k}"] for k in ("ih", "hh")}
    return lstm({**w, **pruned}, x, state)


def gru(w: W, x: Any, h: Any) -> Any:
    own = np.split(x @ w["weight_ih"].T + w["bias_ih"], 3, -1)
    past = np.split(h @ w["weight_hh"].T + w["bias_hh"], 3, -1)
    r, z = sig(own[0] + past[0]), sig(own[1] + past[1])
    n = np.tanh(own[2] + r * past[2])
    return (1 - z) * n + z * h


def early_gru(w: W, x: Any, h: Any) -> Any:
    own = np.split(x @ w["weight_ih"].T + w["bias_ih"], 3, -1)
    u, b = np.split(w["weight_hh"], 3), np.split(w["bias_hh"], 3)
    r, z = (sig(own[k] + h @ u[k].T + b[k]) for k in range(2))
    n = np.tanh(own[2] + (r * h) @ u[2].T + b[2])
    return (1 - z) * n + z * h


def nematus(w: W, x: Any, h: Any) -> Any:
    own, past = x @ w["weight_ih"].T + w["bias_ih"], h @ w["weight_hh"].T
    if "norm_ih" in w:
        own, past = (
            np.concatenate(
                [
                    norm(y[..., k], w[f"norm_{tag}"][k], w[f"shift_{tag}"][k])
                    for k in (slice(None, 2 * HIDDEN), slice(2 * HIDDEN, None))
                ],
                -1,
            )
            for y, tag in ((own, "ih"), (past, "hh"))
        )
    own, past = np.split(own, 3, -1), np.split(past, 3, -1)
    r, z = sig(own[0] + past[0]), sig(own[1] + past[1])
    n = np.tanh(own[2] + r * past[2])
    return (1 - z) * n + z * h


def mixed(w: W, x: Any, h: Any) -> Any:
    own, past = x @ w["weight_mx"].T, h @ w["weight_mh"].T
    return (own + w["bias_mx"]) * (past + w["bias_mh"])


def mlstm(w: W, x: Any, state: Any) -> Any:
    return lstm(w, x, (mixed(w, x, state[0]), state[1]))


def mgru(w: W, x: Any, h: Any) -> Any:
    return gru(w, x, mixed(w, x, h))


def sru(w: W, x: Any, state: Any) -> Any:
    new, f, r, *way = np.split(
        x @ w["weight_ih"].T, len(w["weight_ih"]) // HIDDEN, axis=-1
    )
    if "norm_ih" in w:
        new, f, r = (
            norm(y, gain)
            for y, gain in zip((new, f, r), np.split(w["norm_ih"], 3), strict=True)
        )
    bf, br = np.split(w["bias_ih"], 2)
    f, r, past = sig(f + bf), sig(r + br), way[0] if way else x
    c = f * state[1] + (1 - f) * new
    return r * np.tanh(c) + (1 - r) * past, c


def ssru(w: W, x: Any, state: Any) -> Any:
    new, f = np.split(x @ w["weight_ih"].T, 2, -1)
    f = sig(f + w["bias_ih"])
    c = f * state[1] + (1 - f) * new
    return np.maximum(c, 0.0), c


def transition(w: W, x: Any, h: Any) -> Any:
    inner = [
        {k[8:]: v for k, v in w.items() if k.startswith(f"cells.{n}.")}
        for n in range(2)
    ]
    h = nematus(inner[0], x, h)
    bias = inner[1]["bias_ih"]
    zero = {**inner[1], "weight_ih": np.zeros((3 * HIDDEN, WIDE)), "bias_ih": bias}
    return nematus(zero, x, h)


@dataclass(frozen=True)
class Row:
    """A cell, and what it does to a state."""

    name: str
    make: Callable[..., Any]
    formula: Callable[[W, Any, Any], Any]
    settings: dict[str, Any]
    width: int = WIDE

    def cell(self, dtype: str = "float64") -> Any:
        """The cell with weights that are none of them special."""
        with td.options(seed=5):  # of some seeds every unit of a ReLU is off
            made = self.make(self.width, HIDDEN, dtype=dtype, **self.settings)
            initial = made.state_dict()
        rng = np.random.default_rng(5)
        drawn = {
            k: (rng.random(v.shape) < 0.6).astype(dtype)
            if k.startswith("mask")
            else v + rng.normal(size=v.shape) / 4
            for k, v in initial.items()
        }
        made.load_state_dict(drawn)
        return made

    def state(self, cell: Any, lead: tuple[int, ...], seed: int = 7) -> Any:
        rng = np.random.default_rng(seed)
        found = [rng.normal(size=(*lead, HIDDEN)) for _ in range(cell.states)]
        return tuple(found) if len(found) > 1 else found[0]


def deep(width: int, hidden: int, dtype: Any) -> Any:
    make = nn.NematusGRUCell
    cells = [make(width, hidden, dtype=dtype), make(0, hidden, dtype=dtype)]
    return nn.DeepTransitionCell(cells)


def rows() -> Iterator[Row]:
    def row(make: Any, formula: Any, width: int = WIDE, **settings: Any) -> Row:
        name = "-".join([make.__name__, *map(str, settings), str(width)])
        return Row(name, make, formula, settings, width)

    yield row(nn.RNNCell, rnn)
    yield row(nn.RNNCell, relu_rnn, nonlinearity="relu")
    yield row(nn.RNNCell, normed_rnn, layer_norm=True)
    yield row(nn.LSTMCell, lstm)
    yield row(nn.LSTMCell, lstm, forget_bias=1.0)
    yield row(nn.LSTMCell, normed_lstm, layer_norm=True)
    yield row(nn.PeepholeLSTMCell, peephole)
    yield row(nn.CoupledLSTMCell, coupled)
    yield row(nn.CoupledLSTMCell, coupled, peepholes="none")
    yield row(nn.FastLSTMCell, coupled)
    yield row(nn.SparseLSTMCell, sparse)
    yield row(nn.GRUCell, gru)
    yield row(nn.GRUCell, early_gru, reset_after=False)
    yield row(nn.NematusGRUCell, nematus)
    yield row(nn.NematusGRUCell, nematus, layer_norm=True)
    yield row(nn.MLSTMCell, mlstm)
    yield row(nn.MGRUCell, mgru)
    yield row(nn.SRUCell, sru)
    yield row(nn.SRUCell, sru, HIDDEN, layer_norm=True)
    yield row(nn.SSRUCell, ssru)
    yield row(deep, transition)


ROWS = list(rows())


def over(row: Row, w: W, xs: Any, state: Any) -> tuple[list[Any], Any]:
    """The formula over a sequence: outputs, and the last state."""
    outputs = []
    for x in xs:
        state = row.formula(w, x, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return outputs, state
