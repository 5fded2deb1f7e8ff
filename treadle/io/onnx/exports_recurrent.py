"""Exporters of several ops as one node: recurrent layers, normalization, biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.graph.body import Body
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.io.onnx.writer import Names, Writer
from treadle.ops.call import without_calls
from treadle.ops.families import outputs_of
from treadle.rewrite.fission import split_loops

# The order in which ONNX has Treadle's gates: i f g o as i o f g, r z n as z r n.
_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
_PLAIN = {"Tanh": "Tanh", "Relu": "Relu"}  # the activations of an RNN


@dataclass(frozen=True)
class Affine:
    """x w^T + b of a graph, or x w + b where the weight is `turned`."""

    x: Tensor
    w: Tensor
    b: Tensor
    turned: bool


# Affine maps of one step's rows and of those of all steps; the second of each is what
# rules make of the first.
_STEP = {"ij,kj->ik": False, "ij,jk->ik": True}
_STEPS = {"Aij,kj->Aik": False, "aij,jk->aik": True}


def _affine(node: Tensor, specs: Mapping[str, bool]) -> Affine | None:
    """The parts of an affine map, if a node is one over rows of one of these forms."""
    if node.op.name != "Add":
        return None
    for product, b in (node.inputs, node.inputs[::-1]):
        op: Any = product.op
        if op.name == "Contract" and op.spec in specs and b.type.ndim == 1:
            x, w = product.inputs
            return Affine(x, w, b, specs[op.spec])
    return None


def _place(node: Tensor) -> int:
    """The position of an argument of a body, -1 for any other node."""
    op: Any = node.op
    return op.position if isinstance(op, Argument) else -1


def _cell(op: Any) -> tuple[str, Affine] | None:
    """The kind of layer that a scan's body is a step of, and its map of the state."""
    body = without_calls(op.body)
    outputs, c = body.outputs, op.carries
    if op.scanned != 1 or op.draws or len(outputs) != c + 1 or c not in (1, 2):
        return None
    if outputs[0] is not outputs[c]:
        return None
    past: Tensor | None = None
    if c == 1 and outputs[0].op.name == "GruCell":
        projected, past, h = outputs[0].inputs
        kind, fits = "GRU", (_place(projected), _place(h)) == (1, 0)
    elif c == 2 and all(y.op.name == "Output" for y in outputs):
        cell = outputs[0].inputs[0]
        places = [getattr(y.op, "position", -1) for y in outputs]
        if cell.op.name != "LstmCell" or places != [0, 1, 0]:
            return None
        gates, state = cell.inputs
        if outputs[1].inputs[0] is not cell or gates.op.name != "Add":
            return None
        projected, past = sorted(gates.inputs, key=lambda x: _place(x) != 2)
        kind, fits = "LSTM", (_place(projected), _place(state)) == (2, 1)
    elif c == 1 and outputs[0].op.name in _PLAIN:
        (total,) = outputs[0].inputs
        if total.op.name != "Add":
            return None
        projected, past = sorted(total.inputs, key=lambda x: _place(x) != 1)
        kind, fits = "RNN", _place(projected) == 1
    else:
        return None
    affine = _affine(past, _STEP)
    if affine is None or not fits or _place(affine.x) != 0:
        return None
    inside = min(_place(affine.w), _place(affine.b)) <= c
    return None if inside else (kind, affine)


def _settings(kind: str, op: Any) -> dict[str, Any]:
    """The attributes that only one kind of layer has."""
    if kind == "RNN":
        return {"activations": [_PLAIN[without_calls(op.body).outputs[0].op.name]]}
    return {"linear_before_reset": 1} if kind == "GRU" else {}


def as_layer(w: Writer, node: Tensor, xs: Sequence[str]) -> Names | None:
    """The layer's node for a scan over an affine map of a sequence; None if it is none.

    What was written of the map remains for others to read, or is dropped at the end.
    """
    op: Any = node.op
    cell = _cell(op)
    if cell is None:
        return None
    kind, past = cell
    c = op.carries
    projected = _affine(node.inputs[c], _STEPS)
    if projected is None or projected.x.type.ndim != 3:
        return None
    bias = xs[_place(past.b)]
    width = node.inputs[0].type.shape[-1]
    order = [k * width + i for k in _ORDERS[kind] for i in range(width)]
    ids, first = w.integers(order), w.integers([0])

    def ordered(name: str, turned: bool = False) -> str:
        rows = w.add("Transpose", name, perm=[1, 0]) if turned else name
        return w.add("Gather", rows, ids, axis=0)

    def led(name: str) -> str:
        return w.add("Unsqueeze", name, first)

    both = w.add("Concat", ordered(w.name_of(projected.b)), ordered(bias), axis=0)
    y, *last = w.several(
        kind,
        1 + c,
        w.name_of(projected.x),
        led(ordered(w.name_of(projected.w), projected.turned)),
        led(ordered(xs[_place(past.w)], past.turned)),
        led(both),
        "",
        *map(led, xs[:c]),
        hidden_size=width,
        direction="reverse" if op.reverse else "forward",
        **_settings(kind, op),
    )
    ends = [w.add("Squeeze", state, first) for state in last]
    return (*ends, w.add("Squeeze", y, w.integers([1])))


def in_parts(node: Tensor) -> Body | None:
    """A scan with the products that need no state before or after it; None without."""
    types = [x.type for x in node.inputs]
    arguments = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
    scan = Tensor(node.op, tuple(arguments), node.type)
    roots = outputs_of(scan)
    whole = Body("scan", arguments, roots)
    parts = split_loops({y.serial: y for y in roots}, whole.nodes, lambda _: False)
    body = Body("scan", arguments, tuple(parts[y.serial] for y in roots))
    return body if any(n.op.name == "Contract" for n in body.nodes) else None


def _line(node: Tensor, ndim: int) -> Tensor | None:
    """The vector that a node is with one element for each channel of [n, c, ...]."""
    if node.op.name != "Reshape" or node.inputs[0].type.ndim != 1:
        return None
    (vector,) = node.inputs
    shape = node.type.shape
    lined = (1, *vector.type.shape, *[1] * (ndim - 2))
    return vector if ndim >= 2 and shape in (lined, lined[1:]) else None


def _parts(node: Tensor, name: str, ndim: int) -> tuple[Tensor, Tensor] | None:
    """The operands of an op of this name whose second one is a line of channels."""
    if node.op.name != name:
        return None
    x, y = node.inputs
    line = _line(y, ndim)
    return None if line is None or x.type.shape != node.type.shape else (x, line)


def _scaled_and_shifted(node: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """The x, scale and bias of x * scale + bias by channels; None of anything else."""
    shifted = _parts(node, "Add", node.type.ndim)
    scaled = shifted and _parts(shifted[0], "Multiply", node.type.ndim)
    return (*scaled, shifted[1]) if shifted and scaled else None


def as_batch_norm(w: Writer, node: Tensor) -> str | None:
    """(x - mean) rsqrt(var + eps) as one node, with a scale and bias or without."""
    ndim, parts = node.type.ndim, _scaled_and_shifted(node)
    unit = parts[0] if parts else node
    if unit.op.name == "Reshape" and parts:
        return _as_group_norm(w, unit, parts[1:])
    if unit.op.name != "Multiply":
        return None
    centered, spread = unit.inputs
    middle = _parts(centered, "Subtract", ndim)
    if middle is None or spread.op.name != "Rsqrt":
        return None
    total = spread.inputs[0]
    if total.op.name != "Add":
        return None
    variance, small = _line(total.inputs[0], ndim), total.inputs[1]
    if variance is None or small.stored is None or small.type.shape:
        return None
    x, mean = middle
    if x.type.dtype != node.type.dtype or x.type.dtype.kind != "f":
        return None
    plain = [w.array(np.full(mean.type.shape, v, x.type.dtype)) for v in (1, 0)]
    ends = [w.name_of(v) for v in parts[1:]] if parts else plain
    names = [w.name_of(x), *ends, w.name_of(mean), w.name_of(variance)]
    return w.add("BatchNormalization", *names, epsilon=float(np.asarray(small.array)))


def _as_group_norm(w: Writer, unit: Tensor, ends: tuple[Tensor, Tensor]) -> str | None:
    """Scale and bias of channels that were normalized in groups, as one node."""
    if unit.inputs[0].op.name != "Standardize" or unit.type.dtype.name != "float32":
        return None
    plain = [w.array(np.full(ends[0].type.shape, v, np.float32)) for v in (0, 1)]
    names = [w.name_of(v) for v in (unit, *ends)]
    return w.add("BatchNormalization", *names, *plain, epsilon=0.0)


def with_channel_bias(w: Writer, node: Tensor, product: str) -> str | None:
    """A convolution with its bias, None if the sum is not that."""
    parts = _parts(node, "Add", node.type.ndim)
    if parts is None or parts[0].op.name not in ("Conv", "ConvInputGradient"):
        return None
    if not w.used_once(parts[0]):
        return None
    op: Any = parts[0].op
    kind = "Conv" if op.name == "Conv" else "ConvTranspose"
    return w.with_bias(product, w.name_of(parts[1]), kind)


def as_instance_norm(w: Writer, node: Tensor) -> str | None:
    """Channels normalized apart, with scale and bias, None if it is not that."""
    ndim, parts = node.type.ndim, _scaled_and_shifted(node)
    if parts is None or parts[0].op.name != "Standardize":
        return None
    op: Any = parts[0].op
    x, small = parts[0].inputs
    if ndim < 3 or {*op.axes} != {*range(2, ndim)} or node.type.dtype.name != "float32":
        return None
    if small.stored is None or small.inputs:
        return None
    names = [w.name_of(v) for v in (x, *parts[1:])]
    epsilon = float(np.asarray(small.array))
    return w.add("InstanceNormalization", *names, epsilon=epsilon)


def _normalized(node: Tensor) -> tuple[int, ...]:
    """The extents that a node of normalized values has along the axes of it."""
    op: Any = node.op
    return node.type.shape[min(a % node.type.ndim for a in op.axes) :]


def with_norm_scale(w: Writer, node: Tensor) -> str | None:
    """A layer normalization with the scale that its values are multiplied by."""
    for x, scale in (node.inputs, node.inputs[::-1]):
        is_norm = x.op.name == "Standardize" and w.used_once(x)
        if is_norm and scale.type.shape == _normalized(x):
            values, small = x.inputs
            return w.replaced(
                w.name_of(x),
                ("LayerNormalization", "InstanceNormalization"),
                "LayerNormalization",
                w.name_of(values),
                w.name_of(scale),
                axis=x.type.ndim - scale.type.ndim,
                epsilon=float(np.asarray(small.array)),
            )
    return None


def with_norm_bias(w: Writer, node: Tensor) -> str | None:
    """A layer normalization with scale, and the bias that is added to its values."""
    for scaled, bias in (node.inputs, node.inputs[::-1]):
        for x in scaled.inputs if scaled.op.name == "Multiply" else ():
            is_norm = x.op.name == "Standardize" and w.used_once(scaled)
            if is_norm and bias.type.shape == _normalized(x):
                name = w.name_of(scaled)
                return w.with_bias(name, w.name_of(bias), "LayerNormalization")
    return None
