"""Elements turned round, rolled and repeated along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError
from treadle.base.types import (
    Type,
    as_integers,
    normalize_axes,
    normalize_axis,
    resolve_axis,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.families import Movement
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.rearrange import expand_dims

__all__ = ["flip", "repeat", "roll", "tile"]


@op(involution=True)
class Flip(Movement):
    """The elements in reverse order along `axes`."""

    axes: tuple[int, ...]
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        for axis in self.axes:
            normalize_axis(axis, types[0].ndim)
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return np.flip(arrays[0], self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Flip(self.axes)(g),)

    def index(self, i: Any, x: Type) -> tuple[Any, ...]:
        return tuple(
            x.shape[k] - 1 - n if k in self.axes else n for k, n in enumerate(i)
        )


@provide
def flip(x: Any, axis: Any = None) -> Tensor:
    """The elements in reverse order along `axis`, or along all.

    >>> td.flip([1.0, 2.0, 3.0]).tolist()
    [3.0, 2.0, 1.0]
    """
    node = as_tensor(x)
    return Flip(tuple(sorted(normalize_axes(axis, node.type))))(node)


@op()
class Roll(Movement):
    """The elements moved `shift` places up along `axis`, the last ones coming first."""

    shift: int
    axis: int
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        normalize_axis(self.axis, types[0].ndim)
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return np.roll(arrays[0], self.shift, self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Roll(-self.shift, self.axis)(g),)

    def index(self, i: Any, x: Type) -> tuple[Any, ...]:
        n = max(x.shape[self.axis], 1)
        return tuple(
            (p - self.shift) % n if k == self.axis else p for k, p in enumerate(i)
        )


@provide
def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """The elements moved `shift` places up along `axis`, round the end.

    Without an axis the flattened elements are moved; with several, along each.

    >>> td.roll([1.0, 2.0, 3.0], 1).tolist()
    [3.0, 1.0, 2.0]
    """
    node = as_tensor(x)
    if axis is None:
        flat = Roll(shift, 0)(reshape(node, (-1,)))
        return reshape(flat, node.type.shape, axes=node.type.axes)
    axes = normalize_axes(axis, node.type)
    steps = (shift,) * len(axes) if hasattr(shift, "__index__") else tuple(shift)
    if len(steps) != len(axes):
        raise ArgumentError(f"{len(steps)} shifts for {len(axes)} axes").located("roll")
    whole_steps = as_integers(steps)
    if whole_steps is None:
        raise ArgumentError(f"a shift is a whole number, not {shift!r}").located("roll")
    for step, k in zip(whole_steps, axes, strict=True):
        node = Roll(step, k)(node)
    return node


@provide
def repeat(x: Any, count: Any, axis: Any = None) -> Tensor:
    """Each element `count` times in a row along `axis`, or of the flattened tensor.

    `count` is a number, or a list with one for each place along the axis, or for all.

    >>> td.repeat([1.0, 2.0], 2).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    node = as_tensor(x)
    counts = np.asarray(whole(count))
    if counts.dtype.kind not in "iu" or np.any(counts < 0):
        raise ArgumentError(
            f"a count is an integer from 0 on, or a list of them, not {count!r}"
        ).located("repeat")
    if axis is None:
        node, k = reshape(node, (-1,)), 0
    else:
        k = resolve_axis(axis, node.type)
    shape = node.type.shape
    if counts.shape == (1,):
        count = int(counts[0])
    elif counts.ndim:
        return _repeated(node, counts, k)
    wide = broadcast_to(
        expand_dims(node, k + 1), (*shape[: k + 1], count, *shape[k + 1 :])
    )
    names = node.type.axes
    return reshape(wide, (*shape[:k], shape[k] * count, *shape[k + 1 :]), axes=names)


def _repeated(node: Tensor, counts: Array, k: int) -> Tensor:
    """Each place along dimension k as often as `counts` says."""
    if counts.shape != (node.type.shape[k],):
        raise ArgumentError(f"counts {counts.shape} for {node.type}").located("repeat")
    places = as_tensor(np.repeat(np.arange(len(counts)), counts))
    taken = functions.take(functions.unname(node), places, k)
    return reshape(taken, taken.type.shape, axes=node.type.axes)


@provide
@recorded
def tile(x: Any, counts: Any) -> Tensor:
    """The whole tensor repeated `counts` times along each dimension, as np.tile.

    >>> td.tile([1.0, 2.0], 2).tolist()
    [1.0, 2.0, 1.0, 2.0]
    """
    node = as_tensor(x)
    times = (counts,) if hasattr(counts, "__index__") else tuple(counts)
    ndim = max(len(times), node.type.ndim)
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - node.type.ndim) + node.type.shape
    split = [m for n in shape for m in (1, n)]
    wide = [m for r, n in zip(times, shape, strict=True) for m in (r, n)]
    repeated = broadcast_to(reshape(node, tuple(split)), tuple(wide))
    names = node.type.axes and (None,) * (ndim - node.type.ndim) + node.type.axes
    extents = tuple(r * n for r, n in zip(times, shape, strict=True))
    return reshape(repeated, extents, axes=names)
