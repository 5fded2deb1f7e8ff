"""Elements moved without computing: reshape, permute, broadcast and their kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import AxisError, ShapeError
from treadle.base.types import (
    Names,
    Shape,
    Type,
    as_integers,
    as_items,
    as_names,
    as_shape,
    broadcast_shapes,
    equal_shapes,
    is_axis,
    normalize_axes,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, common_axes, op, shared
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import widened
from treadle.graph.tensor import Tensor
from treadle.ops.families import Movement, some

__all__ = ["broadcast_to", "permute_dims", "reshape"]


@op()
class Reshape(Movement):
    """The same elements in row-major order under another shape."""

    shape: Shape
    axes: Names | None = None

    def unnamed(self) -> Reshape:
        return Reshape(self.shape)

    def infer(self, *types: Type) -> Type:
        return _reshaped(types[0], self.shape, self.axes)

    def numpy(self, *arrays: Any) -> Array:
        x: Array = arrays[0]
        return x.reshape(self.shape)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (reshape(g, xs[0].type.shape, axes=xs[0].type.axes),)

    def index(self, i: Sequence[Any], x: Type) -> tuple[Any, ...]:
        flat: Any = 0
        for n, k in zip(self.shape, i, strict=True):
            flat = flat * n + k
        indices = []
        for n in reversed(x.shape):
            indices.append(flat % max(n, 1))
            flat = flat // max(n, 1)
        return tuple(reversed(indices))

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return reshape(xs[0], (xs[0].type.shape[0], *self.shape))


@cached(1024)
def _reshaped(t: Type, shape: Shape, axes: Names | None) -> Type:
    """The type of as many elements in another shape."""
    if math.prod(shape) != t.size:
        raise ShapeError(f"{t.size} elements do not fill shape {shape}")
    return Type(shape, t.dtype, axes)


@provide
@recorded
def reshape(
    x: Any,
    shape: Any,
    *,
    axes: Sequence[Any] | None = None,
    copy: bool | None = None,
) -> Tensor:
    """`x` under another shape of as many elements; one extent may be -1.

    Axis names are dropped unless `axes` gives the new ones. Whether there is a `copy`
    shows nowhere, for nobody can write to either.

    >>> td.reshape([1.0, 2.0, 3.0, 4.0], (2, -1)).shape
    (2, 2)
    """
    node = as_tensor(x)
    wanted = as_integers(shape)
    if wanted is None:
        raise ShapeError(f"a shape holds integers, not {shape!r}")
    if wanted.count(-1) > 1:
        raise ShapeError(f"shape {wanted} has more than one -1")
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        size = node.type.size
        if known == 0 or size % known:
            raise ShapeError(f"{size} elements do not fill shape {wanted}")
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    extents = as_shape(wanted)
    names = as_names(axes, extents)
    if extents == node.type.shape and names == node.type.axes:
        return node
    return Reshape(extents, names)(node)


def in_shape(x: Tensor, shape: Shape) -> Tensor:
    """A node in a shape of as many elements; itself if it has that for all sizes."""
    return x if equal_shapes(x.type.shape, shape) else Reshape(shape)(x)


@op()
class PermuteDims(Movement):
    """Dimension k of the result is dimension `order[k]` of x."""

    order: tuple[int, ...]

    def infer(self, t: Type) -> Type:
        if sorted(self.order) != list(range(t.ndim)):
            raise AxisError(f"{self.order} is no permutation of {t.ndim} dimensions")
        names = t.axes and tuple(t.axes[k] for k in self.order)
        return Type(tuple(t.shape[k] for k in self.order), t.dtype, names)

    def numpy(self, *arrays: Any) -> Array:
        return np.transpose(arrays[0], self.order)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (permute_dims(g, tuple(np.argsort(self.order).tolist())),)

    def index(self, i: Sequence[Any], x: Type) -> tuple[Any, ...]:
        return tuple(i[self.order.index(k)] for k in range(x.ndim))

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return permute_dims(xs[0], (0, *[k + 1 for k in self.order]))


@provide
@recorded
def permute_dims(x: Any, axes: Any = None) -> Tensor:
    """The dimensions of `x` in another order; reversed when none is given.

    >>> td.permute_dims(td.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    node = as_tensor(x)
    order = None if axes is None else as_items(axes)
    if order is None and axes is not None:
        raise AxisError(f"an order of axes is several of them, not {axes!r}")
    if order and not all(map(is_axis, order)):
        raise AxisError(f"an axis is an integer or a name, not {axes!r}")
    op = _permutation(node.type, order)
    return node if op is None else op(node)


@cached(1024, typed=True)
def _permutation(t: Type, axes: tuple[Any, ...] | None) -> PermuteDims | None:
    """The op that puts the dimensions of a type in an order; None if they are in it."""
    identity = tuple(range(t.ndim))
    order = identity[::-1] if axes is None else normalize_axes(axes, t)
    return None if order == identity else shared(PermuteDims, order)


@op()
class BroadcastTo(Movement):
    """x repeated along new leading dimensions and those of extent 1."""

    shape: Shape
    axes: Names | None = None

    def unnamed(self) -> BroadcastTo:
        return BroadcastTo(self.shape)

    def infer(self, t: Type) -> Type:
        if broadcast_shapes(t.shape, self.shape) != self.shape:
            raise ShapeError(f"shape {t.shape} does not broadcast to {self.shape}")
        names = self.axes
        if names is None and t.axes is not None:
            names = (None,) * (len(self.shape) - t.ndim) + t.axes
        elif names is not None:
            common_axes((t, Type(self.shape, t.dtype, names)), len(self.shape))
        return Type(self.shape, t.dtype, some(names))

    def numpy(self, *arrays: Any) -> Array:
        return np.broadcast_to(arrays[0], self.shape)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        t = xs[0].type
        return (reshape(functions.sum_to(g, t.shape), t.shape, axes=t.axes),)

    def index(self, i: Sequence[Any], x: Type) -> tuple[Any, ...]:
        aligned = i[len(i) - x.ndim :]
        return tuple(
            k * 0 if n == 1 else k for k, n in zip(aligned, x.shape, strict=True)
        )

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        x = widened(xs[0], len(self.shape))
        return broadcast_to(x, (x.type.shape[0], *self.shape))


@provide
@recorded
def broadcast_to(x: Any, shape: Any, *, axes: Sequence[Any] | None = None) -> Tensor:
    """`x` repeated to `shape` by NumPy's broadcasting rule.

    >>> td.broadcast_to([1.0, 2.0], (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    node = as_tensor(x)
    extents = as_shape(shape)
    if extents == node.type.shape and axes is None:
        return node
    return BroadcastTo(extents, as_names(axes, extents))(node)
