"""Convolutions over 1, 2 or 3 dimensions, and their transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import ShapeError, TreadleError
from treadle.base.types import Names, Shape, Type
from treadle.graph.op import Array, Cotangents, matched, op
from treadle.graph.operators import provide
from treadle.graph.rows import no_rows, row_count, spread
from treadle.graph.tensor import Tensor
from treadle.ops.align import located, over_axes
from treadle.ops.cast import addend, factors
from treadle.ops.elementwise import conj
from treadle.ops.families import same_dtype
from treadle.ops.movement import reshape
from treadle.ops.naming import unname
from treadle.ops.rearrange import expand_dims, moveaxis, squeeze
from treadle.ops.window import (
    Integers,
    Pairs,
    Window,
    columns,
    folded,
    merged,
    pairs,
    spatial,
    windows_along,
)

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
]


Parts = tuple[str, ...]


def _grouped(x: Type, w: Type, groups: int) -> None:
    """Check channels of x[n, c, ..] against w[out, c / groups, ..]."""
    if x.ndim != w.ndim or x.ndim < 3:
        raise ShapeError(
            f"a convolution takes x[n, c, *spatial] and w[out, c, *kernel], "
            f"not {x.shape} and {w.shape}"
        )
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"{x.shape[1]} channels in {groups} groups do not meet weights {w.shape}"
        )


@cached(64)
def _places(rank: int, groups: int) -> tuple[Parts, Parts, Parts]:
    """The parts that the dimensions of x, w and y of a convolution play."""
    space = tuple(f"spatial dimension {k}" for k in range(rank))
    kernel = tuple(f"kernel dimension {k}" for k in range(rank))
    channels = "input channels" if groups == 1 else "input channels of a group"
    return (
        ("batch", "input channels", *space),
        ("output channels", channels, *kernel),
        ("batch", "output channels", *space),
    )


def _channels(names: Names | None, x: Type, w: Type) -> Names | None:
    """The names of a result; by weights without names channels stay what they were."""
    if names is None or x.axes is None or w.axes is not None:
        return names
    return names[0], x.axes[1], *names[2:]


def _split(w: Array, groups: int) -> Array:
    """Weights as matrices [groups, out / groups, c / groups * kernel]."""
    return w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


def _channels_joined(x: Tensor) -> Tensor:
    """Images of rows [n, b, c, ..] with their channels side by side: [b, n c, ..]."""
    n, b, c, *rest = x.type.shape
    return reshape(moveaxis(x, 0, 1), (b, n * c, *rest))


def _channels_apart(x: Tensor, n: int) -> Tensor:
    """The inverse of `_channels_joined`."""
    b, c, *rest = x.type.shape
    return moveaxis(reshape(x, (b, n, c // max(n, 1), *rest)), 1, 0)


def _of_weights(op: Any, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
    """Rows of images with shared weights are one batch, with their own ones groups."""
    x, w = xs
    if not has_rows[1]:
        y: Tensor = op(merged(x), w)
        return reshape(y, (*x.type.shape[:2], *y.type.shape[1:]))
    n = w.type.shape[0]
    x, w = spread(has_rows, xs)
    if not n:
        return no_rows(op, x, w)
    each = replace(op, groups=n * op.groups)
    return _channels_apart(each(_channels_joined(x), merged(w)), n)


@op(tolerance="R")
class Conv(Window):
    """y[n, o, t] = sum over c, k of w[o, c, k] x[n, c, at], at = s t + d k - padding.

    Inputs x[n, c, *spatial] and w[o, c / groups, *kernel].
    """

    stride: Integers
    padding: Pairs
    dilation: Integers
    groups: int = 1
    arity = 2

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        x, w = types
        _grouped(x, w, self.groups)
        counts = windows_along(x.shape[2:], w.shape[2:], *self.sliding)
        x_parts, kernel, y = _places(x.ndim - 2, self.groups)
        names = _channels(matched(((x, x_parts), (w, kernel)), y), x, w)
        return Type((x.shape[0], w.shape[0], *counts), x.dtype, names)

    def numpy(self, x: Any, w: Any) -> Array:
        cols = columns(x, w.shape[2:], *self.sliding)
        n, counts = len(x), cols.shape[w.ndim :]
        matrix = _split(w, self.groups)
        cols = cols.reshape(n, self.groups, matrix.shape[2], math.prod(counts))
        y: Array = np.matmul(matrix, cols)
        return y.reshape(n, len(w), *counts)

    def vjp(self, g: Any, y: Any, x: Tensor, w: Tensor) -> Cotangents:
        gx = ConvInputGradient(x.type.shape[2:], *self.sliding, self.groups)
        gw = ConvWeightGradient(w.type.shape[2:], *self.sliding, self.groups)
        return gx(g, conj(w)), gw(conj(x), g)

    rows = _of_weights


@op(tolerance="R")
class ConvInputGradient(Window):
    """The transpose of Conv in x, which is the transposed convolution.

    Inputs g[n, o, *counts] and w; result x[n, c, *extents].
    """

    extents: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers
    groups: int = 1
    arity = 2

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        g, w = types
        if g.ndim != w.ndim or g.ndim < 3 or g.shape[1] != w.shape[0]:
            raise ShapeError(f"{g.shape} is no result of a convolution with {w.shape}")
        counts = windows_along(self.extents, w.shape[2:], *self.sliding)
        if counts != g.shape[2:] or w.shape[0] % self.groups:
            raise ShapeError(f"{g.shape} is no convolution of extents {self.extents}")
        channels = w.shape[1] * self.groups
        x, w_places, y = _places(g.ndim - 2, self.groups)
        names = _channels(matched(((g, y), (w, w_places)), x), g, w)
        return Type((g.shape[0], channels, *self.extents), g.dtype, names)

    def numpy(self, g: Any, w: Any) -> Array:
        n, counts = len(g), g.shape[2:]
        matrix = _split(w, self.groups)
        rows = g.reshape(n, self.groups, matrix.shape[1], math.prod(counts))
        cols = np.matmul(matrix.transpose(0, 2, 1), rows)
        channels = w.shape[1] * self.groups
        cols = cols.reshape(n, channels, *w.shape[2:], *counts)
        return folded(cols, self.extents, *self.sliding)

    def vjp(self, g: Any, y: Any, forward: Tensor, w: Tensor) -> Cotangents:
        gg = Conv(*self.sliding, self.groups)(g, conj(w))
        weights = ConvWeightGradient(w.type.shape[2:], *self.sliding, self.groups)
        return gg, weights(g, conj(forward))

    rows = _of_weights


@op(tolerance="R")
class ConvWeightGradient(Window):
    """The transpose of Conv in w: of x and g[n, o, *counts] the gradient of w."""

    kernel: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers
    groups: int = 1
    arity = 2

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        x, g = types
        counts = windows_along(x.shape[2:], self.kernel, *self.sliding)
        if (g.shape[0], *g.shape[2:]) != (x.shape[0], *counts):
            raise ShapeError(f"{g.shape} is no convolution of {x.shape}")
        places, kernel, y = _places(len(self.kernel), self.groups)
        operands = (x, places), (g, y)
        shape = (g.shape[1], x.shape[1] // self.groups, *self.kernel)
        _grouped(x, Type(shape, x.dtype), self.groups)
        return Type(shape, x.dtype, matched(operands, kernel))

    def numpy(self, x: Any, g: Any) -> Array:
        outs, width = g.shape[1] // self.groups, x.shape[1] // self.groups
        width *= math.prod(self.kernel)
        cols = columns(x, self.kernel, *self.sliding)
        cols = cols.reshape(len(x), self.groups, width, math.prod(g.shape[2:]))
        rows = g.reshape(len(x), self.groups, outs, math.prod(g.shape[2:]))
        total = np.zeros((self.groups, outs, width), x.dtype)
        for a, b in zip(rows, cols, strict=True):
            total += np.matmul(a, b.transpose(0, 2, 1))
        return total.reshape(g.shape[1], x.shape[1] // self.groups, *self.kernel)

    def vjp(self, g: Any, y: Any, x: Tensor, forward: Tensor) -> Cotangents:
        back = ConvInputGradient(x.type.shape[2:], *self.sliding, self.groups)
        gx = back(conj(forward), g)
        return gx, Conv(*self.sliding, self.groups)(conj(x), g)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        n, xs = row_count(has_rows, xs), tuple(spread(has_rows, xs))
        if not n:
            return no_rows(self, *xs)
        each = replace(self, groups=n * self.groups)
        w = each(*map(_channels_joined, xs))
        return reshape(w, (n, w.type.shape[0] // n, *w.type.shape[1:]))


def biased(y: Tensor, b: Any) -> Tensor:
    """y with a bias for each channel."""
    if b is None:
        return y
    bias = over_axes(addend(b, y), y, (1,), "bias")
    return reshape(unname(y) + bias, y.type.shape, axes=y.type.axes)


def _conv(
    x: Any, w: Any, b: Any, rank: int, sliding: tuple[Any, Any, Any], groups: int
) -> Tensor:
    """A convolution with attributes as a user writes them."""
    nodes = factors(x, w)
    if nodes[0].type.ndim == rank + 1:
        one = _conv(expand_dims(nodes[0], 0), nodes[1], b, rank, sliding, groups)
        return squeeze(one, 0)
    extents, kernel = (node.type.shape[2:] for node in nodes)
    stride, pad, dilation = sliding
    op = Conv((1,) * rank, ((0, 0),) * rank, (1,) * rank, groups)
    try:
        if len(kernel) != rank:
            _grouped(nodes[0].type, Type((), nodes[0].type.dtype), groups)
        steps = spatial(stride, rank, "stride")
        apart = spatial(dilation, rank, "dilation")
        op = Conv(steps, pairs(pad, extents, kernel, apart, steps), apart, groups)
    except TreadleError as error:
        raise located(error, op, nodes) from None
    return biased(op(*nodes), b)


@provide
def conv1d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Correlation of x[n, c, s] with w[out, c / groups, k] and a bias for each output.

    Padding is an integer, a (before, after) pair for each dimension, "valid", or
    "same", which gives ceil(n / stride) windows along an extent n.

    >>> td.conv1d([[[1.0, 2.0, 4.0]]], [[[-1.0, 1.0]]]).tolist()
    [[[1.0, 2.0]]]
    """
    return _conv(x, w, b, 1, (stride, padding, dilation), groups)


@provide
def conv2d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`conv1d` for images x[n, c, height, width] and w[out, c / groups, *kernel].

    >>> td.conv2d(td.ones((1, 3, 8, 8)), td.ones((4, 3, 3, 3)), padding="same").shape
    (1, 4, 8, 8)
    """
    return _conv(x, w, b, 2, (stride, padding, dilation), groups)


@provide
def conv3d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`conv1d` for volumes x[n, c, *spatial] and w[out, c / groups, *kernel].

    >>> td.conv3d(td.ones((1, 1, 4, 4, 4)), td.ones((2, 1, 2, 2, 2)), stride=2).shape
    (1, 2, 2, 2, 2)
    """
    return _conv(x, w, b, 3, (stride, padding, dilation), groups)
