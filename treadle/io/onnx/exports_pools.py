"""Exporters of windows: pools, convolutions back, and windows as columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.graph.tensor import Tensor
from treadle.io.onnx.exports_elements import number
from treadle.io.onnx.writer import Writer, export
from treadle.ops.window import windows_along

_MOST_TAPS = 16  # from which on a row of a pool is faster as a reduction


def sliding(op: Any) -> dict[str, Any]:
    """The attributes of windows that slide."""
    pads = [a for a, _ in op.padding] + [b for _, b in op.padding]
    return {"strides": op.stride, "pads": pads, "dilations": op.dilation}


def _padded(w: Writer, node: Tensor, x: str) -> str:
    """The operand of windows with a border of zeros written out."""
    op: Any = node.op
    if not any(map(any, op.padding)):
        return x
    widths = ((0, 0), (0, 0), *op.padding)
    pads = [a for a, _ in widths] + [b for _, b in widths]
    return w.add("Pad", x, w.integers(pads), number(w, node, 0), mode="constant")


def _reduced(w: Writer, node: Tensor, x: str, kind: str) -> str | None:
    """A pool of whole planes, or of long rows side by side, as a reduction."""
    op: Any = node.op
    shape = node.inputs[0].type.shape
    plain = set(op.dilation) == {1} and not any(map(any, op.padding))
    if not plain or not all(shape):
        return None
    if op.kernel == shape[2:]:
        return w.add(kind, x, w.integers(range(2, len(shape))), keepdims=1)
    (k,) = op.kernel if len(op.kernel) == 1 else (0,)
    if k < _MOST_TAPS or op.stride != (k,) or shape[2] % k:
        return None
    rows = w.add("Reshape", x, w.integers([*shape[:2], shape[2] // k, k]))
    return w.add(kind, rows, w.integers([3]), keepdims=0)


@export("MaxPool")
def _max_pool(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    whole = None
    if node.type.dtype.kind == "f":
        whole = _reduced(w, node, x, "ReduceMax")
    return whole or w.add("MaxPool", x, kernel_shape=op.kernel, **sliding(op))


@export("MaxPoolPositions")
def _max_pool_positions(w: Writer, node: Tensor, x: str) -> str:
    # ONNX counts through the whole array, and positions are those of a plane.
    op: Any = node.op
    kernel = {"kernel_shape": op.kernel, **sliding(op)}
    places = w.several("MaxPool", 2, x, **kernel)[1]
    plane = math.prod(node.inputs[0].type.shape[2:])
    return w.add("Mod", places, w.array(plane, np.int64))


@export("ConvWeightGradient")
def _conv_weight_gradient(w: Writer, node: Tensor, x: str, g: str) -> str:
    """The convolution of channels as examples by gradients as weights: a step between
    windows is one between elements of these, and the other way around.
    """
    op: Any = node.op
    n, channels, *space = node.inputs[0].type.shape
    order = [1, 0, *range(2, node.type.ndim)]
    if op.groups == 1:
        x = w.add("Transpose", x, perm=order)
    else:
        width = channels // op.groups
        x = w.add("Reshape", x, w.integers([n, op.groups, width, *space]))
        x = w.add("Transpose", x, perm=[2, 1, 0, *range(3, node.type.ndim + 1)])
        x = w.add("Reshape", x, w.integers([width, op.groups * n, *space]))
    fields = sliding(op)
    fields["strides"], fields["dilations"] = fields["dilations"], fields["strides"]
    rows = w.add("Transpose", g, perm=order)
    y = w.add("Conv", x, rows, group=op.groups, **fields)
    # Where windows leave out the last elements, more of these come than a kernel has.
    axes = range(2, node.type.ndim)
    ends = w.integers([0] * len(axes)), w.integers(op.kernel), w.integers(axes)
    return w.add("Transpose", w.add("Slice", y, *ends), perm=order)


def _average_pool(w: Writer, node: Tensor, x: str) -> str:
    """Averages of the windows of a SumPool; a border of zeros is written out."""
    op: Any = node.op
    whole = _reduced(w, node, x, "ReduceMean")
    if whole is not None:
        return whole
    fields = sliding(op)
    x = _padded(w, node, x)
    fields["pads"] = [0] * len(fields["pads"])
    return _averages(w, op, x, fields)


def _averages(w: Writer, op: Any, x: str, fields: dict[str, Any]) -> str:
    if set(op.dilation) == {1}:
        del fields["dilations"]
    return w.add("AveragePool", x, kernel_shape=op.kernel, **fields)


@export("SumPool")
def _sum_pool(w: Writer, node: Tensor, x: str) -> str:
    whole = _reduced(w, node, x, "ReduceSum")
    if whole is not None:
        return whole
    op: Any = node.op  # a sum is the average times the count
    count = number(w, node, math.prod(op.kernel))
    return w.add("Mul", _average_pool(w, node, x), count)


@export("Divide")
def _divide(w: Writer, node: Tensor, x: str, y: str) -> str:
    """A quotient, or the averages that sums of windows over their counts are."""
    sums, count = node.inputs
    op: Any = sums.op
    if op.name == "SumPool" and count.stored is not None and not count.inputs:
        counts = np.asarray(count.array)
        pooled = w.name_of(sums.inputs[0])
        if not counts.shape and counts == math.prod(op.kernel):
            return _average_pool(w, sums, pooled)
        inside = np.ones((1, 1, *sums.inputs[0].type.shape[2:]), counts.dtype)
        seen = op.numpy(inside)
        # Each window has an element inside; ONNX leaves those outside uncounted.
        if counts.shape == seen.shape and (counts == seen).all() and seen.all():
            return _averages(w, op, pooled, sliding(op))
    return w.add("Div", x, y)


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
        **sliding(op),
    )


@export("Unfold")
def _unfold(w: Writer, node: Tensor, x: str) -> str:
    """Windows as columns: rows of places along each axis, one after the other."""
    op: Any = node.op
    shape, rank = node.inputs[0].type.shape, len(op.kernel)
    x = _padded(w, node, x)
    counts = windows_along(shape[2:], op.kernel, *op.sliding)
    steps = zip(op.kernel, counts, op.stride, op.dilation, strict=True)
    for k, (taps, count, stride, apart) in enumerate(steps):
        places = np.arange(taps)[:, None] * apart + np.arange(count) * stride
        x = w.add("Gather", x, w.array(places, np.int64), axis=2 + 2 * k)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    lines = w.add("Transpose", x, perm=order)
    return w.add("Reshape", lines, w.integers(node.type.shape), allowzero=0)


@export("Fold")
def _fold(w: Writer, node: Tensor, x: str) -> str:
    op: Any = node.op
    block = w.integers(op.kernel)
    return w.add("Col2Im", x, w.integers(op.extents), block, **sliding(op))
