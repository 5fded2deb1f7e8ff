"""Sorting, ranking and the greatest few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from treadle.base.dtypes import int64
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import TupleType, Type, normalize_axis, resolve_axis
from treadle.graph.leaves import SCALARS, as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, Traits, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import along_axes, widened
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, operands
from treadle.ops.compare import compared
from treadle.ops.families import Composite, Family, outputs_of, same_dtype
from treadle.ops.pick import PutAlong
from treadle.ops.reduce import along

__all__ = [
    "argsort",
    "kth_value",
    "quantile",
    "searchsorted",
    "sort",
    "top_k",
]


def ordered(x: Array, axis: int, descending: bool) -> Array:
    """The sources of elements in order; equals keep theirs, NaN is greatest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


@family
class Ordering(Family):
    """An op that puts elements in order along `axis`."""

    __slots__ = ()
    family = "order"
    arity = 1
    takes = "real"
    traits = Traits(tolerance="E")
    axis: int
    descending: bool = False
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        normalize_axis(self.axis, types[0].ndim)
        return types[0]


@op(differentiable=False)
class ArgSort(Ordering):
    """The positions of the elements in sorted order: int64."""

    def infer(self, *types: Type) -> Type:
        return super().infer(*types).with_dtype(int64)

    def numpy(self, *arrays: Any) -> Array:
        return ordered(arrays[0], self.axis, self.descending)


@provide
def argsort(
    x: Any, axis: Any = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions that put `x` in order along `axis`; equals keep their order, be it
    asked for as `stable` or not.

    NaN counts as greatest: it comes last, and first in descending order.

    >>> td.argsort([3.0, 1.0, 2.0]).tolist()
    [1, 2, 0]
    """
    node = as_tensor(x)
    return ArgSort(resolve_axis(axis, node.type), descending)(node)


@op(idempotent=True)
class Sort(Ordering, Composite):
    """The elements in order."""

    def numpy(self, x: Any) -> Array:
        places = ordered(x, self.axis, self.descending)
        return np.take_along_axis(x, places, self.axis)

    def expand(self, *xs: Tensor) -> Tensor:
        places = ArgSort(self.axis, self.descending)(*xs)
        return cast(Tensor, functions.take_along_axis(xs[0], places, self.axis))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        places = argsort(xs[0], self.axis, descending=self.descending)
        back = argsort(places, self.axis)
        return (functions.take_along_axis(g, back, self.axis),)


@provide
def sort(
    x: Any, axis: Any = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The elements in order along `axis`; NaN counts as greatest.

    >>> td.sort([3.0, 1.0, 2.0]).tolist()
    [1.0, 2.0, 3.0]
    """
    node = as_tensor(x)
    return Sort(resolve_axis(axis, node.type), descending)(node)


@op()
class TopK(Composite):
    """The k greatest elements along `axis` in falling order, or the k least in rising
    order, and where they stand."""

    k: int
    axis: int
    largest: bool = True
    rows = along_axes
    family = "order"
    arity = 1
    takes = "real"
    traits = Traits(tolerance="E")

    def infer(self, t: Type) -> TupleType:
        axis = normalize_axis(self.axis, t.ndim)
        if not 0 <= self.k <= t.shape[axis]:
            raise ArgumentError(f"k is {self.k}, axis {axis} has {t.shape[axis]}")
        shape = (*t.shape[:axis], self.k, *t.shape[axis + 1 :])
        values = Type(shape, t.dtype, t.axes)
        return TupleType((values, values.with_dtype(int64)))

    def numpy(self, x: Any) -> Any:
        places = ordered(x, self.axis, self.largest)
        places = np.take(places, np.arange(self.k), self.axis)
        return np.take_along_axis(x, places, self.axis), places

    def expand(self, *xs: Tensor) -> tuple[Tensor, Tensor]:
        key = (slice(None),) * self.axis + (slice(self.k),)
        places = ArgSort(self.axis, self.largest)(*xs)[key]
        return functions.take_along_axis(xs[0], places, self.axis), places

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        if g[0] is None:
            return (None,)
        places = outputs_of(y)[1]
        return (PutAlong(self.axis, x.type.shape[self.axis])(g[0], places),)


@provide
def top_k(
    x: Any, k: int, axis: Any = -1, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """The k greatest elements along `axis` in falling order, and their positions;
    without `largest` the k least in rising order.

    NaN counts as greatest, as in `sort`, `max` and `argmax`.

    >>> [t.tolist() for t in td.top_k([3.0, 1.0, 2.0], 2)]
    [[3.0, 2.0], [0, 2]]
    >>> [t.tolist() for t in td.top_k([3.0, 1.0, 2.0], 2, largest=False)]
    [[1.0, 2.0], [1, 2]]
    """
    node = as_tensor(x)
    op = TopK(k, resolve_axis(axis, node.type), bool(largest))
    values, places = outputs_of(op(node))
    return values, places


def kth_value(x: Any, k: int, axis: Any = -1) -> Tensor:
    """The k-th least element along `axis`, counted from 0.

    >>> float(td.kth_value([3.0, 1.0, 2.0], 1))
    2.0
    """
    node = as_tensor(x)
    place = resolve_axis(axis, node.type)
    if not 0 <= k < node.type.shape[place]:
        raise ArgumentError(
            f"k is {k}, axis {place} has {node.type.shape[place]}"
        ).located("kth_value", repr(node.type))
    key = (slice(None),) * place + (k,)
    return sort(node, place)[key]


# The weight of the greater neighbor, by where a quantile lies between two elements.
_BETWEEN: dict[str, Any] = {
    "linear": lambda at: at - np.floor(at),
    "lower": np.zeros_like,
    "higher": lambda at: np.ceil(at) - np.floor(at),
    "nearest": lambda at: np.rint(at) - np.floor(at),
    "midpoint": lambda at: (np.ceil(at) - np.floor(at)) / 2,
}


def quantile(
    x: Any,
    q: Any,
    axis: Any = None,
    *,
    keepdims: bool = False,
    method: str = "linear",
) -> Tensor:
    """The q-th quantiles along `axis`, or of all elements, in the shape of q before
    the rest.

    Between elements by `method`: "linear", "lower", "higher", "nearest" or "midpoint",
    as NumPy's and torch's `interpolation`. NaN where an element is. Hyndman and Fan
    1996, definition 7.

    >>> td.quantile([4.0, 1.0, 2.0], [0.5, 0.75]).tolist()
    [2.0, 3.0]
    """
    node, axes = along(as_float(x), axis)
    if method not in _BETWEEN:
        known = ", ".join(map(repr, _BETWEEN))
        raise ArgumentError(f"method {method!r} is none of {known}").located("quantile")
    levels = np.asarray(q, np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ArgumentError(f"q is {q}, not from 0 to 1").located("quantile")
    rest = [k for k in range(node.type.ndim) if k not in axes]
    left = [node.type.shape[k] for k in rest]
    moved = functions.permute_dims(functions.unname(node), (*rest, *axes))
    rows = functions.reshape(
        moved, (*left, math.prod(node.type.shape[k] for k in axes))
    )
    count = rows.type.shape[-1]
    if not count:
        raise ShapeError(f"no quantile of no elements of {node.type}")
    rising = sort(rows, -1)
    at = levels * (count - 1)
    low, high = (
        functions.take(rising, f(at).astype(np.int64), -1) for f in (np.floor, np.ceil)
    )
    weight = constant_node(np.asarray(_BETWEEN[method](at), node.type.dtype))
    between = low + functions.where(functions.equal(low, high), 0, high - low) * weight
    last = rising[..., -1].reshape((*left, *[1] * levels.ndim))
    result = functions.where(functions.isnan(last), last, between)
    n = len(left)
    result = functions.permute_dims(result, (*range(n, n + levels.ndim), *range(n)))
    if not keepdims:
        return result
    kept = [1 if k in axes else m for k, m in enumerate(node.type.shape)]
    return functions.reshape(result, (*levels.shape, *kept))


@op(differentiable=False)
class SearchSorted(Family):
    """Insertion points in a sorted vector: before equals, or after with `right`."""

    right: bool = False
    family = "order"
    arity = 2
    takes = "ordered"
    traits = Traits(tolerance="E")

    def infer(self, *types: Type) -> Type:
        row, values = types
        same_dtype(types)
        if row.ndim != 1:
            raise ShapeError(f"the sorted operand is a vector, not {row}")
        return values.with_dtype(int64)

    def numpy(self, row: Any, values: Any) -> Any:
        return np.searchsorted(row, values, side="right" if self.right else "left")

    def rows(
        self, has_rows: Sequence[bool], row: Tensor, values: Tensor
    ) -> Tensor | None:
        if not has_rows[0]:
            return self(row, values)
        # Rows of their own are not searched: each value is compared with all of one.
        v = functions.expand_dims(values, -1)
        row = widened(row, v.type.ndim - has_rows[1])
        lower = functions.less_equal(row, v) if self.right else functions.less(row, v)
        if row.type.dtype.kind not in "iu":  # NaN stands last
            last = functions.isnan(v)
            lower = lower | (last if self.right else last & ~functions.isnan(row))
        return cast(Tensor, functions.sum(lower, -1))


@provide
def searchsorted(
    x: Any, values: Any, *, side: str = "left", sorter: Any = None
) -> Tensor:
    """Positions in the sorted vector x: the number of elements less than each value.

    With side="right" equal ones are counted too. `sorter` has the positions that put x
    in order, where it is not.

    >>> td.searchsorted([1.0, 2.0, 2.0], [2.0, 0.0]).tolist()
    [1, 0]
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"side is 'left' or 'right', not {side!r}").located(
            "searchsorted"
        )
    if sorter is not None:
        x = functions.take(x, sorter, 0)
    number = isinstance(values, SCALARS)
    nodes = operands(x, values) if number else compared(as_tensor(x), as_tensor(values))
    return SearchSorted(side == "right")(*nodes)
