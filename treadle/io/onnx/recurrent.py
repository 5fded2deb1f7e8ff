"""Importers of recurrent layers: LSTM, GRU and RNN as scans over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.table import OnnxNode, row

Activation = Callable[[Tensor], Tensor]
_STEPS = (
    "activation_alpha activation_beta activations clip direction hidden_size layout"
)
# Activations with the defaults of alpha and beta; None where they take none.
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], float | None, float | None]] = {
    "Affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "Elu": (lambda x, a, b: td.elu(x, a), 1.0, None),
    "HardSigmoid": (lambda x, a, b: td.clip(x * a + b, 0.0, 1.0), 0.2, 0.5),
    "LeakyRelu": (lambda x, a, b: td.leaky_relu(x, a), 0.01, None),
    "Relu": (lambda x, a, b: td.relu(x), None, None),
    "ScaledTanh": (lambda x, a, b: td.tanh(x * b) * a, 1.0, 1.0),
    "Sigmoid": (lambda x, a, b: td.sigmoid(x), None, None),
    "Softplus": (lambda x, a, b: td.softplus(x), None, None),
    "Softsign": (lambda x, a, b: td.softsign(x), None, None),
    "Tanh": (lambda x, a, b: td.tanh(x), None, None),
    "ThresholdedRelu": (lambda x, a, b: td.thresholded_relu(x, a), 1.0, None),
}


def _activations(node: OnnxNode, default: Sequence[str], ways: int) -> list[list[Any]]:
    """The activations of each direction, with their constants and the clip."""
    names = node.get("activations", ()) or tuple(default) * ways
    if len(names) != len(default) * ways:
        raise ValueError(f"{len(names)} activations of {ways} directions")
    rest = {key: list(node.get(f"activation_{key}", ())) for key in ("alpha", "beta")}
    clip = node.get("clip")
    functions = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise ValueError(f"activation {name[:30]!r}")
        function, *defaults = _ACTIVATIONS[name]
        constants = [
            d if d is None or not rest[key] else rest[key].pop(0)
            for key, d in zip(rest, defaults, strict=True)
        ]
        functions.append(_activation(function, constants, clip))
    if any(rest.values()):
        raise ValueError("constants of activations that take none")
    size = len(default)
    return [functions[k * size : (k + 1) * size] for k in range(ways)]


def _activation(
    function: Callable[..., Tensor], constants: list[float | None], clip: float | None
) -> Activation:
    def apply(x: Tensor) -> Tensor:
        if clip is not None:
            x = td.clip(x, -clip, clip)
        return function(x, *[None if c is None else number(x, c) for c in constants])

    return apply


@dataclass(frozen=True)
class Direction:
    """One direction of a layer: what a step reads beside its input and state."""

    past: Tensor  # the transposed weights of the state
    bias: Tensor
    activations: list[Activation]
    peepholes: list[Tensor]


# The new state of an input, already multiplied by its weights, and the old state.
Step = Callable[[Direction, Tensor, list[Tensor]], list[Tensor]]


@row("LSTM", reads=f"{_STEPS} input_forget")
def _lstm(node: OnnxNode, *xs: Any) -> Any:
    coupled = bool(node.get("input_forget", 0))
    names = tuple(node.get("activations", ())) or ("Sigmoid", "Tanh", "Tanh")
    standard = set(names[::3]) == {"Sigmoid"} and {*names[1::3], *names[2::3]} == {
        "Tanh"
    }
    plain = standard and not coupled and node.get("clip") is None

    def step(d: Direction, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        h, c = state
        i, o, f, g = td.split(x + td.matmul(h, d.past) + d.bias, 4, -1)
        if plain and not d.peepholes:
            gates = td.concat([i, f, g, o], -1)  # as Treadle's cell has them
            return list(td.lstm_cell(gates, c))
        gate, inner, outer = d.activations
        if d.peepholes:
            i, f = i + d.peepholes[0] * c, f + d.peepholes[2] * c
        i = gate(i)
        f = number(i, 1) - i if coupled else gate(f)
        new = f * c + i * inner(g)
        o = gate(o + d.peepholes[1] * new if d.peepholes else o)
        return [o * outer(new), new]

    return _recurrent(node, xs, 4, 2, ("Sigmoid", "Tanh", "Tanh"), step)


@row("GRU", reads=f"{_STEPS} linear_before_reset")
def _gru(node: OnnxNode, *xs: Any) -> Any:
    after = node.get("linear_before_reset", 0)

    def step(d: Direction, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        (h,) = state
        gate, inner = d.activations
        first, second = td.split(d.bias, 2, -1)
        a, b = (
            td.split(x + first, 3, -1),
            td.split(td.matmul(h, d.past) + second, 3, -1),
        )
        z, r = gate(a[0] + b[0]), gate(a[1] + b[1])
        hidden = r * b[2]
        if not after:
            hidden = (td.matmul(r * h, d.past) + second)[..., 2 * h.type.shape[-1] :]
        n = inner(a[2] + hidden)
        return [n + z * (h - n)]

    return _recurrent(node, xs, 3, 1, ("Sigmoid", "Tanh"), step)


@row("RNN", reads=_STEPS)
def _rnn(node: OnnxNode, *xs: Any) -> Any:
    def step(d: Direction, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [d.activations[0](x + td.matmul(state[0], d.past) + d.bias)]

    return _recurrent(node, xs, 1, 1, ("Tanh",), step)


def _recurrent(
    node: OnnxNode,
    operands: Sequence[Any],
    gates: int,
    states: int,
    default: Sequence[str],
    step: Step,
) -> Any:
    """The sequences and last states of the directions of a recurrent layer."""
    padded: tuple[Any, ...] = (*operands, *[None] * (8 - len(operands)))
    x, w, r, b, lengths, *rest = padded
    initial, peepholes = rest[:states], rest[2] if states == 2 else None
    way = node.get("direction", "forward")
    known = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if way not in known or w.type.ndim != 3 or len(known[way]) != w.type.shape[0]:
        raise ValueError(f"direction {way[:20]!r} with weights {w.type}")
    width, ways = r.type.shape[2], known[way]
    if node.get("hidden_size", width) != width:
        raise ValueError(f"hidden_size is not {width}, which the weights have")
    batched = node.get("layout", 0)
    if batched:
        x = td.swapaxes(x, 0, 1)
        initial = [v if v is None else td.swapaxes(v, 0, 1) for v in initial]
    if b is None:
        b = td.full((len(ways), 2 * gates * width), number(x, 0.0))
    functions = _activations(node, default, len(ways))
    rows, lasts = [], []
    for k, back in enumerate(ways):
        bias, half = b[k], gates * width
        if node.kind != "GRU":
            bias = bias[:half] + bias[half:]
        holes = [] if peepholes is None else list(td.split(peepholes[k], 3, -1))
        direction = Direction(td.matrix_transpose(r[k]), bias, functions[k], holes)
        start = [
            td.full((x.type.shape[1], width), number(x, 0.0)) if v is None else v[k]
            for v in initial
        ]
        projected = td.matmul(x, td.matrix_transpose(w[k]))
        last, ys = _over_time(direction, projected, start, lengths, back, step)
        rows.append(ys)
        lasts.append(last)
    y = td.stack(rows, 2 if batched else 1)
    if batched:
        y = td.moveaxis(y, 0, 1)
    axis = 1 if batched else 0
    ends = [td.stack([last[j] for last in lasts], axis) for j in range(states)]
    return (y, *ends)[: max(len(node.outputs), 1)]


def _over_time(
    direction: Direction,
    projected: Tensor,
    start: list[Tensor],
    lengths: Any,
    back: bool,
    step: Step,
) -> tuple[Any, Tensor]:
    """The last states and the outputs of a direction; rows end at their lengths."""
    steps = td.asarray(np.arange(projected.type.shape[0]))

    def run(state: Any, row_: Any) -> Any:
        x, t = row_
        new = step(direction, x, list(state))
        if lengths is None:
            return tuple(new), new[0]
        goes = td.expand_dims(t < td.astype(lengths, td.int64), -1)
        kept = [td.where(goes, a, b) for a, b in zip(new, state, strict=True)]
        return tuple(kept), td.where(goes, new[0], number(new[0], 0))

    if projected.type.shape[0] == 1:  # as in a stream: weights are read as they lie
        ends, y = run(tuple(start), (projected[0], steps[0]))
        return ends, td.expand_dims(y, 0)
    last, ys = td.scan(run, tuple(start), (projected, steps), reverse=back)
    return last, ys
