"""Images read between their elements, at places that a grid tells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import as_shape
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.movement import reshape

__all__ = ["affine_grid", "grid_sample"]

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_SHARP = -0.75  # the slope of the cubic, as `upsample` has it


def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    whole_first: bool | None = None,
) -> Tensor:
    """x[n, c, *spatial] at places grid[n, *places, spatial], the last dimension first.

    -1 and 1 are the borders of x, or with `align_corners` the centers of its outer
    elements. `mode` is "bilinear", "nearest" or "bicubic"; beyond the borders are
    "zeros", the "border" or its "reflection", of a place before its elements are looked
    up, `whole_first` (torch: but for cubics), or of these.

    >>> image = td.asarray([[[[1.0, 3.0]]]])
    >>> grid_sample(image, [[[[0.0, 0.0], [0.5, 0.0]]]]).tolist()
    [[[[2.0, 3.0]]]]
    """
    node, places = as_float(x), as_float(grid)
    mode = _MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic"):
        raise ArgumentError(f"mode is {mode[:20]!r}").located("grid_sample")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(f"padding_mode is {padding_mode[:20]!r}").located(
            "grid_sample"
        )
    rank = node.type.ndim - 2
    if rank < 1 or places.type.ndim != rank + 2 or places.type.shape[-1] != rank:
        raise ShapeError(f"a grid {places.type} for {node.type}").located("grid_sample")
    at = []
    for k, m in enumerate(node.type.shape[2:]):
        v = places[..., rank - 1 - k] + 1.0  # columns come first
        at.append(v * ((m - 1) / 2) if align_corners else (v * m - 1.0) * 0.5)
    first = mode != "cubic" if whole_first is None else whole_first
    return read_between(node, at, mode, padding_mode, bool(align_corners), first)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` of matrices theta[n, d, d + 1]; `size` is the shape
    [n, c, *spatial] of what is sampled.

    >>> affine_grid([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    node = as_float(theta)
    n, _, *extents = as_shape(size)
    rank = len(extents)
    if node.type.shape != (n, rank, rank + 1):
        raise ShapeError(f"theta {node.type} for a size {tuple(size)}").located(
            "affine_grid"
        )
    lines = []
    for m in extents:
        line = np.linspace(-1.0, 1.0, m) if m > 1 else np.zeros(m)
        lines.append(line if align_corners else line * (m - 1) / max(m, 1))
    base = [*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(extents)]
    rows = np.stack(base, -1).reshape(-1, rank + 1).astype(node.type.dtype)
    turned = functions.swapaxes(node, 1, 2)
    return reshape(matmul(constant_node(rows), turned), (n, *extents, rank))


def read_between(
    x: Tensor,
    at: Sequence[Tensor],
    mode: str,
    padding: str,
    corners: bool,
    whole_first: bool = True,
) -> Tensor:
    """x[n, c, *spatial] at coordinates [n, *places], counted in elements, one tensor
    for each spatial dimension. `corners` tells where a reflection is, `whole_first`
    whether a place beyond a border is put inside before its elements are looked up.
    """
    n, c, *extents = x.type.shape
    places = at[0].type.shape[1:]
    borders = [(0.0, m - 1.0) if corners else (-0.5, m - 0.5) for m in extents]

    def inside(v: Tensor, m: int, border: tuple[float, float]) -> Tensor:
        if padding == "border":
            return _clipped(v, m)
        return _reflected(v, *border) if padding == "reflection" else v

    if mode == "nearest":
        at = [functions.round(v) for v in at]
    if whole_first and padding != "zeros":
        at = [
            _stopped(inside(v, m, border), m)
            for v, m, border in zip(at, extents, borders, strict=True)
        ]
    flat = reshape(x, (n, c, math.prod(extents)))
    total: Any = None
    for corner in itertools.product(*[_taps(v, mode) for v in at]):
        place, weight, seen = None, None, None
        for (i, w), m, border in zip(corner, extents, borders, strict=True):
            if padding == "zeros":
                good = functions.logical_and(i >= 0, i <= m - 1)
                seen = good if seen is None else functions.logical_and(seen, good)
            else:
                i = inside(i, m, border)
            whole = astype(_clipped(functions.trunc(i), m), np.int64)
            place = whole if place is None else place * m + whole
            weight = w if weight is None else weight * w
        ids = reshape(as_tensor(place), (n, 1, -1))
        wide = functions.broadcast_to(ids, (n, c, ids.type.shape[-1]))
        values = functions.take_along_axis(flat, wide, 2)
        values = reshape(values, (n, c, *places))
        if seen is not None:
            values = functions.where(functions.expand_dims(seen, 1), values, 0)
        if weight is not None:
            values = values * astype(functions.expand_dims(weight, 1), x.type.dtype)
        total = values if total is None else total + values
    return total


def _clipped(v: Tensor, m: int) -> Tensor:
    return functions.clip(v, 0.0, m - 1.0)


def _stopped(v: Tensor, m: int) -> Tensor:
    """Coordinates between 0 and m - 1, of which those at an end have no derivative."""
    between = functions.logical_and(v > 0, v < m - 1)
    return functions.where(between, v, functions.stop_gradient(_clipped(v, m)))


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates reflected at the borders until they lie between them."""
    if high <= low:
        return x * 0.0 + low
    span = high - low
    distance = functions.abs(x - low)
    turns = functions.floor(distance / span)
    rest = distance - turns * span
    even = functions.remainder(turns, 2.0) == 0
    return functions.where(even, rest, span - rest) + low


def _taps(v: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """The elements that one along a dimension is computed from, and their weights."""
    if mode == "nearest":
        return [(v, None)]
    low: Tensor = functions.floor(v)
    t = v - low
    if mode == "linear":
        return [(low, 1.0 - t), (low + 1.0, t)]
    a = _SHARP

    def far(d: Tensor) -> Tensor:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    def near(d: Tensor) -> Tensor:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0

    weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    return [(low + float(k), w) for k, w in zip((-1, 0, 1, 2), weights, strict=True)]
