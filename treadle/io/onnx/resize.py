"""Importers of ops that read images between their elements: sizes, grids, regions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.graph.leaves import constant_node
from treadle.graph.tensor import Tensor
from treadle.io.files import check_shape
from treadle.io.onnx.table import OnnxNode, axis_of, integers, row
from treadle.nn.grids import grid_sample, read_between

_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_PLACES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


@dataclass(frozen=True)
class Way:
    """The mode of a Resize node: how elements are placed and weighted."""

    mode: str
    where: str
    rounding: str
    cubic: float = -0.75
    exclude: bool = False
    antialias: bool = False
    outside: float = 0.0

    def __post_init__(self) -> None:
        modes = ("nearest", "linear", "cubic")
        for word, known in (
            (self.mode, modes),
            (self.where, _PLACES),
            (self.rounding, _NEAREST),
        ):
            if word not in known:
                raise ValueError(f"{word[:30]!r} is none of {', '.join(known)}")


_READS = (
    "mode coordinate_transformation_mode nearest_mode antialias axes cubic_coeff_a "
    "exclude_outside extrapolation_value keep_aspect_ratio_policy"
)


@row("Resize", reads=_READS, static=(1, 2, 3), first=10)
def _resize(node: OnnxNode, x: Tensor, *settings: Any) -> Tensor:
    if node.opset == 10:
        way = Way(node.get("mode", "nearest"), "asymmetric", "floor")
        return _resized(x, _pairs(x, settings[0]), way, {})
    roi, scales, sizes = (*settings, None, None, None)[:3]
    axes = node.get("axes")
    axes = range(x.type.ndim) if axes is None else axes
    places = [axis_of(a, x) for a in axes]
    way = Way(
        node.get("mode", "nearest"),
        node.get("coordinate_transformation_mode", "half_pixel"),
        node.get("nearest_mode", "round_prefer_floor"),
        node.get("cubic_coeff_a", -0.75),
        bool(node.get("exclude_outside", 0)),
        bool(node.get("antialias", 0)),
        node.get("extrapolation_value", 0.0),
    )
    if scales is not None and scales.size:
        pairs = _pairs(x, scales, places)
    elif sizes is not None:
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        pairs = _fitted(x, places, integers(sizes, "the sizes"), policy)
    else:
        raise ValueError("neither scales nor sizes")
    parts = {}
    if way.where == "tf_crop_and_resize":
        count = len(places)
        if roi is None or len(roi) != 2 * count:
            raise ValueError(f"a part to be cut of {count} dimensions is missing")
        ends = zip(places, roi[:count], roi[count:], strict=True)
        parts = {a: (float(low), float(high)) for a, low, high in ends}
    return _resized(x, pairs, way, parts)


@row("Upsample", reads="mode scales", static=(1,), last=9)
def _upsample(node: OnnxNode, x: Tensor, scales: Any = None) -> Tensor:
    factors = np.asarray(node.get("scales") if scales is None else scales)
    way = Way(node.get("mode", "nearest"), "asymmetric", "floor")
    return _resized(x, _pairs(x, factors), way, {})


Pairs = dict[int, tuple[int, float]]


def _pairs(x: Tensor, scales: Array, axes: Any = None) -> Pairs:
    """The extent of the result along each axis, and its scale."""
    places = range(x.type.ndim) if axes is None else axes
    if scales.ndim != 1 or len(scales) != len(places) or not (scales > 0).all():
        raise ValueError(f"scales {scales} of {x.type}")
    return {
        a: (math.floor(x.type.shape[a] * float(s)), float(s))
        for a, s in zip(places, scales, strict=True)
    }


def _fitted(x: Tensor, axes: list[int], sizes: tuple[int, ...], policy: str) -> Pairs:
    """The same for sizes, of which the aspect ratio may be kept."""
    if len(sizes) != len(axes):
        raise ValueError(f"{len(sizes)} sizes of {len(axes)} dimensions")
    ratios = [m / max(x.type.shape[a], 1) for a, m in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return {a: (m, r) for a, m, r in zip(axes, sizes, ratios, strict=True)}
    if policy not in ("not_larger", "not_smaller"):
        raise ValueError(f"the aspect ratio is {policy[:20]!r}")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return {a: (math.floor(x.type.shape[a] * ratio + 0.5), ratio) for a in axes}


def _resized(
    x: Tensor, pairs: Pairs, way: Way, parts: dict[int, tuple[float, float]]
) -> Tensor:
    check_shape(
        tuple(pairs.get(k, (n, 1.0))[0] for k, n in enumerate(x.type.shape)),
        x.type.dtype,
    )
    repeated = _repeated(x, pairs, way)
    if repeated is not None:
        return repeated
    y, dtype = x, x.type.dtype
    if way.mode != "nearest" and dtype.kind in "iub":
        y = td.astype(x, td.float32)
    outside: Any = None
    for axis, (m, scale) in pairs.items():
        n = x.type.shape[axis]
        if m == n and scale == 1 and axis not in parts:
            continue
        at = _sources(n, m, scale, way.where, parts.get(axis, (0.0, 1.0)))
        y = _drawn(y, axis, at, min(scale, 1.0), way)
        if axis in parts:
            lined = [-1 if k == axis else 1 for k in range(x.type.ndim)]
            beyond = ((at < 0) | (at > n - 1)).reshape(lined)
            outside = beyond if outside is None else outside | beyond
    if outside is not None and outside.any():
        border = td.asarray(np.array(way.outside, y.type.dtype))
        y = td.where(td.asarray(outside), border, y)
    return td.astype(td.round(y), dtype) if y.type.dtype != dtype else y


def _repeated(x: Tensor, pairs: Pairs, way: Way) -> Tensor | None:
    """Elements of images repeated, which is what most files ask for."""
    times = [pairs.get(k, (n, 1.0)) for k, n in enumerate(x.type.shape)]
    centered = way.where in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    plain = (way.where, way.rounding) == ("asymmetric", "floor") or (
        centered and way.rounding.startswith("round_prefer")
    )
    whole = all(s == int(s) and s >= 1 for _, s in times)
    if way.mode != "nearest" or not plain or not whole or x.type.ndim < 3:
        return None
    if times[0][1] != 1 or times[1][1] != 1 or 0 in x.type.shape:
        return None
    return td.upsample(x, [int(s) for _, s in times[2:]])


def _sources(
    n: int, m: int, scale: float, where: str, part: tuple[float, float]
) -> Array:
    """The positions of a result's elements, in elements of the input."""
    i = np.arange(m, dtype=np.float64)
    if where == "asymmetric":
        return i / scale
    if where == "align_corners":
        wide = scale * n
        return i * 0 if wide == 1 else i * (n - 1) / (wide - 1)
    if where == "tf_crop_and_resize":
        start, end = part
        if m > 1:
            return start * (n - 1) + i * (end - start) * (n - 1) / (m - 1)
        return i * 0 + 0.5 * (start + end) * (n - 1)
    if where == "pytorch_half_pixel" and m == 1:
        return i * 0
    middle = (i + 0.5) / scale - 0.5
    if where == "half_pixel_symmetric":
        middle += n / 2 * (1 - m / (scale * n))
    return middle


def _drawn(x: Tensor, axis: int, at: Array, scale: float, way: Way) -> Tensor:
    """The values of x at places along `axis`."""
    last = x.type.shape[axis] - 1
    if way.mode == "nearest":
        ids = {
            "round_prefer_floor": lambda: np.ceil(at - 0.5),
            "round_prefer_ceil": lambda: np.floor(at + 0.5),
            "floor": lambda: np.floor(at),
            "ceil": lambda: np.ceil(at),
        }[way.rounding]()
        return td.take(x, np.clip(ids, 0, last).astype(np.int64), axis)
    scale = scale if way.antialias else 1.0
    reach = 1 if way.mode == "linear" else 2
    low = np.floor(at)
    start = math.floor(-reach / scale) + 1
    steps = np.arange(start, 2 - start)
    distance = np.abs((steps[:, None] - (at - low)[None]) * scale)
    weights = _weights(distance, way)
    ids = (low[None] + steps[:, None]).astype(np.int64)
    if way.exclude:
        weights = np.where((ids < 0) | (ids > last), 0, weights)
    if way.exclude or way.antialias:
        weights = weights / weights.sum(0)
    shape = [-1 if k == axis else 1 for k in range(x.type.ndim)]
    total: Any = None
    for tap, column in zip(np.clip(ids, 0, last), weights, strict=True):
        if not column.any():
            continue
        factor = constant_node(column.astype(x.type.dtype).reshape(shape))
        term = td.take(x, tap, axis) * factor
        total = term if total is None else total + term
    return total


def _weights(d: Array, way: Way) -> Array:
    """The weights of elements at these distances: a triangle, or Keys' cubic."""
    if way.mode == "linear":
        return np.clip(1 - d, 0, 1)
    a = way.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@row("GridSample", reads="align_corners mode padding_mode")
def _grid_sample(node: OnnxNode, x: Tensor, grid: Tensor) -> Tensor:
    padding, corners = node.get("padding_mode", "zeros"), node.get("align_corners", 0)
    mode = _MODES.get(node.get("mode", "linear"), node.get("mode", "linear"))
    # Cubics of places beyond a border are not torch's.
    return grid_sample(x, grid, mode, padding, bool(corners), whole_first=True)


_DEFORM = "dilations group kernel_shape offset_group pads strides"


@row("DeformConv", reads=_DEFORM)
def _deformed(
    node: OnnxNode,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Any = None,
    mask: Any = None,
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
def _roi_align(node: OnnxNode, x: Tensor, regions: Array, batches: Array) -> Tensor:
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
