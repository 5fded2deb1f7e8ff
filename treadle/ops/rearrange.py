"""Dimensions added, dropped, swapped, split and merged."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, AxisError, ShapeError
from treadle.base.types import (
    Axis,
    as_integers,
    as_items,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    resolve_axis,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.families import some
from treadle.ops.movement import broadcast_to, permute_dims, reshape

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "contiguous",
    "expand_dims",
    "flatten",
    "flatten_at",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "squeeze",
    "swapaxes",
    "transpose",
    "unflatten",
]


@provide
def matrix_transpose(x: Any) -> Tensor:
    """The last two dimensions swapped.

    >>> td.matrix_transpose(td.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    node = as_tensor(x)
    if node.type.ndim < 2:
        raise ShapeError(f"{node.type} is no matrix").located("matrix_transpose")
    return swapaxes(node, -1, -2)


def transpose(x: Any, axes: Any = None) -> Tensor:
    """The dimensions in another order: NumPy's name of permute_dims.

    >>> td.transpose(td.zeros((2, 3))).shape
    (3, 2)
    """
    return permute_dims(x, axes)


@provide
@recorded
def swapaxes(x: Any, first: Any, second: Any) -> Tensor:
    """Two dimensions swapped.

    >>> td.swapaxes(td.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    node = as_tensor(x)
    a, b = resolve_axis(first, node.type), resolve_axis(second, node.type)
    order = list(range(node.type.ndim))
    order[a], order[b] = b, a
    return permute_dims(node, tuple(order))


@provide
@recorded
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Some dimensions moved to other places, the rest kept in order.

    >>> td.moveaxis(td.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    node = as_tensor(x)
    taken = normalize_axes(source, node.type)
    places = normalize_axes(destination, node.type)
    if len(taken) != len(places):
        raise AxisError(f"{len(taken)} axes to {len(places)} places").located(
            "moveaxis"
        )
    order = [k for k in range(node.type.ndim) if k not in taken]
    for place, axis in sorted(zip(places, taken, strict=True)):
        order.insert(place, axis)
    return permute_dims(node, tuple(order))


@provide
@recorded
def expand_dims(x: Any, axis: Any) -> Tensor:
    """New dimensions of extent 1 at these places of the result.

    >>> td.expand_dims(td.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    node = as_tensor(x)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = node.type.ndim + len(places)
    at = {normalize_axis(k, ndim) for k in places}
    if len(at) != len(places):
        raise AxisError(f"axes {places} name a place twice").located("expand_dims")
    extents, names = iter(node.type.shape), iter(node.type.axes or ())
    shape = tuple(1 if k in at else next(extents) for k in range(ndim))
    axes = None
    if node.type.axes is not None:
        axes = tuple(None if k in at else next(names) for k in range(ndim))
    return reshape(node, shape, axes=axes)


@provide
@recorded
def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Dimensions of extent 1 dropped: those named, or all.

    >>> td.squeeze(td.zeros((1, 2, 1)), 0).shape
    (2, 1)
    """
    node = as_tensor(x)
    t = node.type
    if axis is None:
        gone = {k for k, n in enumerate(t.shape) if n == 1}
    else:
        gone = set(normalize_axes(axis, t))
    for k in gone:
        if t.shape[k] != 1:
            raise ShapeError(f"dimension {k} of {t} has more than 1").located("squeeze")
    kept = [k for k in range(t.ndim) if k not in gone]
    axes = None if t.axes is None else tuple(t.axes[k] for k in kept)
    return reshape(node, tuple(t.shape[k] for k in kept), axes=axes)


@provide
def flatten(x: Any, start: Any = 0, stop: Any = -1, name: str | None = None) -> Tensor:
    """Dimensions start to stop (included, by number or name) merged into one.

    The new dimension has no name but one that is given.

    >>> td.flatten(td.zeros((2, 3, 4)), 1).shape
    (2, 12)
    >>> image = td.name_axes(td.zeros((2, 3, 4)), "n", "h", "w")
    >>> td.flatten(image, "h", "w", name="pixel").type
    float32[n=2, pixel=12]
    """
    node = as_tensor(x)
    shape = node.type.shape
    if not shape:
        return reshape(node, (1,))
    a, b = resolve_axis(start, node.type), resolve_axis(stop, node.type)
    if a > b:
        raise AxisError(f"flatten from {a} to {b} is empty").located("flatten")
    merged = int(np.prod(shape[a : b + 1], dtype=int))
    names = node.type.axes or (None,) * len(shape)
    merged_name = names[a] if a == b and name is None else name
    axes = some((*names[:a], merged_name, *names[b + 1 :]))
    return reshape(node, (*shape[:a], merged, *shape[b + 1 :]), axes=axes)


def flatten_at(x: Any, axis: Any) -> Tensor:
    """Two dimensions: those before `axis` merged, and the rest.

    >>> td.flatten_at(td.zeros((2, 3, 4)), 2).shape
    (6, 4)
    """
    node = as_tensor(x)
    shape = node.type.shape
    k = len(shape) if axis == len(shape) else resolve_axis(axis, node.type)
    rows = int(np.prod(shape[:k], dtype=int))
    return reshape(node, (rows, int(np.prod(shape[k:], dtype=int))))


@provide
def unflatten(x: Any, axis: Any, shape: Any) -> Tensor:
    """One dimension split into several: extents, of which one may be -1, or axes.

    >>> td.unflatten(td.zeros((2, 12)), 1, (3, -1)).shape
    (2, 3, 4)
    >>> flat = td.name_axes(td.zeros((2, 12)), "n", "pixel")
    >>> td.unflatten(flat, "pixel", (td.Axis("h", 3), td.Axis("w", 4))).type
    float32[n=2, h=3, w=4]
    """
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    old, n = node.type.shape, node.type.shape[k]
    if as_items(shape) is None:
        raise ShapeError(f"a dimension splits into several, not {shape!r}")
    part_names = [m.name if isinstance(m, Axis) else None for m in shape]
    parts = [m.length if isinstance(m, Axis) else m for m in shape]
    whole = as_integers(parts)
    if whole is None:
        raise ShapeError(f"extents are integers, not {tuple(shape)}")
    parts = list(whole)
    if parts.count(-1) == 1:
        known = int(np.prod([m for m in parts if m != -1], dtype=int))
        parts[parts.index(-1)] = n // known if known else 0
    if int(np.prod(parts, dtype=int)) != n:
        raise ShapeError(f"{n} does not split into {tuple(shape)}").located("unflatten")
    names = node.type.axes or (None,) * len(old)
    axes = some((*names[:k], *part_names, *names[k + 1 :]))
    return reshape(node, (*old[:k], *parts, *old[k + 1 :]), axes=axes)


def contiguous(x: Any) -> Tensor:
    """`x` itself: layout is the compiler's choice, so there is nothing to do.

    >>> td.contiguous([1.0]).tolist()
    [1.0]
    """
    return as_tensor(x)


def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """The tensors broadcast to their common shape.

    >>> [x.shape for x in td.broadcast_arrays([1.0, 2.0], 3.0)]
    [(2,), (2,)]
    """
    nodes = [as_tensor(x) for x in xs]
    shape = broadcast_shapes(*[x.type.shape for x in nodes])
    return tuple(broadcast_to(x, shape) for x in nodes)


def meshgrid(*xs: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector along a dimension of its own.

    "ij" takes the dimensions in order; "xy" swaps the first two, as pictures do.

    >>> [x.tolist() for x in td.meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing is 'xy' or 'ij', not {indexing!r}").located(
            "meshgrid"
        )
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = 1, 0
    columns = []
    for x, place in zip(map(as_tensor, xs), places, strict=True):
        if x.type.ndim > 1:
            raise ShapeError(f"{x.type} is no vector").located("meshgrid")
        shape = [1] * len(xs)
        shape[place] = x.type.size
        columns.append(reshape(x, tuple(shape)))
    return broadcast_arrays(*columns)


def atleast_1d(x: Any) -> Tensor:
    """`x` with one dimension at least.

    >>> td.atleast_1d(1.0).shape
    (1,)
    """
    node = as_tensor(x)
    return node if node.type.ndim else reshape(node, (1,))


def atleast_2d(x: Any) -> Tensor:
    """`x` with two dimensions at least, new ones in front.

    >>> td.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    node = atleast_1d(x)
    return node if node.type.ndim > 1 else expand_dims(node, 0)


def atleast_3d(x: Any) -> Tensor:
    """`x` with three dimensions at least: a vector in the middle, as np.atleast_3d.

    >>> td.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    node = atleast_2d(x)
    return node if node.type.ndim > 2 else expand_dims(node, 2)
