"""Pooling: the maximum, sum or average of each window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import int64
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import Shape, Type
from treadle.graph.op import Array, Cotangents, common_axes, op
from treadle.graph.tensor import Tensor
from treadle.ops.families import Composite, same_dtype
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.pick import PutAlong
from treadle.ops.window import (
    Integers,
    KernelWindow,
    Pairs,
    Window,
    folded,
    image,
    in_one_batch,
    offsets,
    padded,
    windows_along,
)

_MANY = 1 << 20  # windows looked at one by one


def _pooled(x: Type, kernel: Shape, pool: Window) -> Type:
    """The type of one value for each window, none of which sees padding only."""
    image(x, len(kernel))
    counts = windows_along(x.shape[2:], kernel, *pool.sliding)
    for n, k, s, (low, _), d, m in zip(
        x.shape[2:], kernel, *pool.sliding, counts, strict=True
    ):
        if not _all_see(n, k, s, low, d, m):
            raise ShapeError(f"a window of {k} sees only padding of {n} elements")
    return x.with_shape(x.shape[:2] + counts, x.axes)


def _all_see(n: int, k: int, s: int, low: int, d: int, m: int) -> bool:
    """Whether each of m windows sees one of n elements; what it takes is small for
    any numbers, since a file may hold them."""
    if n == 0 or (m - 1) * s - low >= n:
        return False
    before = min(m, -(-low // s))  # windows that begin in the padding
    if before == 0 or n >= d:
        return before == 0 or -(-low // d) < k
    if min(before, d) > _MANY:
        raise ArgumentError(f"a padding of {low} under a dilation of {d} is refused")
    # The first element that such a window may see; the same again after d windows.
    starts = np.arange(min(before, d)) * s - low
    return -(-low // d) < k and bool((starts % d < n).all())


def fields_of(pool: Any) -> tuple[Shape, Integers, Pairs, Integers]:
    """The four fields of a pool, for another op that looks through its windows."""
    return pool.kernel, pool.stride, pool.padding, pool.dilation


def _lowest(dtype: Any) -> Any:
    return -np.inf if np.dtype(dtype).kind in "fV" else np.iinfo(dtype).min


@op(tolerance="E")
class MaxPool(KernelWindow):
    """The maximum of each window; the first of several has the gradient."""

    takes = "ordered"

    def infer(self, *types: Type) -> Type:
        return _pooled(types[0], self.kernel, self)

    def numpy(self, *arrays: Any) -> Array:
        x = arrays[0]
        counts = windows_along(x.shape[2:], self.kernel, *self.sliding)
        wide = padded(x, self.padding, _lowest(x.dtype))
        y = np.full(x.shape[:2] + counts, _lowest(x.dtype), x.dtype)
        for _, part in offsets(self.kernel, self.stride, self.dilation, counts):
            np.maximum(y, wide[part], out=y)
        return y

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (MaxPoolGradient(self.kernel, *self.sliding)(xs[0], g),)


@op(tolerance="E", differentiable=False)
class MaxPoolPositions(KernelWindow):
    """Position of each window's first maximum, counted through the spatial plane."""

    takes = "ordered"

    def infer(self, *types: Type) -> Type:
        return _pooled(types[0], self.kernel, self).with_dtype(int64)

    def numpy(self, *arrays: Any) -> Array:
        x = arrays[0]
        counts = windows_along(x.shape[2:], self.kernel, *self.sliding)
        wide = padded(x, self.padding)
        plane = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
        numbers = padded(plane, self.padding, -1)
        best = np.full(x.shape[:2] + counts, _lowest(x.dtype), x.dtype)
        positions = np.full(best.shape, -1, np.int64)
        for _, part in offsets(self.kernel, self.stride, self.dilation, counts):
            v, number = wide[part], numbers[part]
            more = (v > best) | ((v != v) & (best == best)) | (positions < 0)
            more &= number >= 0
            best = np.where(more, v, best)
            positions = np.where(more, number, positions)
        return positions


@op(tolerance="R")
class MaxPoolGradient(Composite):
    """g[n, c, windows] added at the first maximum of each window of x."""

    kernel: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers
    arity = 2
    takes = "ordered"
    rows = in_one_batch

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        x, g = types
        common_axes(types, x.ndim)
        want = MaxPool(*fields_of(self)).infer(x).shape
        if g.shape != want:
            raise ShapeError(f"a gradient of shape {g.shape} is not of {want} windows")
        return x

    def expand(self, x: Tensor, g: Tensor) -> Tensor:
        lead, size = x.type.shape[:2], math.prod(x.type.shape[2:])
        flat = (*lead, math.prod(g.type.shape[2:]))
        at = MaxPoolPositions(*fields_of(self))(x)
        put = PutAlong(2, size)(reshape(g, flat), reshape(at, flat))
        return reshape(put, x.type.shape)

    def numpy(self, x: Any, g: Any) -> Array:
        pool = MaxPool(*fields_of(self))
        y, counts = pool.numpy(x), g.shape[2:]
        wide = padded(x, self.padding, _lowest(x.dtype))
        out = np.zeros(wide.shape, g.dtype)
        free = np.ones(g.shape, bool)
        for _, part in offsets(self.kernel, self.stride, self.dilation, counts):
            v = wide[part]
            hit = ((v == y) | (v != v)) & free
            out[part] += np.where(hit, g, 0)
            free &= ~hit
        ends = zip(x.shape[2:], self.padding, strict=True)
        inner: Any = (..., *[slice(a, a + n) for n, (a, _) in ends])
        return out[inner]


@op(tolerance="R", linear=True)
class SumPool(KernelWindow):
    """The sum of each window."""

    def infer(self, *types: Type) -> Type:
        return _pooled(types[0], self.kernel, self)

    def numpy(self, *arrays: Any) -> Array:
        x = arrays[0]
        counts = windows_along(x.shape[2:], self.kernel, *self.sliding)
        wide = padded(x, self.padding)
        y = np.zeros(x.shape[:2] + counts, x.dtype)
        for _, part in offsets(self.kernel, self.stride, self.dilation, counts):
            y += wide[part]
        return y

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        extents = xs[0].type.shape[2:]
        counts = g.type.shape[2:]
        tiles = tuple(n * k for n, k in zip(counts, self.kernel, strict=True))
        plain = not any(map(any, self.padding)) and set(self.dilation) == {1}
        if plain and self.stride == self.kernel and tiles == extents:
            # Windows side by side: each value as often as its window has elements.
            lead, one, wide = g.type.shape[:2], list[int](), list[int]()
            for n, k in zip(counts, self.kernel, strict=True):
                one += [n, 1]
                wide += [n, k]
            parts = broadcast_to(reshape(g, (*lead, *one)), (*lead, *wide))
            return (reshape(parts, (*lead, *extents), axes=xs[0].type.axes),)
        back = SumPoolGradient(extents, self.kernel, *self.sliding)
        return (back(g),)


@op(tolerance="R", linear=True)
class SumPoolGradient(Window):
    """Each value added to all elements of its window: the transpose of SumPool."""

    extents: Shape
    kernel: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers
    arity = 1

    def infer(self, g: Type) -> Type:
        x = g.with_shape(g.shape[:2] + self.extents, g.axes)
        want = _pooled(x, self.kernel, self).shape
        if g.shape != want:
            raise ShapeError(f"a gradient of shape {g.shape} is not of {want} windows")
        return x

    def numpy(self, *arrays: Any) -> Array:
        g = arrays[0]
        shape = g.shape[:2] + self.kernel + g.shape[2:]
        spread = g.reshape(g.shape[:2] + (1,) * len(self.kernel) + g.shape[2:])
        return folded(np.broadcast_to(spread, shape), self.extents, *self.sliding)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (SumPool(self.kernel, *self.sliding)(g),)
