"""Elements at positions that are data: read, and added into zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.base.symbolic import arange
from treadle.base.types import Shape, Type, broadcast_shapes, normalize_axis
from treadle.graph.leaves import constant_node
from treadle.graph.op import Array, Cotangents, common_axes, op
from treadle.graph.operators import functions
from treadle.graph.rows import lifted, row_count, spread
from treadle.graph.tensor import Tensor
from treadle.ops.families import Family, some

Integers = tuple[int, ...]


def in_range(ids: Array, n: int, what: str = "index", negative: bool = True) -> Array:
    """Positions counted from the front; one outside the extent is a RunError."""
    low = -n if negative else 0
    bad = (ids < low) | (ids >= n)
    if bad.any():
        raise RunError(f"{what} {ids[bad].flat[0]} is out of range for extent {n}")
    positions: Array = np.where(ids < 0, ids + n, ids) if negative else ids
    return positions.astype(np.intp)


def add_rows(count: int, ids: Array, values: Array) -> Array:
    """Zeros [count, k] with row j of values [n, k] added at row ids[j]."""
    out = np.zeros((count, values.shape[1]), values.dtype)
    if values.size:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        out[ordered[first]] = np.add.reduceat(values[order], first, axis=0)
    return out


def integers_only(types: Sequence[Type]) -> None:
    """Refuse positions that are no integers."""
    for t in types:
        if kind(t.dtype) != "integer":
            raise DTypeError(
                f"positions are integers, not {t.dtype.name}",
                hint="a mask is a bool tensor: x[mask]; or convert with .astype",
            )


def from_rows(rows: Array, shape: Shape, axes: Integers) -> Array:
    """x laid out as [indexed extents flattened, all others], in its own shape."""
    rest = [n for k, n in enumerate(shape) if k not in axes]
    in_front = rows.reshape([shape[k] for k in axes] + rest)
    return np.moveaxis(in_front, range(len(axes)), axes)


def flat_ids(shape: Shape, axes: Integers, ids: Sequence[Array]) -> Array:
    """One row number for each position."""
    flat: Any = 0
    for k, i in zip(axes, ids, strict=True):
        flat = flat * shape[k] + in_range(i, shape[k])
    return np.asarray(flat).reshape(-1)


def value_rows(e: Array, place: int, ids: Sequence[Array]) -> Array:
    """Values laid out like an Index result, as [positions, all others]."""
    n = max(i.ndim for i in ids)
    in_front = np.moveaxis(e, range(place, place + n), range(n))
    return in_front.reshape(
        math.prod(in_front.shape[:n]), math.prod(in_front.shape[n:])
    )


def indexed(x: Type, axes: Integers, place: int, ids: Sequence[Type]) -> Type:
    """The type of x with the dimensions `axes` replaced by the positions' shape."""
    integers_only(ids)
    if len(axes) != len(ids):
        raise ShapeError(f"{len(ids)} index arrays given for axes {axes}")
    for k in axes:
        normalize_axis(k, x.ndim)
    shape = broadcast_shapes(*[t.shape for t in ids])
    rest = [k for k in range(x.ndim) if k not in axes]
    extents = tuple(x.shape[k] for k in rest)
    names = None
    if x.axes is not None or any(t.axes for t in ids):
        id_names = common_axes(ids, len(shape)) or (None,) * len(shape)
        kept = tuple(x.axes[k] if x.axes else None for k in rest)
        names = some(kept[:place] + id_names + kept[place:])
    return Type(extents[:place] + shape + extents[place:], x.dtype, names)


def numbered(has_rows: Sequence[bool], ids: Sequence[Tensor]) -> list[Tensor]:
    """Positions of rows with the number of each row before them, so that they meet."""
    n, lifted_ids = row_count(has_rows, ids), lifted(has_rows, ids)
    rank = max(x.type.ndim for x in lifted_ids)
    return [
        functions.reshape(constant_node(arange(n)), (n, *[1] * (rank - 1))),
        *lifted_ids,
    ]


def move_axis(x: Tensor, source: int, target: int) -> Tensor:
    """x with one dimension at another place."""
    return functions.moveaxis(x, source, target)


def wide(ids: Sequence[Array]) -> list[Array]:
    return list(np.broadcast_arrays(*ids))


@op(tolerance="E")
class Index(Family):
    """Elements of x at integer arrays, one for each of the dimensions `axes`.

    Inputs x and the positions; the positions' dimensions stand at `place` among the
    others in the result. Negative positions count from the end.
    """

    axes: Integers
    place: int = 0
    family = "gather"

    def infer(self, *types: Type) -> Type:
        return indexed(types[0], self.axes, self.place, types[1:])

    def numpy(self, *arrays: Any) -> Array:
        x, ids = arrays[0], wide(arrays[1:])
        known = [in_range(i, x.shape[k]) for k, i in zip(self.axes, ids, strict=True)]
        if self.axes == (self.place,):
            return np.take(x, known[0], self.place, mode="clip")
        elements = np.moveaxis(x, self.axes, range(len(self.axes)))[tuple(known)]
        n = ids[0].ndim
        return np.moveaxis(elements, range(n), range(self.place, self.place + n))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        put = Unindex(xs[0].type.shape, self.axes, self.place)
        return put(g, *xs[1:]), *[None] * (len(xs) - 1)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        (x, *ids), (many, *id_rows) = xs, has_rows
        inner = tuple(k + 1 for k in self.axes)
        if not any(id_rows):
            return Index(inner, self.place + 1)(x, *ids)
        if many:
            elements = Index((0, *inner), self.place)(x, *numbered(id_rows, ids))
        else:
            elements = self(x, *lifted(id_rows, ids))
        return move_axis(elements, self.place, 0)


@op(tolerance="R")
class Unindex(Family):
    """Zeros of `shape` with x added at integer arrays: the transpose of Index."""

    shape: Shape
    axes: Integers
    place: int = 0
    family = "scatter"

    def infer(self, *types: Type) -> Type:
        t = types[0]
        fit(Type(self.shape, t.dtype), self.axes, self.place, types)
        return Type(self.shape, t.dtype)

    def numpy(self, *arrays: Any) -> Array:
        ids = wide(arrays[1:])
        count = math.prod(self.shape[k] for k in self.axes)
        flat = flat_ids(self.shape, self.axes, ids)
        values = value_rows(arrays[0], self.place, ids)
        return from_rows(add_rows(count, flat, values), self.shape, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        take = Index(self.axes, self.place)
        return take(g, *xs[1:]), *[None] * (len(xs) - 1)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        whole = (row_count(has_rows, xs), *self.shape)
        return put_rows(self, 1, has_rows, xs, shape=whole)


def put_rows(
    op: Any, count: int, has_rows: Sequence[bool], xs: Sequence[Tensor], **fields: Any
) -> Tensor:
    """The rule `rows` of ops that put their last of `count` operands at positions."""
    axes = tuple(k + 1 for k in op.axes)
    ids, id_rows = xs[count:], has_rows[count:]
    if not any(id_rows):
        inner = replace(op, axes=axes, place=op.place + 1, **fields)
        return inner(*spread(has_rows, xs)[:count], *ids)
    *base, values = spread(has_rows, xs)[:count]
    inner = replace(op, axes=(0, *axes), **fields)
    result = inner(*base, move_axis(values, 0, op.place), *numbered(id_rows, ids))
    return result


def fit(x: Type, axes: Integers, place: int, types: Sequence[Type]) -> None:
    """Check that values (first) have the shape of x at positions (the others)."""
    want = indexed(x, axes, place, types[1:])
    if types[0].shape != want.shape:
        raise ShapeError(
            f"values of shape {types[0].shape} do not fit, need {want.shape}"
        )
    common_axes((want, types[0]), want.ndim)
