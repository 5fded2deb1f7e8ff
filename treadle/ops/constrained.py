"""Softmax under upper bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import AxisError, ShapeError, TreadleError
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input, Mistake, Sample, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Composite, same_dtype
from treadle.ops.movement import broadcast_to
from treadle.ops.select import minimum, where
from treadle.ops.statistics import LogSumExp

__all__ = ["constrained_softmax"]


@op()
class ConstrainedSoftmax(Composite):
    """The distribution along `axis` nearest to softmax(x) with no part above its bound.

    p = min(u, s e**x) with the s that makes the sum 1; p = u where the bounds u sum to
    1 or less.
    """

    axis: int = -1
    arity = 2
    takes = "float"
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        x, u = types
        resolve_axis(self.axis, x)
        if x.shape != u.shape:
            raise ShapeError(f"scores {x} with bounds {u}")
        if x.axes != u.axes:
            raise AxisError(f"scores {x} and bounds {u} differ in axis names")
        return x

    def numpy(self, *arrays: Any) -> Array:
        x, u = (np.moveaxis(a, self.axis, -1) for a in arrays)
        full = np.broadcast_to(u.sum(-1, keepdims=True) <= 1, u.shape)
        while True:
            left = 1 - np.where(full, u, 0).sum(-1, keepdims=True)
            rest = LogSumExp((-1,), True).numpy(np.where(full, -np.inf, x))
            p = np.where(full, u, np.exp(x - rest) * left)
            more = p > u
            if not more.any():
                return np.moveaxis(p, -1, self.axis)
            full = full | more

    def expand(self, x: Tensor, u: Tensor) -> Tensor:
        axis = self.axis
        if not x.type.shape[axis]:
            return minimum(x, u)
        # Those at their bounds come first when sorted by u / e**x, and of all such
        # beginnings the right one has the greatest s.
        order = functions.argsort(functions.log(u) - x, axis=axis)
        high, bounds = (functions.take_along_axis(v, order, axis) for v in (x, u))
        left = 1 - functions.cumulative_sum(bounds, axis, exclusive=True)
        rest = functions.cumulative_logsumexp(high, axis, reverse=True)
        some = left > 0
        logs = where(some, functions.log(where(some, left, 1)) - rest, -np.inf)
        s = logs.max(axis, keepdims=True)
        p = minimum(u, functions.exp(x + s))
        return where(u.sum(axis, keepdims=True) <= 1, u, p)

    @classmethod
    def samples(cls) -> list[Sample]:
        bounds = np.array([[0.5, 0.4, 0.6], [0.2, 0.9, 0.3]], np.float32)
        few = np.array([0.25, 0.5], np.float32)
        return [
            Sample(cls(1), (Input((2, 3), apart=0.05), bounds)),
            Sample(cls(0), (Input((3, 2), apart=0.05), bounds.T + np.float32(0.05))),
            Sample(cls(0), (Input((2,)), few)),
            Sample(cls(1), (Input((0, 3)), Input((0, 3)))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, y = as_tensor([1.0, 2.0]), as_tensor([1.0])
        named = as_tensor([1.0, 2.0], axes=("c",))
        return [
            Mistake(lambda: cls()(x, y), ShapeError, "with bounds"),
            Mistake(lambda: cls()(x, named), AxisError, "differ in axis names"),
            Mistake(lambda: cls(1)(x, x), AxisError, "out of range"),
        ]


@provide
def constrained_softmax(x: Any, bounds: Any, axis: Any = -1) -> Tensor:
    """softmax(x) along `axis` with no part above its bound: what is cut goes to others.

    p = min(u, s e**x) with the s that makes the sum 1; p = u where the bounds u, which
    broadcast, sum to 1 or less. Martins and Kreutzer, Learning what's easy, 2017.

    >>> p = td.constrained_softmax([0.0, 0.0, 0.0], [0.2, 1.0, 1.0])
    >>> [round(v, 4) for v in p.tolist()]
    [0.2, 0.4, 0.4]
    """
    try:
        node, u = align(operands(as_float(x), as_float(bounds)))
        u = broadcast_to(u, node.type.shape, axes=node.type.axes)
        return ConstrainedSoftmax(resolve_axis(axis, node.type))(node, u)
    except TreadleError as error:
        raise error.located("constrained_softmax") from None
