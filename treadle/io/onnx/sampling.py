"""Importers of ops that read images between their elements: grids, regions, offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.graph.tensor import Tensor
from treadle.io.onnx.table import Node, row
from treadle.nn.grids import grid_sample, read_between

_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@row("GridSample", reads="align_corners mode padding_mode")
def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    padding, corners = node.get("padding_mode", "zeros"), node.get("align_corners", 0)
    mode = _MODES.get(node.get("mode", "linear"), node.get("mode", "linear"))
    # Cubics of places beyond a border are not torch's.
    return grid_sample(x, grid, mode, padding, bool(corners), whole_first=True)


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
    values = read_between(split, at, "linear", "zeros", True)
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
