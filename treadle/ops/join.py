"""Tensors put together and taken apart along a dimension."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import ArityError, AxisError, ShapeError, TreadleError
from treadle.base.types import Axis, Type, as_names, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Op, Traits, op, shared
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor, new_node, node_at, site
from treadle.ops.cast import operands
from treadle.ops.families import Family, same_dtype
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims, squeeze
from treadle.ops.slice import Slice

__all__ = ["concat", "split", "stack", "unstack"]


def part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """The elements from start to stop along an axis."""
    cut = _cut(x.type, axis, start, stop)
    return x if cut is None else new_node(cut[0], (x,), cut[1])


def parts_of(x: Tensor, axis: int, bounds: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Several parts along an axis, made at one site."""
    here = site(3)
    cuts = [_cut(x.type, axis, start, stop) for start, stop in bounds]
    return [x if cut is None else node_at(here, cut[0], (x,), cut[1]) for cut in cuts]


@cached(1024)
def _cut(t: Type, axis: int, start: int, stop: int) -> tuple[Op, Type] | None:
    """The slice that `part` is, and its type; None for all there is."""
    if start == 0 and stop == t.shape[axis]:
        return None
    if start >= stop:
        start = stop = 0
    starts = tuple(start if k == axis else 0 for k in range(t.ndim))
    stops = tuple(stop if k == axis else n for k, n in enumerate(t.shape))
    op_ = Slice(starts, stops, (1,) * t.ndim)
    return op_, op_.infer(t)


@op(linear=True)
class Concat(Family):
    """The inputs one after the other along `axis`."""

    axis: int
    family = "join"
    rows = along_axes
    traits = Traits(tolerance="E")

    def infer(self, *types: Type) -> Type:
        if not types:
            raise ArityError("takes 1 operand or more")
        if types.count(types[0]) == len(types):
            return _repeated(types[0], self.axis, len(types))
        same_dtype(types)
        first = types[0]
        axis = normalize_axis(self.axis, first.ndim)
        for t in types[1:]:
            fits = t.ndim == first.ndim and all(
                a == b
                for k, (a, b) in enumerate(zip(t.shape, first.shape, strict=True))
                if k != axis
            )
            if not fits:
                raise ShapeError(
                    f"{t.shape} does not join {first.shape} along axis {axis}",
                    hint="all other dimensions must be equal",
                )
            if t.axes != first.axes:
                raise AxisError(
                    f"axis names differ: {first} and {t}",
                    hint="td.order_axes and td.rename_axes make them equal",
                )
        total = sum(t.shape[axis] for t in types)
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        return Type(shape, first.dtype, first.axes)

    def numpy(self, *arrays: Any) -> Array:
        return np.concatenate(arrays, self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        parts, start = [], 0
        for x in xs:
            stop = start + x.type.shape[self.axis]
            parts.append(part(g, self.axis, start, stop))
            start = stop
        return tuple(parts)


@cached(1024)
def _repeated(t: Type, axis: int, count: int) -> Type:
    """The type of so many tensors of one type, joined."""
    axis = normalize_axis(axis, t.ndim)
    shape = (*t.shape[:axis], count * t.shape[axis], *t.shape[axis + 1 :])
    return Type(shape, t.dtype, t.axes)


def _nothing() -> ArityError:
    return ArityError(
        "there is nothing to join",
        hint="give one tensor or more; a batch without examples has no loss: skip it",
    )


@provide
@recorded
def concat(xs: Any, axis: Any = 0) -> Tensor:
    """The tensors one after the other along `axis` (None: flattened ones).

    >>> td.concat([[1.0], [2.0, 3.0]]).tolist()
    [1.0, 2.0, 3.0]
    """
    items = list(xs)
    if not items:
        raise _nothing().located("concat")
    nodes, alike = _together(items)
    if axis is None:
        nodes, axis = [x.reshape(-1) for x in nodes], 0
    place = resolve_axis(axis, nodes[0].type)
    return nodes[0] if len(nodes) == 1 else _joined(nodes, place, alike)


def _joined(nodes: Sequence[Tensor], axis: int, alike: bool) -> Tensor:
    """Nodes one after the other; those of one type are not looked at each."""
    put: Op = shared(Concat, axis)
    if not alike:
        return put(*nodes)
    type_ = _repeated(nodes[0].type, axis, len(nodes))
    return new_node(put, tuple(nodes), type_, 3)


def _together(items: Sequence[Any]) -> tuple[Sequence[Tensor], bool]:
    """The operands of a join, and whether they are known to have one type."""
    types = [x.type for x in items if type(x) is Tensor]
    if len(types) == len(items) and types.count(types[0]) == len(types):
        return items, True
    return operands(*items), False


def _bare(nodes: Sequence[Tensor]) -> bool:
    """Whether no tensor has axis names."""
    return all(x.type.axes is None for x in nodes)


@provide
@recorded
def stack(xs: Any, axis: Any = 0) -> Tensor:
    """The tensors of one shape side by side along a new dimension: a place, or the name
    of a new axis in front.

    >>> td.stack([[1.0, 2.0], [3.0, 4.0]], 1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    >>> x = td.name_axes(td.zeros(3), "n")
    >>> td.stack([x, x], "time").type
    float32[time=2, n=3]
    """
    if isinstance(axis, (str, Axis)):
        return _in_front(stack(xs), axis)
    items = list(xs)
    if not items:
        raise _nothing().located("stack")
    nodes, alike = _together(items)
    first = nodes[0].type
    for k, x in enumerate(() if alike else nodes):
        if x.type.shape != first.shape:
            raise ShapeError(
                f"item {k} has shape {x.type.shape}, item 0 has {first.shape}",
                hint="give all one shape with td.pad, or td.concat along one they have",
            ).located("stack", f"{first}, {x.type}")
    place = normalize_axis(axis, first.ndim + 1)
    if (
        place == 0
        and len(nodes) > 1
        and first.ndim
        and _bare(nodes[:1] if alike else nodes)
    ):
        # The same in row-major order, without a node for each of them.
        return reshape(_joined(nodes, 0, alike), (len(nodes), *first.shape))
    wide = [expand_dims(nodes[0], place)]
    put, type_ = wide[0].op, wide[0].type
    for x in nodes[1:]:
        same = x.type is first  # then it is the same step
        wide.append(new_node(put, (x,), type_) if same else expand_dims(x, place))
    return wide[0] if len(wide) == 1 else shared(Concat, place)(*wide)


def _in_front(y: Tensor, axis: str | Axis) -> Tensor:
    """y with a name for its first dimension, which none of the others has."""
    rest = y.type.axes[1:] if y.type.axes else (None,) * (y.type.ndim - 1)
    try:
        names = as_names((axis, *rest), y.type.shape)
    except TreadleError as error:
        raise error.located("stack", repr(y.type)) from None
    return reshape(y, y.type.shape, axes=names)


@provide
@recorded
def split(x: Any, parts: Any, axis: Any = 0) -> list[Tensor]:
    """Parts along `axis`: so many equal ones, or ones of the sizes listed.

    >>> [p.tolist() for p in td.split([1.0, 2.0, 3.0], [1, 2])]
    [[1.0], [2.0, 3.0]]
    """
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    n = node.type.shape[k]
    if hasattr(parts, "__index__"):
        count = int(parts)
        if count < 1 or n % count:
            raise ShapeError(f"{n} does not split into {count} equal parts").located(
                "split", repr(node.type)
            )
        sizes = [n // count] * count
    else:
        sizes = [int(size) for size in parts]
        if sum(sizes) != n or any(size < 0 for size in sizes):
            raise ShapeError(f"sizes {sizes} do not add up to {n}").located(
                "split", repr(node.type)
            )
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    return parts_of(node, k, tuple(bounds))


@provide
@recorded
def unstack(x: Any, axis: Any = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, that dimension dropped.

    >>> [r.tolist() for r in td.unstack([[1.0, 2.0], [3.0, 4.0]])]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    n = node.type.shape[k]
    if n < 2:
        return (squeeze(node, k),) if n else ()
    first = squeeze(part(node, k, 0, 1), k)
    slices, (sliced,) = [first], first.inputs
    whole, ones = node.type.shape, (1,) * node.type.ndim
    before, behind = (0,) * k, (0,) * (len(whole) - k - 1)
    for i in range(1, n):
        stops = (*whole[:k], i + 1, *whole[k + 1 :])
        cut = Slice((*before, i, *behind), stops, ones)
        slices.append(
            new_node(first.op, (new_node(cut, (node,), sliced.type),), first.type)
        )
    return tuple(slices)
