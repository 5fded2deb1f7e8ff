"""Strided parts of a tensor: taken, put into zeros, and put into another tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ShapeError
from treadle.base.slices import SliceRange
from treadle.base.types import Shape, Type
from treadle.graph.leaves import zeros_of
from treadle.graph.op import Array, Cotangents, common_axes, op
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor
from treadle.ops.families import Family, Movement, same_dtype

Integers = tuple[int, ...]


def slices(starts: Integers, stops: Integers, steps: Integers) -> tuple[slice, ...]:
    """NumPy's slices; a stop of -1 lies before the first element."""
    return tuple(
        slice(a, None if b < 0 else b, c)
        for a, b, c in zip(starts, stops, steps, strict=True)
    )


def extents(shape: Shape, starts: Integers, stops: Integers, steps: Integers) -> Shape:
    """The shape of a part of `shape`, checked to lie within."""
    if not len(shape) == len(starts) == len(stops) == len(steps):
        raise ShapeError(f"{len(starts)} slices given for {len(shape)} dimensions")
    counts = []
    for n, a, b, c in zip(shape, starts, stops, steps, strict=True):
        places = SliceRange(a, b, c)
        count = places.count
        if count and not (places.low >= 0 and places.high < n):
            raise ShapeError(f"slice {a}:{b}:{c} leaves a dimension of {n}")
        counts.append(count)
    return tuple(counts)


def _every(x: Tensor, part: Any) -> tuple[Integers, Integers, Integers]:
    """Starts, stops and steps of a part for operands with rows, all of them taken."""
    n = x.type.shape[0]
    return (0, *part.starts), (n, *part.stops), (1, *part.steps)


@op()
class Slice(Movement):
    """Elements starts, starts + steps, ... before stops of each dimension.

    Steps may be negative; a stop of -1 then means through element 0.
    """

    starts: Integers
    stops: Integers
    steps: Integers

    def infer(self, t: Type) -> Type:
        return Type(
            extents(t.shape, self.starts, self.stops, self.steps), t.dtype, t.axes
        )

    def numpy(self, *arrays: Any) -> Array:
        x: Array = arrays[0]
        return x[slices(self.starts, self.stops, self.steps)]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        put = Unslice(xs[0].type.shape, self.starts, self.stops, self.steps)
        return (put(g),)

    def index(self, i: Sequence[Any], x: Type) -> tuple[Any, ...]:
        return tuple(
            a + c * k for a, c, k in zip(self.starts, self.steps, i, strict=True)
        )

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return Slice(*_every(xs[0], self))(*xs)


@op(linear=True, tolerance="E")
class Unslice(Family):
    """Zeros of `shape` with x in a slice of it: the transpose of Slice."""

    shape: Shape
    starts: Integers
    stops: Integers
    steps: Integers
    family = "scatter"
    arity = 1

    def infer(self, t: Type) -> Type:
        part = extents(self.shape, self.starts, self.stops, self.steps)
        if part != t.shape:
            raise ShapeError(f"shape {t.shape} does not fill a slice of shape {part}")
        return Type(self.shape, t.dtype, t.axes)

    def numpy(self, *arrays: Any) -> Array:
        y = np.zeros(self.shape, arrays[0].dtype)
        y[slices(self.starts, self.stops, self.steps)] = arrays[0]
        return y

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Slice(self.starts, self.stops, self.steps)(g),)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return Unslice((xs[0].type.shape[0], *self.shape), *_every(xs[0], self))(*xs)


@op(linear=True, tolerance="E")
class SetSlice(Family):
    """The first operand with a slice of it replaced by the second."""

    starts: Integers
    stops: Integers
    steps: Integers
    family = "scatter"
    arity = 2

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        x, e = types
        part = extents(x.shape, self.starts, self.stops, self.steps)
        if part != e.shape:
            raise ShapeError(f"shape {e.shape} does not fill a slice of shape {part}")
        return x.with_shape(x.shape, common_axes(types, x.ndim))

    def numpy(self, *arrays: Any) -> Array:
        y: Array = np.array(arrays[0])
        y[slices(self.starts, self.stops, self.steps)] = arrays[1]
        return y

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        zero = zeros_of(Type(xs[1].type.shape, g.type.dtype))
        return self(g, zero), Slice(self.starts, self.stops, self.steps)(g)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        wide = spread(has_rows, xs)
        return SetSlice(*_every(wide[0], self))(*wide)
