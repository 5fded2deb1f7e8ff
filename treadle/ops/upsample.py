"""Images made larger: elements repeated, or lines drawn between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import constant_node
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.naming import by_role
from treadle.ops.pick import take
from treadle.ops.pooling import plane
from treadle.ops.window import spatial

__all__ = ["upsample"]

LINEAR = ("linear", "bilinear", "trilinear")


@provide
@by_role()
def upsample(
    x: Any, scale: Any, mode: str = "nearest", *, align_corners: bool = False
) -> Tensor:
    """x[n, c, *spatial] with `scale` times as many elements along each dimension.

    "nearest" repeats each element; "linear" (or "bilinear", "trilinear") interpolates
    between the centers of elements, and beyond the outer ones repeats them. With
    `align_corners` the outer centers keep their places instead.

    >>> import treadle as td
    >>> td.upsample([[[1.0, 2.0]]], 2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    >>> td.upsample([[[1.0, 2.0]]], 2, "linear").tolist()
    [[[1.0, 1.25, 1.75, 2.0]]]
    """
    node, axes = plane(x)
    times = spatial(scale, len(axes), "scale")
    if mode == "nearest" and not align_corners:
        return _repeated(node, times)
    if mode not in LINEAR:
        known = ", ".join(map(repr, ("nearest", *LINEAR)))
        wrong = f"mode {mode!r} is none of {known}"
        if mode == "nearest":
            wrong = "align_corners is of linear modes, this one repeats elements"
        raise ArgumentError(wrong).located("upsample")
    node = as_float(node)
    for axis, k in zip(axes, times, strict=True):
        node = _drawn(node, axis, k, align_corners)
    return node


def _repeated(x: Tensor, times: tuple[int, ...]) -> Tensor:
    shape = x.type.shape
    thin, wide = list(shape[:2]), list(shape[:2])
    for n, k in zip(shape[2:], times, strict=True):
        thin += [n, 1]
        wide += [n, k]
    result = [n * k for n, k in zip(shape[2:], times, strict=True)]
    spread = broadcast_to(reshape(x, thin), tuple(wide))
    return reshape(spread, (*shape[:2], *result))


def _drawn(x: Tensor, axis: int, k: int, corners: bool) -> Tensor:
    """x with k times as many elements along `axis`, on lines between its own."""
    n = x.type.shape[axis]
    if k == 1 or not n:
        return x
    i = np.arange(n * k)
    at = i * ((n - 1) / (n * k - 1)) if corners else (i + 0.5) / k - 0.5
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int64)
    shape = [-1 if d == axis else 1 for d in range(x.type.ndim)]
    share = constant_node((at - low).astype(x.type.dtype).reshape(shape))
    first = take(x, low, axis)
    return first + (take(x, np.minimum(low + 1, n - 1), axis) - first) * share
