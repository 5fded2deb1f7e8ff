"""Exporters of ops element by element, along axes and over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from treadle.base.caches import cached
from treadle.graph.tensor import Tensor
from treadle.io.onnx.file import CODES
from treadle.io.onnx.table import COMMON
from treadle.io.onnx.writer import Exporter, Names, Writer, export, export_all

# Ops that one node says, operand by operand.
_SAME = {
    **COMMON,
    "Again": "Identity",
    "ClipGradient": "Identity",
    "Debug": "Identity",
    "DebugGradient": "Identity",
    "Gelu": "Gelu",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Maximum": "Max",
    "Pow": "Pow",
    "Print": "Identity",
    "ScaleGradient": "Identity",
    "Selu": "Selu",
    "StopGradient": "Identity",
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
    # What is lost of x in u = 1 + x is added to log u: for x above 1 that is nothing,
    # below it is at most half the last digit of 1.
    one = number(w, node, 1)
    u = w.add("Add", x, one)
    kept = w.add("Sub", w.add("Min", u, number(w, node, 2)), one)
    return w.add("Add", w.add("Log", u), w.add("Sub", w.add("Min", x, one), kept))


def _log_sigmoid_above(w: Writer, x: str) -> str:
    """The logarithm of the sigmoid of |x|: that of a smaller number loses digits, and
    in ONNX Runtime is -inf from -18 down."""
    return w.add("Log", w.add("Sigmoid", w.add("Abs", x)))


@export("LogSigmoid")
def _log_sigmoid(w: Writer, node: Tensor, x: str) -> str:
    # A bound that is left out is the least finite number.
    below = w.add("Clip", x, number(w, node, -math.inf), number(w, node, 0))
    return w.add("Add", _log_sigmoid_above(w, x), below)


@export("LogisticLoss")
def _logistic_loss(w: Writer, node: Tensor, x: str, t: str) -> str:
    if node.type.dtype.name == "float32":  # a ramp this steep is a step, in one node
        right = w.add("HardSigmoid", x, alpha=1e30, beta=0.0)
    else:
        is_above = w.add("Greater", x, number(w, node, 0))
        right = w.add("Cast", is_above, to=CODES[node.type.dtype])
    line = w.add("Mul", w.add("Sub", right, t), x)
    return w.add("Sub", line, _log_sigmoid_above(w, x))


@export("BinaryCrossEntropy")
def _binary_cross_entropy(w: Writer, node: Tensor, p: str, t: str) -> str:
    one, least = number(w, node, 1), number(w, node, -100)
    yes = w.add("Clip", w.add("Log", p), least)
    # As of log1p: what is lost of p in 1 - p is added to its logarithm.
    rest = w.add("Sub", one, p)
    lost = w.add("Sub", w.add("Sub", one, rest), p)
    no = w.add("Clip", w.add("Add", w.add("Log", rest), lost), least)
    wrong = w.add("Mul", w.add("Sub", t, one), no)
    return w.add("Sub", wrong, w.add("Mul", t, yes))


@export("Log2", "Log10")
def _logarithm(w: Writer, node: Tensor, x: str) -> str:
    base = math.log(2 if node.op.name == "Log2" else 10)
    return w.add("Mul", w.add("Log", x), number(w, node, 1 / base))


# e**(x*x) erfc(x) / u is smooth in u = 1 / (x + add), for x from 0 to end, where
# erfc is 0; polynomials of these degrees have the digits of the dtype.
_TAILS = {"float32": (2.0, 10.2, 8), "float64": (4.0, 26.5, 22)}


@cached(2)
def _tail(dtype: str) -> tuple[float, float, list[float]]:
    """mul, sub and the polynomial in t = mul u - sub, which is between -1 and 1."""
    add, end, degree = _TAILS[dtype]
    low, high = 1 / (add + end), 1 / add

    def scaled(us: Any) -> Any:
        xs = [1 / u - add for u in us]
        return [math.exp(x * x / 2) ** 2 * math.erfc(x) * (x + add) for x in xs]

    fit = Chebyshev.interpolate(scaled, degree, [low, high])
    plain = fit.convert(kind=Polynomial, domain=[low, high], window=[-1, 1])
    return 2 / (high - low), (high + low) / (high - low), plain.coef.tolist()


@export("Erfc")
def _erfc(w: Writer, node: Tensor, x: str) -> str:
    # ONNX has Erf alone, and 1 - erf(x) has no digit of 1e-8 left at x = 4.
    dtype = "float64" if node.type.dtype == np.float64 else "float32"
    mul, sub, table = _tail(dtype)
    narrow = node.type.dtype.name != dtype
    x = w.add("Cast", x, to=CODES[np.dtype(dtype)]) if narrow else x

    def value(number: float) -> str:
        return w.array(number, dtype)

    far = w.add("Add", w.add("Abs", x), value(_TAILS[dtype][0]))
    u = w.add("Reciprocal", far)
    t = w.add("Sub", w.add("Mul", u, value(mul)), value(sub))
    scaled = value(table[-1])
    for factor in table[-2::-1]:
        scaled = w.add("Add", w.add("Mul", scaled, t), value(factor))
    bell = w.add("Exp", w.add("Neg", w.add("Mul", x, x)))
    y = w.add("Mul", w.add("Mul", scaled, u), bell)
    # 2 - y below 0: in ONNX Runtime a node that selects may take thirty times as long.
    below = w.add("Cast", w.add("Less", x, value(0)), to=CODES[np.dtype(dtype)])
    two = w.add("Add", below, below)
    y = w.add("Add", two, w.add("Mul", w.add("Sub", value(1), two), y))
    return w.add("Cast", y, to=CODES[node.type.dtype]) if narrow else y


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
        keep, inner = int(op.keepdims), node.inputs[0]
        if not op.axes:
            return w.add(kind, x, w.integers([]), keepdims=keep, noop_with_empty_axes=1)
        axes = w.integers(op.axes)
        if op.traits.linear and inner.op.name == "Negative" and w.used_once(inner):
            total = w.add(kind, w.name_of(inner.inputs[0]), axes, keepdims=keep)
            return w.add("Neg", total)
        return w.add(kind, x, axes, keepdims=keep)

    return write


_sum = _reduction("ReduceSum")
export_all(
    {name: _reduction(f"Reduce{name}") for name in ("Prod", "Max", "Min", "Mean")}
)


@export("Sum")
def _sum_of_products(w: Writer, node: Tensor, x: str) -> str:
    """A sum; norms that it is of rows divided by divide the sum instead."""
    op: Any = node.op
    product, norms = node.inputs[0], []
    is_product = product.op.name == "Multiply" and w.used_once(product)
    factors = list(product.inputs) if is_product else []
    for k, y in enumerate(factors):
        is_unit = y.op.name == "Normalize" and y.op.axes == op.axes  # type: ignore[attr-defined]
        if is_unit and y.type.dtype.itemsize > 2 and y.type.ndim == product.type.ndim:
            factors[k], eps = y.inputs
            rows = w.name_of(factors[k])
            squares = _sum(w, node, w.add("Mul", rows, rows))
            norms.append(w.add("Max", w.add("Sqrt", squares), w.name_of(eps)))
    if norms:
        x = w.add("Mul", *map(w.name_of, factors))
    total = _sum(w, node, x)
    for norm in norms:
        total = w.add("Div", total, norm)
    return total


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
