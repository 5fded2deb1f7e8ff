"""Importers of ops that read images between their elements: grids, regions, offsets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.table import Node, row

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates reflected at the borders until they lie between them."""
    if high <= low:
        return x * number(x, 0) + number(x, low)
    span = number(x, high - low)
    distance = td.abs(x - number(x, low))
    turns = td.floor(distance / span)
    rest = distance - turns * span
    even = td.remainder(turns, number(x, 2)) == 0
    return number(x, low) + td.where(even, rest, span - rest)


def _sampled(
    x: Tensor, at: Sequence[Tensor], mode: str, padding: str, corners: bool
) -> Tensor:
    """x[n, c, *spatial] at coordinates [n, *places], counted in elements."""
    n, c, *extents = x.type.shape
    places = at[0].type.shape[1:]
    borders = [(0.0, m - 1.0) if corners else (-0.5, m - 0.5) for m in extents]

    def inside(v: Tensor, m: int, border: tuple[float, float]) -> Tensor:
        if padding == "border":
            return td.clip(v, 0.0, m - 1.0)
        return _reflected(v, *border) if padding == "reflection" else v

    if mode == "nearest":
        at = [td.round(v) for v in at]
    at = [inside(*parts) for parts in zip(at, extents, borders, strict=True)]
    flat = td.reshape(x, (n, c, int(np.prod(extents))))
    taps = [_taps(v, mode) for v in at]
    total: Any = None
    for corner in itertools.product(*taps):
        place, weight, seen = None, None, None
        for (i, w), m, border in zip(corner, extents, borders, strict=True):
            if padding == "zeros":
                good = td.logical_and(i >= 0, i <= m - 1)
                seen = good if seen is None else td.logical_and(seen, good)
            else:
                i = inside(i, m, border)
            whole = td.astype(td.clip(td.trunc(i), 0.0, m - 1.0), td.int64)
            place = whole if place is None else place * m + whole
            weight = w if weight is None else weight * w
        ids = td.reshape(place, (n, 1, -1))
        wide = td.broadcast_to(ids, (n, c, ids.type.shape[-1]))
        values = td.reshape(td.take_along_axis(flat, wide, 2), (n, c, *places))
        if seen is not None:
            values = td.where(td.expand_dims(seen, 1), values, number(values, 0))
        if weight is not None:
            values = values * td.astype(td.expand_dims(weight, 1), x.type.dtype)
        total = values if total is None else total + values
    return total


def _taps(v: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """The elements that one along a dimension is made of, and their weights."""
    if mode == "nearest":
        return [(v, None)]
    low = td.floor(v)
    t = v - low
    one = number(v, 1)
    if mode == "linear":
        return [(low, one - t), (low + one, t)]
    a = -0.75

    def far(d: Tensor) -> Tensor:
        return ((number(v, a) * d - number(v, 5 * a)) * d + number(v, 8 * a)) * d - (
            number(v, 4 * a)
        )

    def near(d: Tensor) -> Tensor:
        return (number(v, a + 2) * d - number(v, a + 3)) * d * d + one

    steps = [number(v, k) for k in (-1, 0, 1, 2)]
    weights = [far(t + one), near(t), near(one - t), far(number(v, 2) - t)]
    return [(low + s, w) for s, w in zip(steps, weights, strict=True)]


@row("GridSample", reads="align_corners mode padding_mode")
def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    mode = node.get("mode", "linear")
    mode, padding = _MODES.get(mode, mode), node.get("padding_mode", "zeros")
    corners = bool(node.get("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic"):
        raise ValueError(f"mode is {mode[:20]!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise ValueError(f"padding_mode is {padding[:20]!r}")
    rank = x.type.ndim - 2
    if grid.type.ndim != x.type.ndim or grid.type.shape[-1] != rank:
        raise ValueError(f"a grid {grid.type} for {x.type}")
    at = []
    for k, m in enumerate(x.type.shape[2:]):
        v = grid[..., rank - 1 - k] + number(grid, 1)  # columns come first
        if corners:
            at.append(v * number(v, (m - 1) / 2))
        else:
            at.append((v * number(v, m) - number(v, 1)) * number(v, 0.5))
    return _sampled(x, at, mode, padding, corners)


_DEFORM = "dilations group kernel_shape offset_group pads strides"


@row("DeformConv", reads=_DEFORM)
def _deformed(
    node: Node, x: Tensor, w: Tensor, offset: Tensor, b: Any = None, mask: Any = None
) -> Tensor:
    n, c, *_ = x.type.shape
    kernel = w.type.shape[2:]
    rank, size = len(kernel), int(np.prod(kernel))
    if node.get("kernel_shape", kernel) != kernel or rank != x.type.ndim - 2:
        raise ValueError(f"a kernel {kernel} over {x.type}")
    groups, parts = node.get("group", 1), node.get("offset_group", 1)
    apart, steps = node.get("dilations", (1,) * rank), node.get("strides", (1,) * rank)
    pads, places = node.get("pads", (0,) * 2 * rank), offset.type.shape[2:]
    offsets = td.reshape(offset, (n * parts, size, rank, *places))
    at = []
    for k in range(rank):
        i = np.arange(places[k]) * steps[k] - pads[k]
        i = i.reshape([-1 if j == k else 1 for j in range(rank)])
        j = np.indices(kernel)[k].reshape(-1, *[1] * rank) * apart[k]
        base = td.asarray((i + j).astype(offset.type.dtype))
        at.append(offsets[:, :, k] + base)
    split = td.reshape(x, (n * parts, c // parts, *x.type.shape[2:]))
    values = _sampled(split, at, "linear", "zeros", True)
    if mask is not None:
        values = values * td.reshape(mask, (n * parts, 1, size, *places))
    columns = td.reshape(values, (n, groups, c // groups * size, -1))
    rows = td.reshape(w, (groups, w.type.shape[0] // groups, -1))
    y = td.reshape(td.matmul(rows, columns), (n, w.type.shape[0], *places))
    return y if b is None else y + td.reshape(b, (-1, *[1] * rank))


# -- regions -----------------------------------------------------------------------

_ROI = (
    "coordinate_transformation_mode mode output_height output_width sampling_ratio "
    "spatial_scale"
)


@row("RoiAlign", reads=_ROI, static=(1, 2))
def _roi_align(node: Node, x: Tensor, regions: Array, batches: Array) -> Tensor:
    where = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    where = node.get("coordinate_transformation_mode", where)
    mode = node.get("mode", "avg")
    if where not in ("half_pixel", "output_half_pixel") or mode not in ("avg", "max"):
        raise ValueError(f"mode {mode[:20]!r} with {where[:20]!r}")
    extents = node.get("output_height", 1), node.get("output_width", 1)
    ratio = node.get("sampling_ratio", 0)
    if regions.ndim != 2 or regions.shape[1] != 4 or not len(regions):
        raise ValueError(f"regions {regions.shape}")
    shift = 0.5 if where == "half_pixel" else 0.0
    boxes = regions.astype(np.float64) * node.get("spatial_scale", 1.0) - shift
    results = []
    for (left, top, right, bottom), k in zip(boxes, batches.reshape(-1), strict=True):
        lines = []
        for low, high, count, m in zip(
            (top, left), (bottom, right), extents, x.type.shape[2:], strict=True
        ):
            size = high - low if shift else max(high - low, 1.0)
            lines.append(_lines(low, size / count, count, ratio, m))
        image = x[int(k)]
        if mode == "avg":
            (rows, columns) = (
                td.asarray((i.sum(-2)).mean(1).astype(x.type.dtype)) for i in lines
            )
            results.append(td.einsum("oh,chw,pw->cop", rows, image, columns))
        else:
            results.append(_largest(image, *lines))
    return td.stack(results)


def _lines(start: float, bin_: float, count: int, ratio: int, m: int) -> Array:
    """The weights [bins, samples, 2, m] of the two elements around each sample."""
    samples = ratio if ratio > 0 else max(int(np.ceil(bin_)), 1)
    steps = np.arange(count)[:, None] + (np.arange(samples) + 0.5) / samples
    at = start + steps * bin_
    good = (at >= -1.0) & (at <= m)
    at = np.clip(at, 0, m - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, m - 1)
    weights = np.zeros((count, samples, 2, m))
    for side, (place, share) in enumerate(((low, 1 - at + low), (high, at - low))):
        np.put_along_axis(weights[:, :, side], place[..., None], share[..., None], -1)
    return weights * good[..., None, None]


def _largest(image: Tensor, rows: Array, columns: Array) -> Tensor:
    """The greatest weighted element of each bin, as ONNX Runtime takes it."""
    dtype = image.type.dtype
    a, b = (td.asarray(w.astype(dtype)) for w in (rows, columns))
    values = td.einsum("oskh,chw->coskw", a, image)
    values = td.einsum("coskw,ptlw->coskptl", values, b)
    return td.max(values, (2, 3, 5, 6))
