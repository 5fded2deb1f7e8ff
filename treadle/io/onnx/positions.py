"""Importers of ops that read, write and find elements by their positions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.graph.tensor import Tensor
from treadle.io.files import check_shape
from treadle.io.onnx.table import OnnxNode, axis_of, integers, row

MOST = 1 << 20  # elements of what a node makes out of nothing


@row("GatherND", reads="batch_dims")
def _gather_nd(node: OnnxNode, x: Tensor, ids: Tensor) -> Tensor:
    batch, count = node.get("batch_dims", 0), ids.type.shape[-1]
    if not 0 <= batch < min(ids.type.ndim, x.type.ndim):
        raise ValueError(f"{batch} batch dimensions of {ids.type} in {x.type}")
    if not 0 < count <= x.type.ndim - batch:
        raise ValueError(f"positions {ids.type} in {x.type}")
    shape = (*x.type.shape[:batch], *[1] * (ids.type.ndim - 1 - batch))
    led = _grid(shape)[:batch]
    return x[(*led, *[ids[..., k] for k in range(count)])]


def _grid(shape: tuple[int, ...]) -> list[Tensor]:
    """The positions along each axis, to be broadcast against one another."""
    return [td.asarray(k) for k in np.ogrid[tuple(map(slice, shape))]]


_REDUCTIONS = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _put(x: Tensor, key: tuple[Any, ...], updates: Tensor, how: str) -> Tensor:
    """x with elements at positions replaced by updates, or combined with them."""
    part = x.at[key]
    if how == "none":
        return part.set(updates)
    if how not in _REDUCTIONS:
        raise ValueError(f"reduction is {how[:20]!r}")
    change: Any = getattr(part, _REDUCTIONS[how])
    return change(updates)


@row("ScatterND", reads="reduction")
def _scatter_nd(node: OnnxNode, x: Tensor, ids: Tensor, updates: Tensor) -> Tensor:
    count = ids.type.shape[-1]
    if not 0 < count <= x.type.ndim:
        raise ValueError(f"positions {ids.type} in {x.type}")
    key = tuple(ids[..., k] for k in range(count))
    return _put(x, key, updates, node.get("reduction", "none"))


def _scattered(
    node: OnnxNode, x: Tensor, ids: Tensor, updates: Tensor, how: str
) -> Tensor:
    axis = axis_of(node.get("axis", 0), x)
    if ids.type.shape != updates.type.shape or ids.type.ndim != x.type.ndim:
        raise ValueError(f"positions {ids.type} and updates {updates.type} in {x.type}")
    grid = _grid(ids.type.shape)
    grid[axis] = ids
    return _put(x, tuple(grid), updates, how)


row("Scatter", reads="axis")(functools.partial(_scattered, how="none"))
row("ScatterElements", reads="axis reduction")(
    lambda node, x, i, e: _scattered(node, x, i, e, node.get("reduction", "none"))
)


@row("TensorScatter", reads="axis mode")
def _cached(node: OnnxNode, past: Tensor, update: Tensor, starts: Any = None) -> Tensor:
    axis, mode = axis_of(node.get("axis", -2), past), node.get("mode", "linear")
    if mode not in ("linear", "circular") or axis == 0:
        raise ValueError(f"mode {mode[:20]!r} along axis {axis}")
    grid = _grid(update.type.shape)
    places = grid[axis]
    if starts is not None:
        ones = (1,) * (past.type.ndim - 1)
        places = places + td.reshape(td.astype(starts, td.int64), (-1, *ones))
    if mode == "circular":
        places = td.remainder(places, past.type.shape[axis])
    grid[axis] = places
    return past.at[tuple(grid)].set(update)


@row("ReverseSequence", reads="batch_axis time_axis")
def _reversed(node: OnnxNode, x: Tensor, lengths: Tensor) -> Tensor:
    batch = axis_of(node.get("batch_axis", 1), x)
    time = axis_of(node.get("time_axis", 0), x)
    if batch == time or lengths.type.ndim != 1:
        raise ValueError(f"lengths {lengths.type} of axis {time}, batches {batch}")
    steps = np.arange(x.type.shape[time])

    def lined(v: Tensor, axis: int) -> Tensor:
        return td.reshape(v, tuple(-1 if k == axis else 1 for k in range(x.type.ndim)))

    t = lined(td.asarray(steps), time)
    ends = lined(td.astype(lengths, td.int64), batch)
    places = td.where(t < ends, ends - 1 - t, t)
    return td.take_along_axis(x, td.broadcast_to(places, x.type.shape), time)


# -- what depends on values --------------------------------------------------------


@row("NonZero", static=(0,))
def _nonzero(node: OnnxNode, x: Array) -> Array:
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@row("Compress", reads="axis", static=(1,))
def _compress(node: OnnxNode, x: Tensor, condition: Array) -> Tensor:
    ids, axis = np.flatnonzero(condition), node.get("axis")
    if axis is None:
        return td.take(td.reshape(x, (-1,)), ids, 0)
    return td.take(x, ids, axis_of(axis, x))


@row("Unique", reads="axis sorted", static=(0,))
def _unique(node: OnnxNode, x: Array) -> tuple[Array, ...]:
    axis = node.get("axis")
    y, first, inverse, counts = np.unique(
        x, True, True, True, axis=axis, equal_nan=False
    )
    inverse = inverse.reshape(-1)
    if not node.get("sorted", 1):
        order = np.argsort(first)
        y = np.take(y, order, 0 if axis is None else axis)
        inverse, first, counts = np.argsort(order)[inverse], first[order], counts[order]
    places = (np.asarray(a, np.int64) for a in (first, inverse, counts))
    return (y, *places)


@row("NonMaxSuppression", reads="center_point_box", static=(-1,))
def _suppressed(
    node: OnnxNode,
    boxes: Array,
    scores: Array,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
) -> Array:
    count = 0 if most is None else integers(most, "the number of boxes")[0]
    limit = 0.0 if overlap is None else float(overlap.reshape(()))
    score = -math.inf if least is None else float(least.reshape(()))
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4:
        raise ValueError(f"boxes {boxes.shape} and scores {scores.shape}")
    chosen = []
    for n in range(scores.shape[0]):
        corners = _corners(boxes[n], node.get("center_point_box", 0))
        for c in range(scores.shape[1]):
            kept = _best(corners, scores[n, c], min(count, len(corners)), limit, score)
            chosen += [(n, c, k) for k in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centered: int) -> Array:
    """Boxes as their least and greatest coordinates (a, b, c, d): a <= c, b <= d."""
    if centered:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
    one, other = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], -1)


def _best(boxes: Array, scores: Array, most: int, limit: float, least: float) -> Any:
    """The boxes of the highest scores that overlap none that was taken before."""
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    order = np.argsort(-scores, kind="stable")
    left = order[scores[order] > least]
    kept: list[int] = []
    while len(left) and len(kept) < most:
        top, left = left[0], left[1:]
        kept.append(int(top))
        low = np.maximum(boxes[left, :2], boxes[top, :2])
        high = np.minimum(boxes[left, 2:], boxes[top, 2:])
        common = np.maximum(high - low, 0).prod(-1)
        whole = areas[left] + areas[top] - common
        left = left[common <= limit * whole]
    return kept


# -- pools by positions ------------------------------------------------------------


@row("MaxUnpool", reads="kernel_shape pads strides", static=(2,))
def _unpooled(node: OnnxNode, x: Tensor, ids: Tensor, shape: Any = None) -> Tensor:
    kernel = node.get("kernel_shape", ())
    rank = len(kernel)
    strides, pads = node.get("strides", (1,) * rank), node.get("pads", (0,) * 2 * rank)
    if not len(strides) == len(pads) / 2 == rank == x.type.ndim - 2:
        raise ValueError(f"a kernel {kernel} over {x.type}")
    spatial = [
        (n - 1) * s - pads[k] - pads[rank + k] + kernel[k]
        for k, (n, s) in enumerate(zip(x.type.shape[2:], strides, strict=True))
    ]
    pooled = (*x.type.shape[:2], *spatial)
    wanted = pooled if shape is None else integers(shape, "the shape")
    check_shape(wanted, x.type.dtype)
    if len(wanted) != len(pooled) or any(
        m < n for m, n in zip(wanted, pooled, strict=True)
    ):
        raise ValueError(f"{pooled} in a result {wanted}")
    zeros = td.zeros((math.prod(pooled),), dtype=x.type.dtype)
    flat = zeros.at[td.reshape(ids, (-1,))].set(td.reshape(x, (-1,)))
    widths = [(0, m - n) for m, n in zip(wanted, pooled, strict=True)]
    return td.pad(td.reshape(flat, pooled), widths)


@row("Col2Im", reads="dilations pads strides", static=(1, 2))
def _image(node: OnnxNode, x: Tensor, extents: Array, block: Array) -> Tensor:
    shape, kernel = integers(extents, "the image"), integers(block, "the block")
    rank = len(kernel)
    apart, steps = node.get("dilations", (1,) * rank), node.get("strides", (1,) * rank)
    pads = node.get("pads", (0,) * 2 * rank)
    if not len(shape) == len(apart) == len(steps) == len(pads) / 2 == rank:
        raise ValueError(f"a block {kernel} of an image {shape}")
    borders = [(pads[k], pads[rank + k]) for k in range(rank)]
    return td.fold(x, shape, kernel, apart, borders, steps)
