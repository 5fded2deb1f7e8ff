"""Images in another size: elements repeated, lines or cubics drawn between them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import constant_node
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.naming import by_role
from treadle.ops.pick import take
from treadle.ops.pooling import adaptive_avg_pool, plane
from treadle.ops.window import spatial

__all__ = ["upsample"]

LINEAR = ("linear", "bilinear", "trilinear")
CUBIC = ("cubic", "bicubic")
NEAREST = ("nearest", "nearest-exact")
_SHARP = -0.75  # the slope of the cubic, Keys 1981; as torch and OpenCV have it


@provide
@by_role()
def upsample(
    x: Any,
    scale: Any = None,
    mode: str = "nearest",
    *,
    align_corners: bool = False,
    size: Any = None,
) -> Tensor:
    """x[n, c, *spatial] with floor(`scale` n) elements for n along each dimension.

    `scale` is a number, or one for each; `size` says the extents instead. "nearest"
    repeats elements by their corners, "nearest-exact" by their centers; "linear" (or
    "bilinear", "trilinear") and "cubic" ("bicubic") interpolate between the centers,
    and beyond the outer ones repeat them. With `align_corners` the outer centers keep
    their places instead. "area" averages. As torch's interpolate.

    >>> td.upsample([[[1.0, 2.0]]], 2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    >>> td.upsample([[[1.0, 2.0]]], 2, "linear").tolist()
    [[[1.0, 1.25, 1.75, 2.0]]]
    >>> td.upsample([[[1.0, 2.0, 3.0, 4.0]]], size=3).tolist()
    [[[1.0, 2.0, 3.0]]]
    """
    node, axes = plane(x)
    if mode not in (*NEAREST, *LINEAR, *CUBIC, "area"):
        known = ", ".join(map(repr, (*NEAREST, *LINEAR, *CUBIC, "area")))
        raise ArgumentError(f"mode {mode!r} is none of {known}").located("upsample")
    if align_corners and mode not in (*LINEAR, *CUBIC):
        raise ArgumentError(
            f"align_corners is of linear and cubic modes, not of {mode!r}"
        ).located("upsample")
    extents = node.type.shape[2:]
    results, steps = _sized(extents, scale, size)
    if mode == "area":
        return adaptive_avg_pool(node, results)
    pairs = zip(extents, results, strict=True)
    whole = [m // n if n and m % n == 0 else 0 for n, m in pairs]
    if mode in NEAREST and all(whole) and steps == [1 / k for k in whole]:
        return _repeated(node, tuple(whole))
    node = node if mode in NEAREST else as_float(node)
    for axis, n, m, step in zip(axes, extents, results, steps, strict=True):
        # As torch: where the number of elements stays, or doubles, in these modes the
        # scale itself is not heeded.
        if n and (
            (mode in LINEAR and m == n)
            or (mode == "nearest" and len(axes) == 2 and m in (n, 2 * n))
        ):
            step = n / m
        if m != n or step != 1:
            node = _drawn(node, axis, _places(n, m, step, mode, align_corners), mode)
    return node


def _sized(
    extents: tuple[int, ...], scale: Any, size: Any
) -> tuple[tuple[int, ...], list[float]]:
    """The extents of the result, and how far apart its elements are in the input."""
    rank = len(extents)
    if (scale is None) == (size is None):
        raise ArgumentError("takes a scale or a size").located("upsample")
    if size is not None:
        results = spatial(size, rank, "size")
        steps = [n / m if m else 1.0 for n, m in zip(extents, results, strict=True)]
    else:
        times = (scale,) * rank if np.ndim(scale) == 0 else tuple(scale)
        good = all(isinstance(k, (int, float, np.number)) and k > 0 for k in times)
        if len(times) != rank or not good:
            raise ArgumentError(
                f"scale is a number above 0 or {rank} of them, not {scale!r}"
            ).located("upsample")
        results = tuple(
            math.floor(n * float(k)) for n, k in zip(extents, times, strict=True)
        )
        steps = [1 / float(k) for k in times]
    if any(n and m < 1 for n, m in zip(extents, results, strict=True)):
        raise ArgumentError(f"{extents} becomes {results}").located("upsample")
    return results, steps


def _places(n: int, m: int, step: float, mode: str, corners: bool) -> Array:
    """The places of a result's elements, counted in elements of the input."""
    i = np.arange(m)
    if mode in NEAREST:  # in float32, as torch rounds them
        exact = np.float32(0.5 if mode == "nearest-exact" else 0.0)
        return np.floor((i.astype(np.float32) + exact) * np.float32(step))
    if corners:
        return i * ((n - 1) / (m - 1) if m > 1 else 0.0)
    at: Array = (i + 0.5) * step - 0.5
    return at if mode in CUBIC else np.clip(at, 0, max(n - 1, 0))


def _drawn(x: Tensor, axis: int, at: Array, mode: str) -> Tensor:
    """The values of x at places along `axis`, which lie between its elements."""
    last = x.type.shape[axis] - 1
    low = np.floor(at).astype(np.int64)
    if mode in NEAREST:
        return take(x, np.minimum(low, last), axis)
    shape = [-1 if d == axis else 1 for d in range(x.type.ndim)]

    def column(values: Array) -> Tensor:
        return constant_node(values.astype(x.type.dtype).reshape(shape))

    def element(k: int) -> Tensor:
        return take(x, np.clip(low + k, 0, last), axis)

    if mode in LINEAR:
        return element(0) * column(low + 1 - at) + element(1) * column(at - low)
    parts = [element(k) * column(_cubic(np.abs(at - low - k))) for k in (-1, 0, 1, 2)]
    return parts[0] + parts[1] + parts[2] + parts[3]


def _cubic(d: Array) -> Array:
    """The weights of elements at these distances by Keys' cubic."""
    near = ((_SHARP + 2) * d - (_SHARP + 3)) * d * d + 1
    far = ((_SHARP * d - 5 * _SHARP) * d + 8 * _SHARP) * d - 4 * _SHARP
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _repeated(x: Tensor, times: tuple[int, ...]) -> Tensor:
    shape = x.type.shape
    thin, wide = list(shape[:2]), list(shape[:2])
    for n, k in zip(shape[2:], times, strict=True):
        thin += [n, 1]
        wide += [n, k]
    result = [n * k for n, k in zip(shape[2:], times, strict=True)]
    spread = broadcast_to(reshape(x, thin), tuple(wide))
    return reshape(spread, (*shape[:2], *result))
