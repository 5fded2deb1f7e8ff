"""Folds over axes: sums, products, extremes, medians, and what is made of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.symbolic import arange
from treadle.base.types import (
    Shape,
    Type,
    broadcast_shapes,
    equal_shapes,
    normalize_axes,
)
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, summand
from treadle.ops.families import Composite, Reduction, reduced
from treadle.ops.movement import broadcast_to, reshape

__all__ = [
    "median",
    "sum",
]


def along(x: Any, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """The node of `x` and the positions of `axis` in it, sorted."""
    node = as_tensor(x)
    if axis is None:
        return node, tuple(range(len(node.type.shape)))
    return node, tuple(sorted(normalize_axes(axis, node.type)))


def spread(g: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduced value in a shape that meets x, with the names of x where it has any."""
    if not keepdims:
        shape = tuple(1 if k in axes else n for k, n in enumerate(x.type.shape))
        g = reshape(g, shape)
    return g if x.type.axes is None else over(x, g)


def over(x: Tensor, g: Tensor) -> Tensor:
    """`g` broadcast to the shape of x."""
    return broadcast_to(g, x.type.shape, axes=x.type.axes)


def summed(x: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """The sum of an array in its dtype; NumPy's of rows is carried in one number."""
    double = {"float32": np.float64, "complex64": np.complex128}
    wide = double.get(x.dtype.name, x.dtype)
    return np.sum(x, axes, dtype=wide, keepdims=keepdims).astype(x.dtype)


@op(linear=True)
class Sum(Reduction):
    """The sum over `axes`."""

    takes = "numeric"

    def numpy(self, x: Any) -> Any:
        return summed(x, self.axes, self.keepdims)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (over(xs[0], spread(g, xs[0], self.axes, self.keepdims)),)

    def combine(self, a: Any, b: Any) -> Any:
        return a + b

    def identity(self, dtype: Any) -> Any:
        return 0


@provide
@recorded
def sum(
    x: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """The sum over `axis` (an integer, a name, several, or all), taken in `dtype`.

    Without it bools and integers are summed as int64, those without a sign as uint64.

    >>> td.sum([[1.0, 2.0], [3.0, 4.0]], 0).tolist()
    [4.0, 6.0]
    """
    node, axes = along(summand(x, dtype), axis)
    return Sum(axes, keepdims)(node)


@provide
def sum_to(x: Any, shape: Shape) -> Tensor:
    """`x` summed over what broadcasting `shape` to it would repeat.

    >>> sum_to(td.ones((4, 2, 3)), (2, 1)).tolist()
    [[12.0], [12.0]]
    """
    node = as_tensor(x)
    t: Type = node.type
    if equal_shapes(t.shape, shape):
        return node
    if broadcast_shapes(shape, t.shape) != t.shape:  # g is the smaller: expand it
        return sum_to(broadcast_to(node, broadcast_shapes(shape, t.shape)), shape)
    lead = t.ndim - len(shape)
    kept = tuple(
        k + lead for k, n in enumerate(shape) if n == 1 and t.shape[k + lead] != 1
    )
    axes = tuple(range(lead)) + kept
    summed = Sum(axes)(node) if axes else node
    return reshape(summed, shape)


@op(tolerance="E")
class Median(Composite):
    """The middle value along `axis`; the mean of the two middle ones of an even count.

    The derivative goes to the middle elements.
    """

    axis: int
    keepdims: bool = False
    arity = 1
    rows = along_axes
    takes = "float"

    def infer(self, *types: Type) -> Type:
        result = reduced(types[0], (self.axis,), self.keepdims)
        if types[0].shape[self.axis] == 0:
            raise ArgumentError(f"no middle of nothing: axis {self.axis} of {types[0]}")
        return result

    def numpy(self, *arrays: Any) -> Any:
        x = np.sort(arrays[0], self.axis)
        n = x.shape[self.axis]
        a, b, last = (np.take(x, [k], self.axis) for k in ((n - 1) // 2, n // 2, n - 1))
        middle = np.where(np.isnan(last), last, a if n % 2 else (a + b) / 2)
        return middle if self.keepdims else np.squeeze(middle, self.axis)

    def expand(self, *xs: Tensor) -> Tensor:
        x = functions.sort(xs[0], self.axis)
        n = x.type.shape[self.axis]
        before = (slice(None),) * self.axis
        a, b, last = (
            x[(*before, slice(k, k + 1))] for k in ((n - 1) // 2, n // 2, n - 1)
        )
        middle = a if n % 2 else (a + b) / 2.0
        value = functions.where(functions.isnan(last), last, middle)  # NaN stands last
        return cast(
            Tensor,
            value if self.keepdims else functions.squeeze(value, self.axis),
        )

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        names = xs[0].type.axes
        g, x = spread(g, xs[0], (self.axis,), self.keepdims), functions.unname(xs[0])
        n = x.type.shape[self.axis]
        order = functions.argsort(x, axis=self.axis)
        shape = [1] * x.type.ndim
        shape[self.axis] = n
        ranks = functions.reshape(constant_node(arange(n)), shape)
        middle = [functions.equal(ranks, k) for k in ((n - 1) // 2, n // 2)]
        low, high = (astype(here, x.type.dtype) * 0.5 for here in middle)
        sorted_weights = low + high
        places = functions.argsort(order, axis=self.axis)
        wide = functions.broadcast_to(sorted_weights, x.type.shape)
        mine = functions.take_along_axis(wide, places, self.axis)
        return (functions.reshape(mine, x.type.shape, axes=names) * g,)


def median(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The middle value along `axis`, or of all elements.

    >>> float(td.median([3.0, 1.0, 2.0]))
    2.0
    """
    node = as_float(x)
    if axis is None:
        flat = Median(0)(functions.reshape(node, (-1,)))
        return functions.reshape(flat, (1,) * node.type.ndim) if keepdims else flat
    node, axes = along(node, axis)
    if len(axes) != 1:
        raise ArgumentError("median takes one axis, or none for all").located("median")
    return Median(axes[0], keepdims)(node)
