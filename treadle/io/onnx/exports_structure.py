"""Exporters of ops that move, join, pick, sum products and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.base.types import TupleType, broadcast_shapes
from treadle.graph.tensor import Tensor
from treadle.io.onnx.exports_activations import as_activation, as_divergence
from treadle.io.onnx.exports_elements import number, type_of
from treadle.io.onnx.exports_pools import sliding
from treadle.io.onnx.exports_recurrent import (
    as_batch_norm,
    as_instance_norm,
    as_layer,
    in_parts,
    with_channel_bias,
    with_norm_bias,
    with_norm_scale,
)
from treadle.io.onnx.exports_windows import (
    as_blocks,
    as_border,
    as_interpolation,
    as_nearest,
    as_repeats,
)
from treadle.io.onnx.file import CODES
from treadle.io.onnx.writer import LAST, Names, Writer, export, export_all
from treadle.ops.contract import letters

_MOST_STEPS = 4096


# -- shapes ------------------------------------------------------------------------


@export("Reshape")
def _reshape(w: Writer, node: Tensor, x: str) -> str:
    form = as_repeats(w, node) or as_blocks(w, node)
    if form is not None:
        return form
    zero = int(0 in node.type.shape)
    inner = node.inputs[0]
    forms = ("BroadcastTo", "PermuteDims")  # what an inner one may be another node of
    if inner.op.name == "Reshape" and inner.inputs[0].op.name not in forms:
        x = w.name_of(inner.inputs[0])
    return w.add("Reshape", x, w.integers(node.type.shape), allowzero=zero)


@export("PermuteDims")
def _permute(w: Writer, node: Tensor, x: str) -> str:
    order = node.op.order  # type: ignore[attr-defined]
    if not order:
        return w.add("Identity", x)
    return w.add("Transpose", x, perm=[k % len(order) for k in order])


def _cut(w: Writer, x: str, starts: Any, stops: Any, axes: Any, steps: Any) -> str:
    return w.add("Slice", x, *map(w.integers, (starts, stops, axes, steps)))


@export("Slice")
def _slice(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    if not op.starts:
        return w.add("Identity", x)
    part = _part(w, node, x)
    if part is not None:
        return part
    pairs = zip(op.stops, op.steps, strict=True)
    stops = [-(1 << 62) if b < 0 and step < 0 else b for b, step in pairs]
    return _cut(w, x, op.starts, stops, range(len(stops)), op.steps)


def _part(w: Writer, node: Tensor, x: str) -> str | None:
    """A slice as a result of a Split, where slices are all the parts along an axis."""
    shape, parts = type_of(node).shape, w.slices_of(node.inputs[0])
    cuts: dict[int, tuple[int, int]] = {}
    axes = set()
    for part in parts:
        op: Any = part.op
        if set(op.steps) != {1}:
            return None
        ends = list(zip(op.starts, op.stops, strict=True))
        axes |= {k for k, n in enumerate(shape) if ends[k] != (0, n)}
        if len(axes) != 1:
            return None
        cuts[part.serial] = ends[min(axes)]
    (axis,) = axes
    pieces = sorted(set(cuts.values()))
    edges = [0, *(b for _, b in pieces)]
    if pieces != [*pairwise(edges)] or edges[-1] != shape[axis]:
        return None
    sizes = [b - a for a, b in pieces]
    if 0 in sizes:
        return None
    results = w.several("Split", len(pieces), x, w.integers(sizes), axis=axis)
    for part in parts:
        w.name(part, results[pieces.index(cuts[part.serial])])
    return w.name_of(node)


@export("Flip")
def _flip(w: Writer, node: Tensor, x: str) -> str:
    axes = node.op.axes  # type: ignore[attr-defined]
    ones = [-1] * len(axes)
    return _cut(w, x, ones, [-(1 << 62)] * len(axes), axes, ones) if axes else x


@export("Roll")
def _roll(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    n = type_of(node).shape[op.axis]
    place = -op.shift % max(n, 1)
    tail = _cut(w, x, [place], [n], [op.axis], [1])
    return w.add("Concat", tail, _cut(w, x, [0], [place], [op.axis], [1]), axis=op.axis)


@export("Pad")
def _pad(w: Writer, node: Tensor, x: str, value: str) -> str:
    widths = node.op.widths  # type: ignore[attr-defined]
    if not widths:
        return w.add("Identity", x)
    pads = [a for a, _ in widths] + [b for _, b in widths]
    return w.add("Pad", x, w.integers(pads), value, mode="constant")


# -- positions ---------------------------------------------------------------------


def _wide(w: Writer, ids: str) -> str:
    return w.add("Cast", ids, to=CODES[np.dtype(np.int64)])


@export("Index")
def _index(w: Writer, node: Tensor, x: str, *ids: str) -> str:
    op: Any = node.op
    if op.axes == (op.place,):
        form = as_border(w, node) or as_nearest(w, node)
        return form or w.add("Gather", x, _wide(w, ids[0]), axis=op.place)
    t, shape = type_of(node), broadcast_shapes(*[i.type.shape for i in node.inputs[1:]])
    count, every = len(shape), w.integers(shape)
    rest = [k for k in range(t.ndim) if k not in op.axes]
    front = w.add("Transpose", x, perm=[*op.axes, *rest])
    last = w.integers([-1])
    whole = [w.add("Expand", _wide(w, i), every) for i in ids]
    places = [w.add("Unsqueeze", i, last) for i in whole]
    gathered = w.add("GatherND", front, w.add("Concat", *places, axis=-1))
    order = list(range(count, count + len(rest)))
    order[op.place : op.place] = range(count)
    return w.add("Transpose", gathered, perm=order) if order else gathered


@export("OneHot")
def _one_hot(w: Writer, node: Tensor, ids: str) -> str:
    op: Any = node.op
    labels = w.add("Unsqueeze", _wide(w, ids), w.integers([-1]))
    equal = w.add("Equal", labels, w.integers(range(op.count)))
    if op.dtype.kind == "b":
        return equal
    return w.add("Cast", equal, to=CODES[node.type.dtype])


@export("Unslice")
def _unslice(w: Writer, node: Tensor, x: str) -> str | None:
    op: Any = node.op
    if set(op.steps) - {1}:
        return None
    if not op.shape:
        return w.add("Identity", x)
    ends = [n - b for n, b in zip(op.shape, op.stops, strict=True)]
    return w.add("Pad", x, w.integers([*op.starts, *ends]), number(w, node, 0))


# -- products and windows ----------------------------------------------------------


@export("Contract")
def _contract(w: Writer, node: Tensor, x: str, y: str) -> str:
    spec = node.op.spec  # type: ignore[attr-defined]
    a, b, out = letters(spec)
    both, summed = [c for c in a if c in b and c in out], set(a) & set(b) - set(out)
    left, right = [c for c in a if c not in b], [c for c in b if c not in a]
    plain = len(both) + len(left) + len(right) == len(out) and len(summed) == 1
    if not plain or node.type.dtype.name not in _PRODUCTS:
        return w.add("Einsum", x, y, equation=spec)
    (s,) = summed
    if not both and len(left) == len(right) == 1:
        if out == left[0] + right[0]:
            return w.add("Gemm", x, y, transA=int(a[0] == s), transB=int(b[1] == s))
        return w.add("Gemm", y, x, transA=int(b[0] == s), transB=int(a[1] == s))
    if (both and not len(left) == len(right) == 1) or len(right) > 1:
        return w.add("Einsum", x, y, equation=spec)
    x = _in_order(w, x, a, [*both, *left, s])
    y = _in_order(w, y, b, [*both, s, *right])
    return _in_order(w, w.add("MatMul", x, y), [*both, *left, *right], out)


_PRODUCTS = {"float16", "bfloat16", "float32", "float64", "int32", "int64"}


def _in_order(w: Writer, x: str, axes: Sequence[str], order: Sequence[str]) -> str:
    """x with its axes in another order."""
    if list(axes) == list(order):
        return x
    return w.add("Transpose", x, perm=[list(axes).index(c) for c in order])


@export("Attention")
def _attention(w: Writer, node: Tensor, *xs: str) -> str | None:
    """Attention of heads; a query that the mask lets see no key takes nothing."""
    op: Any = node.op
    (q, k, v), scale = node.inputs[:3], node.inputs[3]
    shapes = [t.type.shape for t in (q, k, v)]
    plain = all(len(s) == 4 for s in shapes) and len({s[:2] for s in shapes}) == 1
    if not plain or scale.stored is None or scale.inputs:
        return None
    if op.causal and shapes[0][2] != shapes[1][2]:
        return None
    w.opset = LAST
    factor = float(np.asarray(scale.array))
    if len(xs) == 4:
        causal = {"is_causal": 1} if op.causal else {}
        return w.add("Attention", *xs[:3], scale=factor, **causal)
    scores, dtype = (shapes[0][2], shapes[1][2]), node.type.dtype
    if not scores[1]:
        return None
    mask, sees_all = xs[4], not op.causal and _sees_all(node.inputs[4])
    if op.causal:
        later = np.where(np.tri(*scores, dtype=bool), 0, -np.inf)
        mask = w.add("Add", mask, w.array(later, dtype))
    elif node.inputs[4].type.shape[-2:] != scores:  # ONNX Runtime repeats no row
        mask = w.add("Expand", mask, w.integers(scores))
    y = w.add("Attention", *xs[:3], mask, scale=factor)
    if sees_all:
        return y
    top = w.add("ReduceMax", mask, w.integers([-1]), keepdims=1)
    sees = w.add("Greater", top, w.array(-np.inf, dtype))
    return w.add("Where", sees, y, w.array(0, dtype))


def _sees_all(mask: Tensor) -> bool:
    """Return True if a mask is known, and each query sees a key."""
    parts = mask.inputs if mask.op.name == "Select" else (mask,)
    known = [np.asarray(x.array) for x in parts if x.stored is not None]
    if len(known) < len(parts) or any(x.inputs for x in parts):
        return False
    array = np.where(known[0], *known[1:]) if len(known) == 3 else known[0]
    return bool((np.atleast_1d(array).max(-1) > -np.inf).all())


@export("Add")
def _add(w: Writer, node: Tensor, x: str, y: str) -> str:
    """A sum, or the node of what it ends: a product with a bias, a normalization."""
    known = (
        as_batch_norm(w, node)
        or as_instance_norm(w, node)
        or with_channel_bias(w, node, x)
        or with_norm_bias(w, node)
        or as_interpolation(w, node)
    )
    if known is not None:
        return known
    for product, bias, (p, t) in (
        (x, y, node.inputs),
        (y, x, node.inputs[::-1]),
    ):
        fits = p.op.name == "Contract" and w.used_once(p)
        if fits and p.type.shape == node.type.shape and t.type.dtype.kind == "f":
            whole = w.with_bias(product, bias, "Gemm")
            if whole is not None:
                return whole
    return w.add("Add", x, y)


@export("Multiply")
def _multiply(w: Writer, node: Tensor, x: str, y: str) -> str:
    return (
        as_activation(w, node)
        or as_divergence(w, node)
        or as_batch_norm(w, node)
        or with_norm_scale(w, node)
        or w.add("Mul", x, y)
    )


export_all(
    {
        name: lambda w, node, *xs, kind=kind: (
            as_activation(w, node) or as_divergence(w, node) or w.add(kind, *xs)
        )
        for name, kind in (("Select", "Where"), ("Minimum", "Min"))
    }
)


# -- loops -------------------------------------------------------------------------


@export("Scan")
def _scan(w: Writer, node: Tensor, *xs: str) -> Names | None:
    """A loop as one node; what its body reads from outside it sees by name."""
    op: Any = node.op
    if op.draws:
        return None
    layer = as_layer(w, node, xs)
    if layer is not None:
        return layer
    parts = in_parts(node)
    if parts is not None:
        outputs = w.body(parts, xs)
        return tuple(outputs) if isinstance(node.type, TupleType) else outputs[0]
    c, s = op.carries, op.carries + op.scanned
    if not op.scanned or not op.length:
        return _unrolled(w, node, xs) if op.length <= _MOST_STEPS else None
    body = w.graph(op.body, node.op.name.lower(), xs[s:], s)
    ways = int(op.reverse)
    outputs = len(op.body.outputs) - c
    return w.several(
        "Scan",
        len(op.body.outputs),
        *xs[:s],
        body=body,
        num_scan_inputs=op.scanned,
        scan_input_directions=[ways] * op.scanned,
        **({"scan_output_directions": [ways] * outputs} if outputs else {}),
    )


def _unrolled(w: Writer, node: Tensor, xs: Sequence[str]) -> Names:
    """A loop without rows, which ONNX's Scan is not, step by step."""
    op: Any = node.op
    c, s = op.carries, op.carries + op.scanned
    carry = list(xs[:c])
    stacks: list[list[str]] = [[] for _ in range(len(op.body.outputs) - c)]
    first = w.integers([0])
    for _ in range(op.length):
        results = w.body(op.body, [*carry, *xs[s:]])
        carry = results[:c]
        for stack, y in zip(stacks, results[c:], strict=True):
            stack.append(w.add("Unsqueeze", y, first))
    if not op.length:
        types: Any = node.type
        empty = [w.array(np.zeros(t.shape, t.dtype)) for t in types[c:]]
        return (*[w.add("Identity", x) for x in carry], *empty)
    if op.reverse:
        stacks = [stack[::-1] for stack in stacks]
    return (*carry, *[w.add("Concat", *stack, axis=0) for stack in stacks])


export_all(
    {
        "BroadcastTo": lambda w, node, x: w.add(
            "Expand", x, w.integers(node.type.shape)
        ),
        "Concat": lambda w, node, *xs: w.add("Concat", *xs, axis=node.op.axis),
        "Conv": lambda w, node, x, weight: w.add(
            "Conv", x, weight, group=node.op.groups, **sliding(node.op)
        ),
        "Embedding": lambda w, node, table, ids: w.add(
            "Gather", table, _wide(w, ids), axis=0
        ),
        "PutAlong": lambda w, node, x, ids: w.add(
            "ScatterElements",
            w.add("Expand", number(w, node, 0), w.integers(node.type.shape)),
            _wide(w, ids),
            x,
            axis=node.op.axis,
            reduction="add",
        ),
        "TakeAlong": lambda w, node, x, ids: w.add(
            "GatherElements", x, _wide(w, ids), axis=node.op.axis
        ),
    }
)
