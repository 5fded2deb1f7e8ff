"""Importers of what networks are made of: windows, norms, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.table import Node, axis_of, row

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Pads = list[tuple[int, int]]


def _windows(
    node: Node, extents: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[Any, Pads, Any]:
    """Strides, padding and dilations of a node over spatial dimensions."""
    rank = len(kernel)
    if tuple(node.get("kernel_shape", kernel)) != kernel:
        raise ValueError(f"kernel_shape is not {kernel}, which the weights have")
    strides = node.get("strides", (1,) * rank)
    apart = node.get("dilations", (1,) * rank)
    pads = node.get("pads", (0,) * 2 * rank)
    word = node.get("auto_pad", "NOTSET")
    if not len(extents) == len(strides) == len(apart) == len(pads) / 2 == rank:
        raise ValueError(f"a kernel {kernel} over {len(extents)} dimensions")
    if word in ("SAME_UPPER", "SAME_LOWER"):
        cover = []
        for n, k, s, d in zip(extents, kernel, strides, apart, strict=True):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            less, more = total // 2, total - total // 2
            cover.append((less, more) if word == "SAME_UPPER" else (more, less))
        return strides, cover, apart
    if word not in ("NOTSET", "VALID", ""):
        raise ValueError(f"auto_pad is {word[:20]!r}")
    pads = (0,) * 2 * rank if word == "VALID" else pads
    return strides, list(zip(pads[:rank], pads[rank:], strict=True)), apart


# The attributes that `_windows` reads, and the kernel's extents, which weights have.
_WINDOWS = "auto_pad dilations pads strides kernel_shape"
_CONV = {1: td.conv1d, 2: td.conv2d, 3: td.conv3d}
_BACK = {1: td.conv_transpose1d, 2: td.conv_transpose2d, 3: td.conv_transpose3d}


@row("Conv", reads=f"{_WINDOWS} group")
def _conv(node: Node, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _CONV:
        raise ValueError(f"a convolution over {rank} dimensions")
    strides, cover, apart = _windows(node, x.type.shape[2:], w.type.shape[2:])
    return _CONV[rank](x, w, b, strides, cover, apart, node.get("group", 1))


@row("ConvTranspose", reads=f"{_WINDOWS} group output_padding")
def _conv_back(node: Node, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _BACK:
        raise ValueError(f"a transposed convolution over {rank} dimensions")
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise ValueError("auto_pad of a transposed convolution")
    strides, cover, apart = _windows(node, x.type.shape[2:], w.type.shape[2:])
    more = node.get("output_padding", (0,) * rank)
    return _BACK[rank](x, w, b, strides, cover, more, apart, node.get("group", 1))


def _pool(node: Node, x: Tensor) -> tuple[Any, Any, Pads, Any, bool]:
    kernel = tuple(node.get("kernel_shape", ()))
    strides, cover, apart = _windows(node, x.type.shape[2:], kernel)
    if len(node.outputs) > 1:
        raise ValueError("the positions of the maxima are not given out")
    return kernel, strides, cover, apart, bool(node.get("ceil_mode", 0))


# `storage_order` is of the positions of the maxima alone.
@row("MaxPool", reads=f"{_WINDOWS} ceil_mode storage_order")
def _max_pool(node: Node, x: Tensor) -> Tensor:
    return td.max_pool(x, *_pool(node, x))


@row("AveragePool", reads=f"{_WINDOWS} ceil_mode count_include_pad")
def _average(node: Node, x: Tensor) -> Tensor:
    kernel, strides, cover, apart, ceil = _pool(node, x)
    padded = bool(node.get("count_include_pad", 0))
    if set(apart) - {1}:
        if ceil:
            raise ValueError("an average over dilated windows with ceil_mode")
        wide = [(0, 0), (0, 0), *cover]
        y, one = td.pad(x, wide), td.full((1, 1, *x.type.shape[2:]), number(x, 1))
        count = td.pad(one, wide, value=1 if padded else 0)
        fields = kernel, strides, 0, apart
        return td.sum_pool(y, *fields) / td.sum_pool(count, *fields)
    return td.avg_pool(x, kernel, strides, cover, ceil, padded)


@row("GlobalAveragePool")
def _global_average(node: Node, x: Tensor) -> Tensor:
    return td.mean(x, tuple(range(2, x.type.ndim)), keepdims=True)


@row("GlobalMaxPool")
def _global_max(node: Node, x: Tensor) -> Tensor:
    return td.max(x, tuple(range(2, x.type.ndim)), keepdims=True)


@row(
    "Resize",
    reads="mode coordinate_transformation_mode nearest_mode",
    static=(1, 2, 3),
    first=11,
)
def _resize(
    node: Node, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None
) -> Tensor:
    mode = node.get("mode", "nearest")
    where = node.get("coordinate_transformation_mode", "half_pixel")
    if scales is None or not scales.size:
        if sizes is None or len(sizes) != x.type.ndim:
            raise ValueError("neither scales nor sizes for each dimension")
        scales = np.asarray(sizes, float) / np.maximum(x.type.shape, 1)
    return _scaled(
        x, scales, mode, where, node.get("nearest_mode", "round_prefer_floor")
    )


@row("Upsample", reads="mode scales", static=(1,), last=9)
def _upsample(node: Node, x: Tensor, scales: Any = None) -> Tensor:
    own = node.get("scales") if scales is None else scales
    return _scaled(
        x, np.asarray(own), node.get("mode", "nearest"), "asymmetric", "floor"
    )


def _scaled(x: Tensor, scales: Array, mode: str, where: str, rule: str) -> Tensor:
    """x with a whole number of times as many elements along spatial dimensions."""
    times = [int(s) for s in scales]
    if (
        len(times) != x.type.ndim
        or not np.array_equal(times, scales)
        or times[:2] != [1, 1]
        or not all(1 <= k <= 1024 for k in times)
    ):
        raise ValueError(f"scales {scales} are not 1, 1 and whole numbers")
    repeats = (where, rule) == ("asymmetric", "floor") or (
        where in ("half_pixel", "pytorch_half_pixel")
        and rule.startswith("round_prefer")
    )
    if mode == "nearest" and repeats:
        return td.upsample(x, times[2:])
    middles = where in ("half_pixel", "pytorch_half_pixel")
    if mode == "linear" and (middles or where == "align_corners"):
        return td.upsample(x, times[2:], "linear", align_corners=not middles)
    raise ValueError(f"mode {mode!r} with {where!r} and {rule!r}")


# -- norms and products ------------------------------------------------------------


def _eps(node: Node, x: Tensor, default: float = 1e-5) -> Tensor:
    return number(x, node.get("epsilon", default))


def _stashed(node: Node) -> None:
    """Refuse statistics in another dtype than float32, or that of the values."""
    if node.get("stash_type", 1) != 1:
        raise ValueError(f"statistics in dtype {node.get('stash_type')} (stash_type)")


@row("BatchNormalization", reads="epsilon momentum spatial training_mode")
def _batch_norm(
    node: Node, x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    if node.get("training_mode", 0):
        raise ValueError("the statistics of the batch itself (training_mode)")
    if not node.get("spatial", 1):
        raise ValueError("statistics for each place of an image (spatial 0)")
    return td.batch_norm(x, mean, var, scale, b, 1, _eps(node, x))


@row("InstanceNormalization", reads="epsilon")
def _instance_norm(node: Node, x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    return td.instance_norm(x, scale, b, _eps(node, x))


@row("GroupNormalization", reads="epsilon num_groups stash_type", first=21)
def _group_norm(node: Node, x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    _stashed(node)
    return td.group_norm(x, node.get("num_groups", 1), scale, b, _eps(node, x))


def _behind(node: Node, x: Tensor) -> tuple[int, ...]:
    _stashed(node)
    if len(node.outputs) > 1:
        raise ValueError("the mean and the spread are not given out")
    return tuple(range(axis_of(node.get("axis", -1), x), x.type.ndim))


@row("LayerNormalization", reads="axis epsilon stash_type")
def _layer_norm(node: Node, x: Tensor, scale: Tensor, b: Any = None) -> Tensor:
    y = td.standardize(x, _behind(node, x), _eps(node, x)) * scale
    return y if b is None else y + b


@row("RMSNormalization", reads="axis epsilon stash_type")
def _rms_norm(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    return td.rms_norm(x, None, _behind(node, x), _eps(node, x)) * scale


@row("LRN", reads="alpha beta bias size")
def _response(node: Node, x: Tensor) -> Tensor:
    size = node.get("size", 1)
    if size % 2 == 0:
        raise ValueError(f"an even number of channels: {size}")
    alpha, beta = node.get("alpha", 1e-4), node.get("beta", 0.75)
    return td.local_response_norm(x, size, alpha, beta, node.get("bias", 1.0))


@row("Gemm", reads="alpha beta transA transB")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Any = None) -> Tensor:
    a = td.matrix_transpose(a) if node.get("transA", 0) else a
    b = td.matrix_transpose(b) if node.get("transB", 0) else b
    y = td.matmul(a, b)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    y = y if alpha == 1.0 else y * number(y, alpha)
    if c is None:
        return y
    return y + (c if beta == 1.0 else c * number(c, beta))


@row("Einsum", reads="equation")
def _einsum(node: Node, *xs: Tensor) -> Tensor:
    return td.einsum(node.get("equation", ""), *xs)


# -- recurrent layers --------------------------------------------------------------


_STEPS = "activations clip direction hidden_size layout"


@row("LSTM", reads=f"{_STEPS} input_forget")
def _lstm(node: Node, *xs: Any) -> Any:
    def step(own: Tensor, past: Any, b: Tensor, state: list[Tensor]) -> list[Tensor]:
        i, o, f, g = td.split(own + past(state[0]) + b, 4, -1)
        gates = td.concat([i, f, g, o], -1)  # as Treadle's cell has them
        return list(td.lstm_cell(gates, state[1]))

    return _recurrent(node, xs, 4, 2, step)


@row("GRU", reads=f"{_STEPS} linear_before_reset")
def _gru(node: Node, *xs: Any) -> Any:
    after = node.get("linear_before_reset", 0)

    def step(own: Tensor, past: Any, b: Tensor, state: list[Tensor]) -> list[Tensor]:
        h = state[0]
        first, second = td.split(b, 2, -1)
        x, y = td.split(own + first, 3, -1), td.split(past(h) + second, 3, -1)
        z, r = td.sigmoid(x[0] + y[0]), td.sigmoid(x[1] + y[1])
        hidden = y[2]
        if not after:
            hidden = (past(r * h) + second)[..., 2 * h.type.shape[-1] :]
        n = td.tanh(x[2] + (r * hidden if after else hidden))
        return [n + z * (h - n)]

    return _recurrent(node, xs, 3, 1, step, apart=True)


@row("RNN", reads=_STEPS)
def _rnn(node: Node, *xs: Any) -> Any:
    names = node.get("activations", ["Tanh"])
    functions = {"Tanh": td.tanh, "Relu": td.relu, "Sigmoid": td.sigmoid}
    if len(set(names)) != 1 or names[0] not in functions:
        raise ValueError(f"activations {names}")
    function = functions[names[0]]

    def step(own: Tensor, past: Any, b: Tensor, state: list[Tensor]) -> list[Tensor]:
        return [function(own + past(state[0]) + b)]

    return _recurrent(node, xs, 1, 1, step)


_STANDARD = {"Sigmoid", "Tanh"}


def _recurrent(
    node: Node,
    xs: Sequence[Any],
    gates: int,
    states: int,
    step: Any,
    apart: bool = False,
) -> Any:
    """The sequences and last states of the directions of a recurrent layer."""
    given: list[Any] = [*xs, *[None] * (8 - len(xs))]
    x, w, r, b, lengths, *initial = given
    where = node.get("direction", "forward")
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    plain = node.kind == "RNN" or set(node.get("activations", [])) <= _STANDARD
    if where not in ways or len(w.type.shape) != 3 or len(ways[where]) != w.shape[0]:
        raise ValueError(f"direction {where[:20]!r} with weights {w.type}")
    refused = [lengths, *initial[states:], node.get("clip")]
    refused += [node.get("input_forget")] if node.kind == "LSTM" else []
    if not plain or any(v is not None and v != 0 for v in map(_told, refused)):
        raise ValueError("lengths, peepholes, clipping or other activations")
    if node.get("layout", 0):
        raise ValueError("batches before time (layout 1)")
    width, batch = r.type.shape[2], x.type.shape[1]
    if node.get("hidden_size", width) != width:
        raise ValueError(f"hidden_size is not {width}, which the weights have")
    if b is None:
        b = td.full((len(ways[where]), 2 * gates * width), number(x, 0.0))
    rows, lasts = [], []
    for k, back in enumerate(ways[where]):
        start = [
            td.full((batch, width), number(x, 0.0)) if v is None else v[k]
            for v in initial[:states]
        ]
        bias = b[k] if apart else b[k][: gates * width] + b[k][gates * width :]
        matrix = td.matrix_transpose(r[k])
        own = td.matmul(x, td.matrix_transpose(w[k]))

        def run(
            state: Any, own: Tensor, matrix: Tensor = matrix, bias: Tensor = bias
        ) -> Any:
            new = step(own, lambda h: td.matmul(h, matrix), bias, list(state))
            return tuple(new), new[0]

        last, row_ = td.scan(run, tuple(start), own, reverse=back)
        rows.append(row_)
        lasts.append(last)
    ends = [td.stack([last[j] for last in lasts]) for j in range(states)]
    return (td.stack(rows, 1), *ends)[: max(len(node.outputs), 1)]


def _told(x: Any) -> Any:
    """A number as it is; a tensor that is given counts as 1."""
    return x if x is None or isinstance(x, (int, float)) else 1
