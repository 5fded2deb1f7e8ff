"""Elements and parts chosen along one dimension by positions that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, as_dtype
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.options import current
from treadle.base.types import Type, broadcast_shapes, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor, integer_node
from treadle.graph.op import Array, Cotangents, common_axes, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.at import At
from treadle.ops.families import Family, some
from treadle.ops.gather import Index, in_range, integers_only
from treadle.ops.index import getitem
from treadle.ops.movement import broadcast_to, reshape

__all__ = [
    "cols",
    "gather",
    "index_select",
    "one_hot",
    "pick",
    "pick_range",
    "scatter",
    "scatter_add",
    "take",
    "take_along_axis",
]


def positions(ids: Any) -> Tensor:
    """Positions as a node; an empty list is one of integers."""
    if type(ids) is int:
        return integer_node(ids)
    if isinstance(ids, (list, tuple)) and not len(ids):
        ids = np.zeros((0,), np.int64)
    return as_tensor(ids)


@provide
def take(x: Any, indices: Any, axis: Any = None) -> Tensor:
    """Elements of `x` at `indices` along `axis`: x[..., indices, ...].

    >>> td.take([10.0, 20.0, 30.0], [2, 0]).tolist()
    [30.0, 10.0]
    """
    node = as_tensor(x)
    if axis is None:
        if node.type.ndim != 1:
            raise ArgumentError(f"take from {node.type} needs an axis").located("take")
        axis = 0
    k = resolve_axis(axis, node.type)
    return Index((k,), k)(node, positions(indices))


@provide
def gather(x: Any, indices: Any, axis: Any = 0) -> Tensor:
    """`take` along the first dimension unless another is given.

    >>> td.gather([[1.0], [2.0]], [1]).tolist()
    [[2.0]]
    """
    if isinstance(indices, int) and hasattr(axis, "shape"):
        raise ArgumentError(
            "the places come before the axis, and are of whole rows",
            hint="torch's gather(x, dim, index) is td.take_along_axis(x, index, dim)",
        ).located("gather")
    return take(x, indices, axis)


@provide
def index_select(x: Any, axis: Any, indices: Any) -> Tensor:
    """`take` with the arguments in the order of older libraries.

    >>> td.index_select([[1.0, 2.0]], 1, [1]).tolist()
    [[2.0]]
    """
    return take(x, indices, axis)


@provide
def cols(x: Any, ids: Any) -> Tensor:
    """The columns of `x` (along its last dimension) at `ids`.

    >>> td.cols([[1.0, 2.0]], [1]).tolist()
    [[2.0]]
    """
    return take(x, ids, -1)


@op(tolerance="E")
class TakeAlong(Family):
    """x[.., ids[.., j, ..], ..] along `axis`: one position for each element.

    A negative position counts from the end; for labels it is an error.
    """

    axis: int
    labels: bool = False
    family = "gather"
    rows = along_axes
    arity = 2

    def infer(self, *types: Type) -> Type:
        x, ids = types
        _along_fits(self.axis, x, ids)
        return Type(ids.shape, x.dtype, common_axes(types, x.ndim))

    def numpy(self, x: Any, ids: Any) -> Array:
        what = "label" if self.labels else "index"
        known = in_range(ids, x.shape[self.axis], what, not self.labels)
        return np.take_along_axis(x, known, self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        extent = xs[0].type.shape[self.axis]
        return PutAlong(self.axis, extent, self.labels)(g, xs[1]), None


def _along_fits(axis: int, x: Type, ids: Type) -> None:
    integers_only([ids])
    same = [n for k, n in enumerate(x.shape) if k != axis]
    if x.ndim != ids.ndim or same != [n for k, n in enumerate(ids.shape) if k != axis]:
        raise ShapeError(
            f"shapes {x.shape} and {ids.shape} must agree but along axis {axis}"
        )
    normalize_axis(axis, x.ndim)


@op(tolerance="R")
class PutAlong(Family):
    """Zeros with x added at positions along `axis`: the transpose of TakeAlong."""

    axis: int
    extent: int
    labels: bool = False
    family = "scatter"
    rows = along_axes
    arity = 2

    def infer(self, *types: Type) -> Type:
        x, ids = types
        _along_fits(self.axis, x, ids)
        if x.shape != ids.shape:
            raise ShapeError(f"values {x.shape} do not fit positions {ids.shape}")
        shape = (*x.shape[: self.axis], self.extent, *x.shape[self.axis + 1 :])
        return Type(shape, x.dtype, common_axes(types, x.ndim))

    def numpy(self, *arrays: Any) -> Array:
        x, ids = [np.moveaxis(a, self.axis, -1) for a in arrays]
        lead = x.shape[:-1]
        what = "label" if self.labels else "index"
        known = in_range(ids, self.extent, what, not self.labels)
        known = known.reshape(math.prod(lead), x.shape[-1])
        known = known + np.arange(len(known))[:, None] * self.extent
        y = np.zeros(len(known) * self.extent, x.dtype)
        np.add.at(y, known.reshape(-1), x.reshape(-1))
        return np.moveaxis(y.reshape(*lead, self.extent), -1, self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return TakeAlong(self.axis, self.labels)(g, xs[1]), None


@provide
@recorded
def take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Tensor:
    """The elements of `x` at `indices` along `axis`, matched in all other dimensions.

    The other dimensions broadcast.

    >>> td.take_along_axis([[1.0, 2.0], [3.0, 4.0]], [[1], [0]], 1).tolist()
    [[2.0], [3.0]]
    """
    node, where = as_tensor(x), positions(indices)
    k = resolve_axis(axis, node.type)
    if where.type.ndim == node.type.ndim:
        a, b = node.type.shape, where.type.shape
        common = broadcast_shapes((*a[:k], *a[k + 1 :]), (*b[:k], *b[k + 1 :]))
        node = broadcast_to(node, (*common[:k], a[k], *common[k:]))
        where = broadcast_to(where, (*common[:k], b[k], *common[k:]))
    return TakeAlong(k)(node, where)


@provide
def pick(x: Any, labels: Any, axis: Any = -1, *, counted: bool = False) -> Tensor:
    """The element that `labels` name along `axis`: y[i] = x[i, labels[i]].

    A negative label counts from the end unless labels are `counted` from 0.

    >>> td.pick([[1.0, 2.0], [3.0, 4.0]], [1, 0]).tolist()
    [2.0, 3.0]
    """
    node, where = as_tensor(x), positions(labels)
    k = resolve_axis(axis, node.type)
    t = where.type
    shape = (*t.shape[:k], 1, *t.shape[k:])
    picked = TakeAlong(k, counted)(node, reshape(where, shape))
    names = node.type.axes and some(node.type.axes[:k] + node.type.axes[k + 1 :])
    return reshape(picked, t.shape, axes=names)


@provide
def pick_range(x: Any, start: int, stop: int, axis: Any = 0) -> Tensor:
    """The part of `x` from `start` before `stop` along `axis`.

    >>> td.pick_range([1.0, 2.0, 3.0], 1, 3).tolist()
    [2.0, 3.0]
    """
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    n = node.type.shape[k]
    if not 0 <= start <= stop <= n:
        raise ArgumentError(f"range {start}:{stop} leaves extent {n}").located(
            "pick_range", repr(node.type)
        )
    return getitem(node, (*[slice(None)] * k, slice(start, stop)))


@op(tolerance="E", differentiable=False)
class OneHot(Family):
    """1 where the new last dimension's position is the label, 0 elsewhere."""

    count: int
    dtype: DType
    family = "gather"
    arity = 1
    takes = "integer"

    def infer(self, t: Type) -> Type:
        names = t.axes and (*t.axes, None)
        return Type((*t.shape, self.count), self.dtype, names)

    def numpy(self, *arrays: Any) -> Array:
        known = in_range(arrays[0], self.count, "label", negative=False)
        return np.eye(self.count, dtype=self.dtype)[known]

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*xs)

    def __repr__(self) -> str:
        return f"OneHot(count={self.count}, dtype={self.dtype.name!r})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


@provide
def one_hot(labels: Any, n: int, dtype: Any = None) -> Tensor:
    """Rows that are 1 at their label and 0 elsewhere: y[.., k] = (labels[..] = k).

    >>> td.one_hot([1, 0], 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    wanted = current().dtype if dtype is None else as_dtype(dtype)
    return OneHot(int(n), wanted)(positions(labels))


@provide
def scatter(x: Any, indices: Any, values: Any, axis: Any = 0) -> Tensor:
    """`x` with its parts at `indices` along `axis` replaced by `values`.

    >>> td.scatter([1.0, 2.0, 3.0], [0, 2], [7.0, 9.0]).tolist()
    [7.0, 2.0, 9.0]
    """
    return _along(x, indices, axis).set(values)


@provide
def scatter_add(x: Any, indices: Any, values: Any, axis: Any = 0) -> Tensor:
    """`x` with `values` added to its parts at `indices` along `axis`.

    >>> td.scatter_add([1.0, 2.0], [0, 0], [7.0, 9.0]).tolist()
    [17.0, 2.0]
    """
    return _along(x, indices, axis).add(values)


def _along(x: Any, indices: Any, axis: Any) -> At:
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    return At(node)[(*[slice(None)] * k, positions(indices))]
