"""Exporters of ops element by element, along axes and over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.graph.tensor import Tensor
from treadle.io.onnx.file import CODES
from treadle.io.onnx.table import COMMON
from treadle.io.onnx.writer import Exporter, Names, Writer, export, export_all
from treadle.ops.promotion import finfo

# Ops that one node says, operand by operand.
_SAME = {
    **{name: name for name in COMMON},
    "Again": "Identity",
    "ClipGradient": "Identity",
    "Debug": "Identity",
    "DebugGradient": "Identity",
    "Gelu": "Gelu",
    "GreaterEqual": "GreaterOrEqual",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Maximum": "Max",
    "Negative": "Neg",
    "Pow": "Pow",
    "Print": "Identity",
    "ScaleGradient": "Identity",
    "Selu": "Selu",
    "StopGradient": "Identity",
    "Subtract": "Sub",
}
_OF_ONE = {"ScaleGradient", "ClipGradient", "Again"}  # the value is the first operand


def _same(kind: str, one: bool) -> Exporter:
    return lambda w, node, *xs: w.add(kind, *(xs[:1] if one else xs))


export_all({name: _same(kind, name in _OF_ONE) for name, kind in _SAME.items()})
export_all(
    {
        "Cast": lambda w, node, x: w.add("Cast", x, to=CODES[node.type.dtype]),
        "Fmod": lambda w, node, x, y: w.add("Mod", x, y, fmod=1),
        "IsFinite": lambda w, node, x: w.add(
            "Not", w.add("Or", w.add("IsInf", x), w.add("IsNaN", x))
        ),
        "LogSoftmax": lambda w, node, x: w.add("LogSoftmax", x, axis=node.op.axis),
        "NotEqual": lambda w, node, x, y: w.add("Not", w.add("Equal", x, y)),
        "Rsqrt": lambda w, node, x: w.add("Reciprocal", w.add("Sqrt", x)),
        "Softmax": lambda w, node, x: w.add("Softmax", x, axis=node.op.axis),
        "Square": lambda w, node, x: w.add("Mul", x, x),
        "Trunc": lambda w, node, x: w.add(
            "Mul", w.add("Sign", x), w.add("Floor", w.add("Abs", x))
        ),
    }
)


def type_of(node: Tensor) -> Any:
    """The type of a node's first operand."""
    return node.inputs[0].type


def number(w: Writer, node: Tensor, value: float) -> str:
    """A number of the dtype of a node's first operand."""
    return w.array(value, type_of(node).dtype)


_BITS = {
    "BitwiseAnd": "And",
    "BitwiseInvert": "Not",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
}


@export(*_BITS)
def _bits(w: Writer, node: Tensor, *xs: str) -> str:
    kind = _BITS[node.op.name]
    return w.add(kind if type_of(node).dtype.kind == "b" else f"Bitwise{kind}", *xs)


@export("Expm1")
def _expm1(w: Writer, node: Tensor, x: str) -> str:
    # e^x - 1 = 2 tanh(x/2) / (1 - tanh(x/2)) keeps the digits of a small x.
    half = w.add("Tanh", w.add("Mul", x, number(w, node, 0.5)))
    small = w.add("Sub", number(w, node, 1), half)
    near = w.add("Div", w.add("Mul", half, number(w, node, 2)), small)
    far = w.add("Sub", w.add("Exp", x), number(w, node, 1))
    is_near = w.add("Less", w.add("Abs", x), number(w, node, 1))
    return w.add("Where", is_near, near, far)


@export("Log1p")
def _log1p(w: Writer, node: Tensor, x: str) -> str:
    # log(1 + x) = log u + (x - (u - 1)) / u for the u that 1 + x is rounded to; the
    # second term is kept from infinity and from a division by 0.
    limits = finfo(type_of(node).dtype)
    most = number(w, node, float(limits.max))
    least = number(w, node, float(limits.smallest_normal))
    one = number(w, node, 1)
    u = w.add("Add", x, one)
    lost = w.add("Sub", w.add("Min", x, most), w.add("Sub", w.add("Min", u, most), one))
    rest = w.add("Div", lost, w.add("Max", u, least))
    return w.add("Add", w.add("Log", u), rest)


@export("LogSigmoid")
def _log_sigmoid(w: Writer, node: Tensor, x: str) -> str:
    # By the sigmoid, as torch writes it, ONNX Runtime gives -inf from -18 down.
    small = w.add("Exp", w.add("Neg", w.add("Abs", x)))
    above = w.add("Log", w.add("Add", small, number(w, node, 1)))
    return w.add("Sub", w.add("Min", x, number(w, node, 0)), above)


@export("Log2", "Log10")
def _logarithm(w: Writer, node: Tensor, x: str) -> str:
    base = math.log(2 if node.op.name == "Log2" else 10)
    return w.add("Mul", w.add("Log", x), number(w, node, 1 / base))


@export("FloorDivide")
def _floor_divide(w: Writer, node: Tensor, x: str, y: str) -> Names | None:
    kind = type_of(node).dtype.kind
    if kind == "u":
        return w.add("Div", x, y)
    if kind != "i":
        return w.add("Floor", w.add("Div", x, y))
    return w.add("Div", w.add("Sub", x, w.add("Mod", x, y)), y)


@export("Remainder")
def _remainder(w: Writer, node: Tensor, x: str, y: str) -> str:
    if type_of(node).dtype.kind in "iu":
        return w.add("Mod", x, y)
    whole = w.add("Floor", w.add("Div", x, y))
    return w.add("Sub", x, w.add("Mul", whole, y))


# -- reductions and orders ---------------------------------------------------------


def _reduction(kind: str) -> Callable[[Writer, Tensor, str], str]:
    def write(w: Writer, node: Tensor, x: str) -> str:
        op: Any = node.op
        keep = int(op.keepdims)
        if not op.axes:
            return w.add(kind, x, w.integers([]), keepdims=keep, noop_with_empty_axes=1)
        return w.add(kind, x, w.integers(op.axes), keepdims=keep)

    return write


_sum = _reduction("ReduceSum")
export_all(
    {
        name: _reduction(f"Reduce{name}")
        for name in ("Sum", "Prod", "Max", "Min", "Mean")
    }
)


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
    places = w.add(op.name, x, axis=op.axis, keepdims=int(op.keepdims))
    return w.add("Cast", places, to=CODES[node.type.dtype])


@export("CumulativeSum")
def _cumulative(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    flags = {"exclusive": int(op.exclusive), "reverse": int(op.reverse)}
    return w.add("CumSum", x, w.array(op.axis, np.int64), **flags)


@export("TopK")
def _top(w: Writer, node: Tensor, x: str) -> Names:
    op: Any = node.op
    return w.several(
        "TopK", 2, x, w.integers([op.k]), axis=op.axis, largest=int(op.largest)
    )


@export("ArgSort")
def _argsort(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    count = w.integers([type_of(node).shape[op.axis]])
    return w.several("TopK", 2, x, count, axis=op.axis, largest=int(op.descending))[1]


@export("Standardize")
def _standardize(w: Writer, node: Tensor, x: str, eps: str) -> str | None:
    op: Any = node.op
    t, number = type_of(node), node.inputs[1]
    axes = sorted(a % t.ndim for a in op.axes)
    if axes != list(range(axes[0], t.ndim)) or number.stored is None or number.inputs:
        return None
    small = float(np.asarray(number.array))
    if axes[0] == 2 and t.dtype.name == "float32":  # runtimes have it for no other
        ends = [w.array(np.full(t.shape[1:2], v, t.dtype)) for v in (1, 0)]
        return w.add("InstanceNormalization", x, *ends, epsilon=small)
    ones = w.array(np.ones(t.shape[axes[0] :], t.dtype))
    return w.add("LayerNormalization", x, ones, axis=axes[0], epsilon=small)
