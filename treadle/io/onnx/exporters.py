"""The table of exporters: what of ONNX an op of Treadle is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.types import broadcast_shapes
from treadle.graph.tensor import Tensor
from treadle.io.onnx.file import CODES
from treadle.io.onnx.writer import Exporter, Names, Writer, export
from treadle.ops.contract import letters

__all__: list[str] = []

_MOST_STEPS = 4096

# Ops that one node says, operand by operand.
_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Add": "Add",
    "Again": "Identity",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceil",
    "ClipGradient": "Identity",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Debug": "Identity",
    "DebugGradient": "Identity",
    "Divide": "Div",
    "Equal": "Equal",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Log": "Log",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Maximum": "Max",
    "Minimum": "Min",
    "Mish": "Mish",
    "Multiply": "Mul",
    "Negative": "Neg",
    "Pow": "Pow",
    "Print": "Identity",
    "Reciprocal": "Reciprocal",
    "Relu": "Relu",
    "Round": "Round",
    "ScaleGradient": "Identity",
    "Select": "Where",
    "Selu": "Selu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Sqrt": "Sqrt",
    "StopGradient": "Identity",
    "Subtract": "Sub",
    "Tan": "Tan",
    "Tanh": "Tanh",
}
_OF_ONE = {"ScaleGradient", "ClipGradient", "Again"}  # the value is the first operand


def _same(kind: str, one: bool) -> Exporter:
    return lambda w, node, *xs: w.add(kind, *(xs[:1] if one else xs))


for _name, _kind in _SAME.items():
    export(_name)(_same(_kind, _name in _OF_ONE))


def _type(node: Tensor) -> Any:
    return node.inputs[0].type


def _number(w: Writer, node: Tensor, value: float) -> str:
    return w.array(value, _type(node).dtype)


_BITS = {
    "BitwiseAnd": "And",
    "BitwiseInvert": "Not",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
}


@export(*_BITS)
def _bits(w: Writer, node: Tensor, *xs: str) -> str:
    kind = _BITS[node.op.name]
    return w.add(kind if _type(node).dtype.kind == "b" else f"Bitwise{kind}", *xs)


@export("NotEqual")
def _not_equal(w: Writer, node: Tensor, x: str, y: str) -> str:
    return w.add("Not", w.add("Equal", x, y))


@export("Square")
def _square(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Mul", x, x)


@export("Rsqrt")
def _rsqrt(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Reciprocal", w.add("Sqrt", x))


@export("Expm1")
def _expm1(w: Writer, node: Tensor, x: str) -> str:
    # e^x - 1 = 2 tanh(x/2) / (1 - tanh(x/2)) keeps the digits of a small x.
    half = w.add("Tanh", w.add("Mul", x, _number(w, node, 0.5)))
    small = w.add("Sub", _number(w, node, 1), half)
    near = w.add("Div", w.add("Mul", half, _number(w, node, 2)), small)
    far = w.add("Sub", w.add("Exp", x), _number(w, node, 1))
    is_near = w.add("Less", w.add("Abs", x), _number(w, node, 1))
    return w.add("Where", is_near, near, far)


@export("Log1p")
def _log1p(w: Writer, node: Tensor, x: str) -> str:
    # log(1 + x) = 2 atanh(x / (2 + x)), which keeps the digits of a small x.
    ratio = w.add("Div", x, w.add("Add", x, _number(w, node, 2)))
    near = w.add("Mul", w.add("Atanh", ratio), _number(w, node, 2))
    far = w.add("Log", w.add("Add", x, _number(w, node, 1)))
    is_near = w.add("Less", w.add("Abs", x), _number(w, node, 0.5))
    return w.add("Where", is_near, near, far)


@export("Log2", "Log10")
def _logarithm(w: Writer, node: Tensor, x: str) -> str:
    base = math.log(2 if node.op.name == "Log2" else 10)
    return w.add("Mul", w.add("Log", x), _number(w, node, 1 / base))


@export("FloorDivide")
def _floor_divide(w: Writer, node: Tensor, x: str, y: str) -> Names | None:
    kind = _type(node).dtype.kind
    if kind == "u":
        return w.add("Div", x, y)
    if kind != "i":
        return w.add("Floor", w.add("Div", x, y))
    return w.add("Div", w.add("Sub", x, w.add("Mod", x, y)), y)


@export("Remainder")
def _remainder(w: Writer, node: Tensor, x: str, y: str) -> str:
    if _type(node).dtype.kind in "iu":
        return w.add("Mod", x, y)
    whole = w.add("Floor", w.add("Div", x, y))
    return w.add("Sub", x, w.add("Mul", whole, y))


@export("Fmod")
def _fmod(w: Writer, node: Tensor, x: str, y: str) -> str:
    return w.add("Mod", x, y, fmod=1)


@export("Trunc")
def _trunc(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Mul", w.add("Sign", x), w.add("Floor", w.add("Abs", x)))


@export("IsFinite")
def _finite(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Not", w.add("Or", w.add("IsInf", x), w.add("IsNaN", x)))


@export("Cast")
def _cast(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Cast", x, to=CODES[node.type.dtype])


@export("Gelu")
def _gelu(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Gelu", x)


# -- reductions and orders ---------------------------------------------------------


def _reduction(kind: str) -> Exporter:
    def write(w: Writer, node: Tensor, x: str) -> str:
        op: Any = node.op
        keep = int(op.keepdims)
        if not op.axes:
            return w.add(kind, x, w.integers([]), keepdims=keep, noop_with_empty_axes=1)
        return w.add(kind, x, w.integers(op.axes), keepdims=keep)

    return write


_sum = _reduction("ReduceSum")
for _name in ("Sum", "Prod", "Max", "Min", "Mean"):
    export(_name)(_reduction(f"Reduce{_name}"))


@export("All", "Any_")
def _truth(w: Writer, node: Tensor, x: str) -> str:
    # Counted, for there is no greatest or least of nothing.
    every = node.op.name == "All"
    counted = w.add("Not", x) if every else x
    number = w.add("Cast", counted, to=CODES[np.dtype(np.int64)])
    zero = w.array(0, np.int64)
    return w.add("Equal" if every else "Greater", _sum(w, node, number), zero)


@export("ArgMax", "ArgMin")
def _place(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    found = w.add(op.name, x, axis=op.axis, keepdims=int(op.keepdims))
    return w.add("Cast", found, to=CODES[node.type.dtype])


@export("Softmax", "LogSoftmax")
def _softmax(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    return w.add(op.name, x, axis=op.axis)


@export("CumulativeSum")
def _cumulative(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    flags = {"exclusive": int(op.exclusive), "reverse": int(op.reverse)}
    return w.add("CumSum", x, w.array(op.axis, np.int64), **flags)


@export("TopK")
def _top(w: Writer, node: Tensor, x: str) -> Names:
    op: Any = node.op
    return w.several("TopK", 2, x, w.integers([op.k]), axis=op.axis)


@export("ArgSort")
def _argsort(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    count = w.integers([_type(node).shape[op.axis]])
    return w.several("TopK", 2, x, count, axis=op.axis, largest=int(op.descending))[1]


@export("Standardize")
def _standardize(w: Writer, node: Tensor, x: str, eps: str) -> str | None:
    op: Any = node.op
    t, number = _type(node), node.inputs[1]
    axes = sorted(a % t.ndim for a in op.axes)
    if axes != list(range(axes[0], t.ndim)) or number.stored is None or number.inputs:
        return None
    ones = w.array(np.ones(t.shape[axes[0] :], t.dtype))
    small = float(np.asarray(number.array))
    return w.add("LayerNormalization", x, ones, axis=axes[0], epsilon=small)


# -- shapes ------------------------------------------------------------------------


@export("Reshape")
def _reshape(w: Writer, node: Tensor, x: str) -> str:
    zero = int(0 in node.type.shape)
    return w.add("Reshape", x, w.integers(node.type.shape), allowzero=zero)


@export("PermuteDims")
def _permute(w: Writer, node: Tensor, x: str) -> str:
    order = node.op.order  # type: ignore[attr-defined]
    if not order:
        return w.add("Identity", x)
    return w.add("Transpose", x, perm=[k % len(order) for k in order])


@export("BroadcastTo")
def _broadcast(w: Writer, node: Tensor, x: str) -> str:
    return w.add("Expand", x, w.integers(node.type.shape))


def _cut(w: Writer, x: str, starts: Any, stops: Any, axes: Any, steps: Any) -> str:
    return w.add("Slice", x, *map(w.integers, (starts, stops, axes, steps)))


@export("Slice")
def _slice(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    if not op.starts:
        return w.add("Identity", x)
    pairs = zip(op.stops, op.steps, strict=True)
    stops = [-(1 << 62) if b < 0 and step < 0 else b for b, step in pairs]
    return _cut(w, x, op.starts, stops, range(len(stops)), op.steps)


@export("Flip")
def _flip(w: Writer, node: Tensor, x: str) -> str:
    axes = node.op.axes  # type: ignore[attr-defined]
    ones = [-1] * len(axes)
    return _cut(w, x, ones, [-(1 << 62)] * len(axes), axes, ones) if axes else x


@export("Roll")
def _roll(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    n = _type(node).shape[op.axis]
    place = -op.shift % max(n, 1)
    tail = _cut(w, x, [place], [n], [op.axis], [1])
    return w.add("Concat", tail, _cut(w, x, [0], [place], [op.axis], [1]), axis=op.axis)


@export("Concat")
def _concat(w: Writer, node: Tensor, *xs: str) -> str:
    return w.add("Concat", *xs, axis=node.op.axis)  # type: ignore[attr-defined]


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
        return w.add("Gather", x, _wide(w, ids[0]), axis=op.place)
    t, shape = _type(node), broadcast_shapes(*[i.type.shape for i in node.inputs[1:]])
    count, every = len(shape), w.integers(shape)
    rest = [k for k in range(t.ndim) if k not in op.axes]
    front = w.add("Transpose", x, perm=[*op.axes, *rest])
    last = w.integers([-1])
    whole = [w.add("Expand", _wide(w, i), every) for i in ids]
    places = [w.add("Unsqueeze", i, last) for i in whole]
    found = w.add("GatherND", front, w.add("Concat", *places, axis=-1))
    order = list(range(count, count + len(rest)))
    order[op.place : op.place] = range(count)
    return w.add("Transpose", found, perm=order) if order else found


@export("Embedding")
def _embedding(w: Writer, node: Tensor, table: str, ids: str) -> str:
    return w.add("Gather", table, _wide(w, ids), axis=0)


@export("TakeAlong")
def _along(w: Writer, node: Tensor, x: str, ids: str) -> str | None:
    axis = node.op.axis  # type: ignore[attr-defined]
    return w.add("GatherElements", x, _wide(w, ids), axis=axis)


@export("OneHot")
def _one_hot(w: Writer, node: Tensor, ids: str) -> str:
    op: Any = node.op
    labels = w.add("Unsqueeze", _wide(w, ids), w.integers([-1]))
    found = w.add("Equal", labels, w.integers(range(op.count)))
    return w.add("Cast", found, to=CODES[node.type.dtype])


@export("Unslice")
def _unslice(w: Writer, node: Tensor, x: str) -> str | None:
    op: Any = node.op
    if set(op.steps) - {1} or not op.shape:
        return None
    ends = [n - b for n, b in zip(op.shape, op.stops, strict=True)]
    return w.add("Pad", x, w.integers([*op.starts, *ends]), _number(w, node, 0))


# -- products and windows ----------------------------------------------------------


@export("Contract")
def _contract(w: Writer, node: Tensor, x: str, y: str) -> str:
    spec = node.op.spec  # type: ignore[attr-defined]
    a, b, out = letters(spec)
    if len(a) == len(b) >= 2 and a[:-2] == b[:-2] and a[-1] == b[-2]:
        if out == a[:-1] + b[-1] and a[-2] != b[-1]:
            return w.add("MatMul", x, y)
        if out == a[:-2] + b[-1] + a[-2]:
            order = [*range(len(out) - 2), len(out) - 1, len(out) - 2]
            return w.add("Transpose", w.add("MatMul", x, y), perm=order)
    return w.add("Einsum", x, y, equation=spec)


def _sliding(op: Any) -> dict[str, Any]:
    pads = [a for a, _ in op.padding] + [b for _, b in op.padding]
    return {"strides": op.stride, "pads": pads, "dilations": op.dilation}


@export("Conv")
def _conv(w: Writer, node: Tensor, x: str, weight: str) -> str:
    op: Any = node.op
    return w.add("Conv", x, weight, group=op.groups, **_sliding(op))


@export("ConvInputGradient")
def _conv_back(w: Writer, node: Tensor, x: str, weight: str) -> str:
    op: Any = node.op
    shapes = node.inputs[0].type.shape[2:], node.inputs[1].type.shape[2:]
    parts = zip(op.extents, *shapes, op.stride, op.padding, op.dilation, strict=True)
    more = [
        n - (s * (m - 1) + d * (k - 1) + 1 - sum(pair)) for n, m, k, s, pair, d in parts
    ]
    return w.add(
        "ConvTranspose",
        x,
        weight,
        group=op.groups,
        output_padding=more,
        **_sliding(op),
    )


@export("MaxPool")
def _max_pool(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    return w.add("MaxPool", x, kernel_shape=op.kernel, **_sliding(op))


@export("SumPool")
def _sum_pool(w: Writer, node: Tensor, x: str) -> str:
    # A sum is the average times the count; a border of zeros is written out.
    op: Any = node.op
    fields = _sliding(op)
    widths = ((0, 0), (0, 0), *op.padding)
    if any(map(any, widths)):
        pads = [a for a, _ in widths] + [b for _, b in widths]
        zero = _number(w, node, 0)
        x = w.add("Pad", x, w.integers(pads), zero, mode="constant")
    fields["pads"] = [0] * len(fields["pads"])
    if set(op.dilation) == {1}:
        del fields["dilations"]
    average = w.add("AveragePool", x, kernel_shape=op.kernel, **fields)
    return w.add("Mul", average, _number(w, node, math.prod(op.kernel)))


# -- loops -------------------------------------------------------------------------


@export("Scan")
def _scan(w: Writer, node: Tensor, *xs: str) -> Names | None:
    """The steps of a loop one by one: their number is known."""
    op: Any = node.op
    if op.draws or not 0 < op.length <= _MOST_STEPS:
        return None
    c, s = op.carries, op.carries + op.scanned
    carry = list(xs[:c])
    stacks: list[list[str]] = [[] for _ in range(len(op.body.outputs) - c)]
    steps = range(op.length)
    first = w.integers([0])
    for t in reversed(steps) if op.reverse else steps:
        place = w.array(t, np.int64)
        rows = [w.add("Gather", x, place, axis=0) for x in xs[c:s]]
        found = w.body(op.body, [*carry, *rows, *xs[s:]])
        carry = found[:c]
        for stack, y in zip(stacks, found[c:], strict=True):
            stack.append(w.add("Unsqueeze", y, first))
    for stack in stacks:
        if op.reverse:
            stack.reverse()
    return (*carry, *[w.add("Concat", *stack, axis=0) for stack in stacks])
