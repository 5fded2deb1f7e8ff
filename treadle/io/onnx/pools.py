"""Importers of pools: greatest elements, averages and norms of windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.networks import WINDOWS, Pads, windows
from treadle.io.onnx.shapes import MOST
from treadle.io.onnx.table import Node, row

Fields = tuple[Any, Any, Pads, Any, bool]


def _fields(node: Node, x: Tensor) -> Fields:
    """Kernel, strides, padding, dilations, and whether a window may reach over."""
    kernel = tuple(node.get("kernel_shape", ()))
    strides, cover, apart = windows(node, x.type.shape[2:], kernel)
    return kernel, strides, cover, apart, bool(node.get("ceil_mode", 0))


@row("MaxPool", reads=f"{WINDOWS} ceil_mode storage_order")
def _max_pool(node: Node, x: Tensor) -> Any:
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
def _average(node: Node, x: Tensor) -> Tensor:
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
def _norms(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    total = td.sum_pool(td.abs(x) ** number(x, p), *_fields(node, x))
    return total ** number(x, 1 / p)


@row("GlobalAveragePool")
def _global_average(node: Node, x: Tensor) -> Tensor:
    return td.mean(x, tuple(range(2, x.type.ndim)), keepdims=True)


@row("GlobalMaxPool")
def _global_max(node: Node, x: Tensor) -> Tensor:
    return td.max(x, tuple(range(2, x.type.ndim)), keepdims=True)


@row("GlobalLpPool", reads="p")
def _global_norm(node: Node, x: Tensor) -> Tensor:
    p, axes = node.get("p", 2), tuple(range(2, x.type.ndim))
    total = td.sum(td.abs(x) ** number(x, p), axes, keepdims=True)
    return total ** number(x, 1 / p)
