"""Importers of ops element by element, along axes and over them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.table import COMMON, OnnxNode, axis_of, integers, row
from treadle.rewrite.pattern import snake

Function = Callable[..., Any]

# Ops that a function of Treadle is, operand by operand.
_SAME: dict[str, Function] = {
    **{kind: getattr(td, snake(name)) for name, kind in COMMON.items()},
    "Add": td.add,
    "BitwiseAnd": td.bitwise_and,
    "BitwiseNot": td.bitwise_invert,
    "BitwiseOr": td.bitwise_or,
    "BitwiseXor": td.bitwise_xor,
    "Det": td.linalg.det,
    "HardSwish": td.hard_swish,
    "IsNaN": td.isnan,
    "MatMul": td.matmul,
    "Mul": td.multiply,
    "PRelu": lambda x, slope: td.where(x < 0, x * slope, x),
    "Pow": lambda x, y: td.pow(x, td.astype(y, x.type.dtype)),
    "Where": td.where,
}


def _same(function: Function) -> Function:
    return lambda node, *xs: function(*xs)


for _kind, _function in _SAME.items():
    row(_kind)(_same(_function))


def number(x: Tensor, value: float) -> Tensor:
    """A number of the dtype of x."""
    return td.asarray(np.array(value, x.type.dtype))


@row("Div")
def _divide(node: OnnxNode, x: Tensor, y: Tensor) -> Tensor:
    if x.type.dtype.kind not in "iu":
        return td.divide(x, y)
    if x.type.dtype.kind == "u":
        return td.floor_divide(x, y)
    size = td.floor_divide(td.abs(x), td.abs(y))  # integers are cut towards 0
    return size * td.sign(x) * td.sign(y)


def _folded(function: Function) -> Function:
    return lambda node, *xs: functools.reduce(function, xs)


for _kind, _function in {
    "Max": td.maximum,
    "Min": td.minimum,
    "Sum": td.add,
}.items():
    row(_kind)(_folded(_function))

row("Mean")(lambda node, *xs: functools.reduce(td.add, xs) / number(xs[0], len(xs)))
row("Identity", raw=True)(lambda node, x: (x,))
row("Gelu", reads="approximate")(
    lambda node, x: td.gelu(x, node.get("approximate", "none"))
)
row("Mod", reads="fmod")(
    lambda node, x, y: (td.fmod if node.get("fmod", 0) else td.remainder)(x, y)
)


def _with_alpha(function: Function, default: float) -> Function:
    return lambda node, x: function(x, number(x, node.get("alpha", default)))


for _kind, _function, _default in (
    ("Celu", td.celu, 1.0),
    ("Elu", td.elu, 1.0),
    ("LeakyRelu", td.leaky_relu, 0.01),
    ("Swish", lambda x, alpha: x * td.sigmoid(x * alpha), 1.0),
    ("ThresholdedRelu", td.thresholded_relu, 1.0),
):
    row(_kind, reads="alpha")(_with_alpha(_function, _default))


@row("treadle.PReluOfChannels")
def _prelu_of_channels(node: OnnxNode, x: Tensor, slope: Tensor) -> Tensor:
    shape = (-1, *[1] * (x.type.ndim - 2)) if slope.type.size > 1 else ()
    return td.where(x < 0, x * td.reshape(slope, shape), x)


@row("Selu", reads="alpha gamma")
def _selu(node: OnnxNode, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.6732631921768188)
    gamma = node.get("gamma", 1.0507010221481323)
    return number(x, gamma) * td.elu(x, number(x, alpha))


@row("HardSigmoid", reads="alpha beta")
def _hard(node: OnnxNode, x: Tensor) -> Tensor:
    a, b = node.get("alpha", 0.2), node.get("beta", 0.5)
    return td.clip(x * number(x, a) + number(x, b), 0.0, 1.0)


@row("Clip", reads="min max")
def _clip(node: OnnxNode, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    bounds = node.get("min"), node.get("max")  # attributes before version 11
    low = number(x, bounds[0]) if low is None and bounds[0] is not None else low
    high = number(x, bounds[1]) if high is None and bounds[1] is not None else high
    y = x if low is None else td.maximum(x, low)
    return y if high is None else td.minimum(y, high)


@row("IsInf", reads="detect_negative detect_positive")
def _infinite(node: OnnxNode, x: Tensor) -> Tensor:
    infinite = td.isinf(x)
    if not node.get("detect_positive", 1):
        infinite = td.logical_and(infinite, x < 0)
    if not node.get("detect_negative", 1):
        infinite = td.logical_and(infinite, x > 0)
    return infinite


@row("Dropout", reads="ratio seed", static=(1, 2))
def _dropout(node: OnnxNode, x: Tensor, ratio: Any = None, training: Any = None) -> Any:
    # A file is a network that is used: nothing is left out.
    share = 0.5 if ratio is None else float(ratio)
    if training is not None and training.any() and share:
        raise ValueError("elements left out by chance (training_mode)")
    return (x, td.full(x.type.shape, True)) if len(node.outputs) > 1 else x


# -- along an axis -----------------------------------------------------------------


def _along(function: Function) -> Function:
    def make(node: OnnxNode, x: Tensor) -> Tensor:
        if node.opset >= 13:
            return function(x, axis_of(node.get("axis", -1), x))
        axis = axis_of(node.get("axis", 1), x)  # that axis and all behind as one
        front = int(np.prod(x.type.shape[:axis]))
        flat = td.reshape(x, (front, int(np.prod(x.type.shape[axis:]))))
        return td.reshape(function(flat, 1), x.type.shape)

    return make


row("Softmax", reads="axis")(_along(td.softmax))
row("LogSoftmax", reads="axis")(_along(td.log_softmax))


def _running(function: Function) -> Function:
    def make(node: OnnxNode, x: Tensor, axis: Any) -> Tensor:
        (place,) = integers(axis, "the axis")
        return function(
            x,
            axis_of(place, x),
            dtype=x.type.dtype,
            reverse=bool(node.get("reverse", 0)),
            exclusive=bool(node.get("exclusive", 0)),
        )

    return make


row("CumSum", reads="exclusive reverse", static=(1,))(_running(td.cumulative_sum))
row("CumProd", reads="exclusive reverse", static=(1,))(_running(td.cumulative_prod))


def _one_at_the_top(x: Tensor, axis: int) -> Tensor:
    places = np.arange(x.type.shape[axis])
    shape = tuple(-1 if k == axis else 1 for k in range(x.type.ndim))
    top = td.astype(td.argmax(x, axis, keepdims=True), td.int64)
    return td.astype(td.equal(top, td.asarray(places.reshape(shape))), x.type.dtype)


row("Hardmax", reads="axis")(_along(_one_at_the_top))


@row("LpNormalization", reads="axis p")
def _unit(node: OnnxNode, x: Tensor) -> Tensor:
    axis, p = axis_of(node.get("axis", -1), x), node.get("p", 2)
    if p not in (1, 2):
        raise ValueError(f"a norm of order {p}")
    size = _REDUCTIONS[f"ReduceL{p}"](x, (axis,), keepdims=True)
    empty = size == 0
    return td.where(empty, number(x, 0), x / td.where(empty, number(x, 1), size))


@row("BitShift", reads="direction")
def _shift(node: OnnxNode, x: Tensor, y: Tensor) -> Tensor:
    ways = {"LEFT": td.bitwise_left_shift, "RIGHT": td.bitwise_right_shift}
    way = node.get("direction", "")
    if way not in ways:
        raise ValueError(f"direction is {way[:20]!r}")
    return ways[way](x, y)


def _place(function: Function, flipped: bool = False) -> Function:
    def make(node: OnnxNode, x: Tensor) -> Tensor:
        axis, keep = axis_of(node.get("axis", 0), x), bool(node.get("keepdims", 1))
        if not node.get("select_last_index", 0):
            return td.astype(function(x, axis, keepdims=keep), td.int64)
        back = function(td.flip(x, axis), axis, keepdims=keep)
        return x.type.shape[axis] - 1 - td.astype(back, td.int64)

    return make


_PLACES = "axis keepdims select_last_index"
row("ArgMax", reads=_PLACES)(_place(td.argmax))
row("ArgMin", reads=_PLACES)(_place(td.argmin))


@row("TopK", reads="axis k largest sorted", static=(1,))
def _top(node: OnnxNode, x: Tensor, k: Any = None) -> Any:
    size = node.get("k") if node.opset < 10 else k
    axis, count = axis_of(node.get("axis", -1), x), integers(size, "k")[0]
    values, places = td.top_k(x, count, axis, bool(node.get("largest", 1)))
    return values, td.astype(places, td.int64)


# -- over axes ---------------------------------------------------------------------

_REDUCTIONS: dict[str, Function] = {
    "ReduceL1": lambda x, a, keepdims: td.sum(td.abs(x), a, keepdims=keepdims),
    "ReduceL2": lambda x, a, keepdims: td.sqrt(td.sum(x * x, a, keepdims=keepdims)),
    "ReduceLogSum": lambda x, a, keepdims: td.log(td.sum(x, a, keepdims=keepdims)),
    "ReduceLogSumExp": td.logsumexp,
    "ReduceMax": td.max,
    "ReduceMean": td.mean,
    "ReduceMin": td.min,
    "ReduceProd": td.prod,
    "ReduceSum": td.sum,
    "ReduceSumSquare": lambda x, a, keepdims: td.sum(x * x, a, keepdims=keepdims),
}


def _reduced(function: Function) -> Function:
    def make(node: OnnxNode, x: Tensor, axes: Any = None) -> Tensor:
        wanted = node.get("axes") if axes is None else axes
        listed = (
            integers(wanted, "axes") if wanted is not None and len(wanted) else None
        )
        if listed is None:
            if node.get("noop_with_empty_axes", 0):
                return x
            listed = tuple(range(x.type.ndim))
        places = tuple(sorted(axis_of(a, x) for a in listed))
        if node.kind in _EMPTY and not x.type.size:
            return _of_nothing(node, x, places)
        y = function(x, places, keepdims=bool(node.get("keepdims", 1)))
        return td.astype(y, x.type.dtype)

    return make


_EMPTY = {"ReduceMax": -1, "ReduceMin": 1}  # the signs of infinity they start from


def _of_nothing(node: OnnxNode, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The greatest or least element of nothing: the end of the dtype's range."""
    dtype, high = x.type.dtype, _EMPTY[node.kind] > 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        value: Any = info.max if high else info.min
    else:
        value = high if dtype.kind == "b" else _EMPTY[node.kind] * np.inf
    keep = node.get("keepdims", 1)
    shape = [1 if k in axes else n for k, n in enumerate(x.type.shape)]
    shape = [n for k, n in enumerate(shape) if keep or k not in axes]
    return td.full(shape, number(x, value))


for _kind, _function in _REDUCTIONS.items():
    row(_kind, reads="axes keepdims noop_with_empty_axes", static=(1,))(
        _reduced(_function)
    )
