"""Linear recurrences along a dimension, and what all values made one by one share."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import AxisError, ShapeError
from treadle.base.types import Type, broadcast_shapes, normalize_axis, resolve_axis
from treadle.graph.op import Array, Cotangents, Traits, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, operands
from treadle.ops.elementwise import conj
from treadle.ops.families import Family, same_dtype

__all__ = ["linear_recurrence"]


@family
class Chain(Family):
    """Values of which each is made of the one before, along `axis`.

    y[i] = step(y[i - 1], x[i], ...), and y[0] is the first element of the last operand.
    """

    __slots__ = ()
    family = "scan"
    traits = Traits(tolerance="R")
    axis: int
    reverse: bool = False
    rows = along_axes

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        """The next value from the one before and its own elements, by infix."""
        raise NotImplementedError


@op()
class LinearRecurrence(Chain):
    """y[i] = a[i] y[i - 1] + b[i] along `axis`, from 0; with `reverse` from the end."""

    arity = 2
    takes = "inexact"

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        return xs[0] * y + xs[1]

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        a, b = types
        normalize_axis(self.axis, b.ndim)
        if a.shape != b.shape:
            raise ShapeError(f"factors {a.shape} and terms {b.shape} differ in shape")
        if a.axes != b.axes:
            raise AxisError(f"factors {a} and terms {b} differ in axis names")
        return b

    def numpy(self, *arrays: Any) -> Array:
        a, b = (np.moveaxis(v, self.axis, 0) for v in arrays)
        y: Array = np.array(b)
        for i in range(1, len(b)):
            k, last = (-1 - i, -i) if self.reverse else (i, i - 1)
            y[k] += a[k] * y[last]
        return np.moveaxis(y, 0, self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        step = 1 if self.reverse else -1
        later = functions.shift(conj(xs[0]), step, self.axis)
        gb = LinearRecurrence(self.axis, not self.reverse)(later, g)
        return gb * functions.shift(conj(y), -step, self.axis), gb


@provide
def linear_recurrence(
    a: Any, b: Any, axis: Any = -1, *, reverse: bool = False
) -> Tensor:
    """y[i] = a[i] y[i - 1] + b[i] along `axis`, from 0; `a` and `b` broadcast.

    >>> td.linear_recurrence(0.5, [1.0, 1.0, 1.0]).tolist()
    [1.0, 1.5, 1.75]
    """
    nodes = align(operands(*map(as_float, operands(a, b))))
    shape = broadcast_shapes(*[x.type.shape for x in nodes])
    names = next((x.type.axes for x in nodes if x.type.shape == shape), None)
    wide = [functions.broadcast_to(x, shape, axes=names) for x in nodes]
    place = resolve_axis(axis, wide[0].type)
    return LinearRecurrence(place, reverse)(*wide)
