"""Importers of convolutions, pools, attention, normalizations and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.shapes import MOST
from treadle.io.onnx.table import OnnxNode, axis_of, row

Pads = list[tuple[int, int]]


def windows(
    node: OnnxNode, extents: tuple[int, ...], kernel: tuple[int, ...]
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


# The attributes that `windows` reads, and the kernel's extents, which weights have.
WINDOWS = "auto_pad dilations pads strides kernel_shape"
_CONV = {1: td.conv1d, 2: td.conv2d, 3: td.conv3d}
_BACK = {1: td.conv_transpose1d, 2: td.conv_transpose2d, 3: td.conv_transpose3d}


@row("Conv", reads=f"{WINDOWS} group")
def convolved(node: OnnxNode, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _CONV:
        raise ValueError(f"a convolution over {rank} dimensions")
    strides, cover, apart = windows(node, x.type.shape[2:], w.type.shape[2:])
    return _CONV[rank](x, w, b, strides, cover, apart, node.get("group", 1))


@row("ConvTranspose", reads=f"{WINDOWS} group output_padding output_shape")
def _conv_back(node: OnnxNode, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _BACK:
        raise ValueError(f"a transposed convolution over {rank} dimensions")
    more = node.get("output_padding", (0,) * rank)
    word, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape", ())
    strides, cover, apart = windows(node, x.type.shape[2:], w.type.shape[2:])
    if word.startswith("SAME") and not wanted:
        wanted = tuple(n * s for n, s in zip(x.type.shape[2:], strides, strict=True))
    if wanted:
        parts = (x.type.shape[2:], w.type.shape[2:], strides, apart, more)
        cover, more = _covering(wanted[-rank:], parts, word == "SAME_UPPER")
    return _BACK[rank](x, w, b, strides, cover, more, node.get("group", 1), apart)


def _covering(
    wanted: tuple[int, ...], parts: Sequence[Any], upper: bool
) -> tuple[Pads, tuple[int, ...]]:
    """Padding and output padding of a transposed convolution with a given result."""
    cover, behind = [], []
    for m, n, k, s, d, more in zip(wanted, *parts, strict=True):
        total = s * (n - 1) + more + (k - 1) * d + 1 - m
        half = max(total, 0) // 2
        rest = max(total, 0) - half
        cover.append((half, rest) if upper else (rest, half))
        behind.append(more + max(-total, 0))
    return cover, tuple(behind)


def _plain(message: Any) -> bool:
    """Return True if a node takes queries, keys and values by heads, and gives y alone.

    What a query gets that sees no key is ONNX's to say, so masks are left to its
    function.
    """
    names = {a.name for a in message.attribute}
    alone = not any(message.output[1:]) and not any(message.input[3:])
    return alone and names <= {"is_causal", "scale"}


@row("Attention", reads="is_causal scale", first=23, takes=_plain)
def _attention(node: OnnxNode, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if not q.type.ndim == k.type.ndim == v.type.ndim == 4:
        raise ValueError(f"heads of {q.type}, {k.type} and {v.type}, which have 4 axes")
    groups = q.type.shape[1] // max(k.type.shape[1], 1)
    if groups > 1:  # queries of several heads share keys and values
        k, v = td.repeat(k, groups, 1), td.repeat(v, groups, 1)
    causal = bool(node.get("is_causal", 0))
    return td.attention(q, k, v, causal=causal, scale=node.get("scale"))


Fields = tuple[Any, Any, Pads, Any, bool]


def _fields(node: OnnxNode, x: Tensor) -> Fields:
    """Kernel, strides, padding, dilations, and whether a window may reach over."""
    kernel = tuple(node.get("kernel_shape", ()))
    strides, cover, apart = windows(node, x.type.shape[2:], kernel)
    return kernel, strides, cover, apart, bool(node.get("ceil_mode", 0))


@row("MaxPool", reads=f"{WINDOWS} ceil_mode storage_order")
def _max_pool(node: OnnxNode, x: Tensor) -> Any:
    fields = _fields(node, x)
    y = td.max_pool(x, *fields)
    if not any(node.outputs[1:]):
        return y
    return y, _places(x, y.type.shape[2:], fields, bool(node.get("storage_order", 0)))


def _places(x: Tensor, shape: tuple[int, ...], fields: Fields, columns: bool) -> Tensor:
    """The positions of maxima in x as one row, by columns if asked for."""
    kernel, strides, cover, apart, _ = fields
    extents, rank = x.type.shape[2:], len(kernel)
    if math.prod(shape) * math.prod(kernel) > MOST:
        raise ValueError(f"positions of {shape} maxima are too many")
    flat, number_, good = np.int64(0), np.int64(0), np.True_
    sizes = [1] * rank
    for k in reversed(range(rank)) if not columns else range(rank):
        step = np.prod(sizes, dtype=np.int64)
        sizes[k] = extents[k]
        i = np.arange(shape[k])[:, None] * strides[k] - cover[k][0]
        i = i + np.arange(kernel[k]) * apart[k]
        lined = [1] * 2 * rank
        lined[k], lined[rank + k] = i.shape
        at = np.clip(i, 0, extents[k] - 1).reshape(lined)
        good = good & ((i >= 0) & (i < extents[k])).reshape(lined)
        number_ = number_ + at * step
        flat = flat + at * math.prod(extents[k + 1 :])
    n, c = x.type.shape[:2]
    rows, size = (math.prod(shape), math.prod(kernel)), math.prod(extents)
    values = td.take(td.reshape(x, (n, c, size)), flat.reshape(rows), 2)
    dtype = x.type.dtype
    low = np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
    values = td.where(td.asarray(good.reshape(rows)), values, number(x, low))
    top = td.astype(td.argmax(values, -1, keepdims=True), td.int64)
    names = td.broadcast_to(td.asarray(number_.reshape(rows)), (n, c, *rows))
    chosen = td.squeeze(td.take_along_axis(names, top, -1), -1)
    images = np.arange(n * c, dtype=np.int64).reshape(n, c, 1) * size
    return td.reshape(chosen + td.asarray(images), (n, c, *shape))


@row("AveragePool", reads=f"{WINDOWS} ceil_mode count_include_pad")
def _average(node: OnnxNode, x: Tensor) -> Tensor:
    kernel, strides, cover, apart, ceil = _fields(node, x)
    padded = bool(node.get("count_include_pad", 0))
    if not set(apart) - {1}:
        return td.avg_pool(x, kernel, strides, cover, ceil, padded)
    total = td.sum_pool(x, kernel, strides, cover, apart, ceil)
    ones = td.full((1, 1, *x.type.shape[2:]), number(x, 1))
    if padded:
        ones, cover = (
            td.pad(ones, [(0, 0), (0, 0), *cover], value=1),
            [(0, 0)] * len(kernel),
        )
    count = td.sum_pool(ones, kernel, strides, cover, apart, ceil)
    return total / count[tuple(slice(0, n) for n in (1, 1, *total.type.shape[2:]))]


@row("LpPool", reads=f"{WINDOWS} ceil_mode p")
def _norms(node: OnnxNode, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    total = td.sum_pool(td.abs(x) ** number(x, p), *_fields(node, x))
    return total ** number(x, 1 / p)


@row("GlobalLpPool", reads="p")
def _global_norm(node: OnnxNode, x: Tensor) -> Tensor:
    p, axes = node.get("p", 2), tuple(range(2, x.type.ndim))
    total = td.sum(td.abs(x) ** number(x, p), axes, keepdims=True)
    return total ** number(x, 1 / p)


def _eps(node: OnnxNode, x: Tensor, default: float = 1e-5) -> Tensor:
    return number(x, node.get("epsilon", default))


def _stashed(node: OnnxNode) -> None:
    """Refuse statistics in another dtype than float32, or that of the values."""
    if node.get("stash_type", 1) != 1:
        raise ValueError(f"statistics in dtype {node.get('stash_type')} (stash_type)")


@row("BatchNormalization", reads="epsilon momentum spatial training_mode")
def _batch_norm(
    node: OnnxNode, x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor
) -> Any:
    if not node.get("spatial", 1):
        raise ValueError("statistics for each place of an image (spatial 0)")
    if not node.get("training_mode", 0):
        return td.batch_norm(x, mean, var, scale, b, 1, _eps(node, x))
    axes = tuple(k for k in range(x.type.ndim) if k != 1)
    seen = td.mean(x, axes), td.var(x, axes)
    y = td.batch_norm(x, *seen, scale, b, 1, _eps(node, x))
    share = node.get("momentum", 0.9)
    pairs = zip((mean, var), seen, strict=True)
    running = [
        old * number(old, share)
        + td.astype(new, old.type.dtype) * number(old, 1 - share)
        for old, new in pairs
    ]
    return (y, *running)[: max(len(node.outputs), 1)]


@row("GroupNormalization", reads="epsilon num_groups stash_type", first=21)
def _group_norm(node: OnnxNode, x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    _stashed(node)
    return td.group_norm(x, node.get("num_groups", 1), scale, b, _eps(node, x))


def _behind(node: OnnxNode, x: Tensor) -> tuple[int, ...]:
    _stashed(node)
    return tuple(range(axis_of(node.get("axis", -1), x), x.type.ndim))


def _without_more(message: Any) -> bool:
    """Return True if a normalization gives out its result alone."""
    return not any(message.output[1:])


@row("LayerNormalization", reads="axis epsilon stash_type", takes=_without_more)
def _layer_norm(node: OnnxNode, x: Tensor, scale: Tensor, b: Any = None) -> Tensor:
    y = td.standardize(x, _behind(node, x), _eps(node, x)) * scale
    return y if b is None else y + b


@row("RMSNormalization", reads="axis epsilon stash_type")
def _rms_norm(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    return td.rms_norm(x, None, _behind(node, x), _eps(node, x)) * scale


@row("LRN", reads="alpha beta bias size")
def _response(node: OnnxNode, x: Tensor) -> Tensor:
    size = node.get("size", 1)
    if size % 2 == 0:
        raise ValueError(f"an even number of channels: {size}")
    alpha, beta = node.get("alpha", 1e-4), node.get("beta", 0.75)
    return td.local_response_norm(x, size, alpha, beta, node.get("bias", 1.0))


@row("Gemm", reads="alpha beta transA transB")
def _gemm(node: OnnxNode, a: Tensor, b: Tensor, c: Any = None) -> Tensor:
    a = td.matrix_transpose(a) if node.get("transA", 0) else a
    b = td.matrix_transpose(b) if node.get("transB", 0) else b
    y = td.matmul(a, b)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    y = y if alpha == 1.0 else y * number(y, alpha)
    if c is None:
        return y
    return y + (c if beta == 1.0 else c * number(c, beta))


row("Einsum", reads="equation")(
    lambda node, *xs: td.einsum(node.get("equation", ""), *xs)
)
row("InstanceNormalization", reads="epsilon")(
    lambda node, x, scale, b: td.instance_norm(x, scale, b, _eps(node, x))
)


def _over_places(fold: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda node, x: fold(x, tuple(range(2, x.type.ndim)), keepdims=True)


row("GlobalAveragePool")(_over_places(td.mean))
row("GlobalMaxPool")(_over_places(td.max))
