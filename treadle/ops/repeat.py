"""Elements turned round, rolled and repeated along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, AxisError
from treadle.base.types import Type, normalize_axes, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.families import Movement
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.rearrange import expand_dims

__all__ = ["flip", "repeat", "roll", "tile"]


@op(involution=True)
class Flip(Movement):
    """The elements in reverse order along `axes`."""

    axes: tuple[int, ...]

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

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls((0,)), (Input((4, 3)),)),
            Sample(cls((0, 2)), (Input((2, 3, 4)),)),
            Sample(cls((0,)), (Input((0, 3)),)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x = as_tensor([1.0])
        return [
            *super().mistakes(),
            Mistake(lambda: flip(x, 1), AxisError, "out of range"),
        ]


@provide
def flip(x: Any, axis: Any = None) -> Tensor:
    """The elements in reverse order along `axis`, or along all.

    >>> import treadle as td
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

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(1, 0), (Input((4, 3)),)),
            Sample(cls(-2, 1), (Input((2, 5)),)),
            Sample(cls(1, 0), (Input((0, 3)),)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x = as_tensor([1.0])
        return [
            *super().mistakes(),
            Mistake(lambda: roll(x, 1, 1), AxisError, "out of range"),
        ]


@provide
def roll(x: Any, shift: int, axis: Any = None) -> Tensor:
    """The elements moved `shift` places up along `axis`, round the end.

    Without an axis the flattened elements are moved.

    >>> import treadle as td
    >>> td.roll([1.0, 2.0, 3.0], 1).tolist()
    [3.0, 1.0, 2.0]
    """
    node = as_tensor(x)
    if axis is None:
        return reshape(Roll(shift, 0)(reshape(node, (-1,))), node.type.shape)
    return Roll(shift, resolve_axis(axis, node.type))(node)


@provide
def repeat(x: Any, count: int, axis: Any = None) -> Tensor:
    """Each element `count` times in a row along `axis`, or of the flattened tensor.

    >>> import treadle as td
    >>> td.repeat([1.0, 2.0], 2).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    node = as_tensor(x)
    if count < 0:
        raise ArgumentError(f"repeat takes no negative count, got {count}").located(
            "repeat"
        )
    if axis is None:
        node, k = reshape(node, (-1,)), 0
    else:
        k = resolve_axis(axis, node.type)
    shape = node.type.shape
    wide = broadcast_to(
        expand_dims(node, k + 1), (*shape[: k + 1], count, *shape[k + 1 :])
    )
    names = node.type.axes
    return reshape(wide, (*shape[:k], shape[k] * count, *shape[k + 1 :]), axes=names)


@provide
def tile(x: Any, counts: Any) -> Tensor:
    """The whole tensor repeated `counts` times along each dimension, as np.tile.

    >>> import treadle as td
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
    return reshape(repeated, tuple(r * n for r, n in zip(times, shape, strict=True)))
