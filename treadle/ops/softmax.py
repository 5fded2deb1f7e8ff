"""Softmax and its kin: distributions along an axis, also under upper bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import AxisError, ShapeError, TreadleError
from treadle.base.symbolic import arange
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import constant_node
from treadle.graph.op import Array, Cotangents, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, astype, operands
from treadle.ops.families import Composite, same_dtype
from treadle.ops.flow import stop_gradient
from treadle.ops.movement import broadcast_to
from treadle.ops.select import minimum, where
from treadle.ops.statistics import LogSumExp

__all__ = [
    "constrained_softmax",
    "log_softmax",
    "softmax",
    "softmin",
    "sparsemax",
]


@family
class AlongAxis(Composite):
    """A composite that keeps the type and works along `axis`."""

    __slots__ = ()
    arity = 1
    takes = "float"
    axis: int = -1
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        resolve_axis(self.axis, types[0])
        return types[0]


@op()
class Softmax(AlongAxis):
    """e**x over its sum along `axis`, shifted by the maximum."""

    def numpy(self, *arrays: Any) -> Array:
        e = np.exp(arrays[0] - arrays[0].max(self.axis, keepdims=True))
        return e / e.sum(self.axis, keepdims=True)

    def expand(self, x: Tensor) -> Tensor:
        e = functions.exp(x - stop_gradient(x.max(self.axis, keepdims=True)))
        return e / e.sum(self.axis, keepdims=True)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (y * (g - (g * y).sum(self.axis, keepdims=True)),)


@provide
@recorded
def softmax(x: Any, axis: Any = -1, *, dtype: Any = None) -> Tensor:
    """e**x / sum(e**x) along `axis`, of x in a `dtype` if one is given.

    >>> td.softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    node = as_float(x if dtype is None else astype(x, dtype))
    return Softmax(resolve_axis(axis, node.type))(node)


@op()
class LogSoftmax(AlongAxis):
    """The logarithm of softmax along `axis`, finite wherever x is."""

    def numpy(self, *arrays: Any) -> Array:
        shifted = arrays[0] - arrays[0].max(self.axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(self.axis, keepdims=True))

    def expand(self, x: Tensor) -> Tensor:
        shifted = x - stop_gradient(x.max(self.axis, keepdims=True))
        total = functions.exp(shifted).sum(self.axis, keepdims=True)
        return shifted - functions.log(total)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g - functions.exp(y) * g.sum(self.axis, keepdims=True),)


@provide
@recorded
def log_softmax(x: Any, axis: Any = -1, *, dtype: Any = None) -> Tensor:
    """log(softmax(x)) along `axis`, without underflow; of x in a `dtype` if given.

    >>> [f"{v:.4f}" for v in td.log_softmax([0.0, 0.0]).tolist()]
    ['-0.6931', '-0.6931']
    """
    node = as_float(x if dtype is None else astype(x, dtype))
    return LogSoftmax(resolve_axis(axis, node.type))(node)


def softmin(x: Any, axis: Any = -1, *, dtype: Any = None) -> Tensor:
    """softmax(-x) along `axis`, of x in a `dtype` if one is given.

    >>> td.softmin([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    return softmax(-as_float(x), axis, dtype=dtype)


@op()
class Sparsemax(AlongAxis):
    """The nearest distribution to x along `axis`, with zeros where x is small."""

    def numpy(self, *arrays: Any) -> Array:
        x = np.moveaxis(arrays[0], self.axis, -1)
        x = x - x.max(-1, keepdims=True)  # so that sums of large numbers stay exact
        n = x.shape[-1]
        ordered = -np.sort(-x, axis=-1)
        sums = np.cumsum(ordered, axis=-1)
        k = np.arange(1, n + 1)
        support = np.sum(1 + k * ordered > sums, axis=-1, keepdims=True)
        tau = (np.take_along_axis(sums, support - 1, -1) - 1) / support
        return np.moveaxis(np.maximum(x - tau, 0), -1, self.axis).astype(x.dtype)

    def expand(self, *xs: Tensor) -> Tensor:
        x = xs[0] - stop_gradient(xs[0].max(self.axis, keepdims=True))
        shape = [1] * x.type.ndim
        shape[self.axis] = n = x.type.shape[self.axis]
        places = functions.reshape(constant_node(arange(n, x.type.dtype)), shape)
        k = places + 1.0
        ordered = functions.sort(x, axis=self.axis, descending=True)
        sums = functions.cumulative_sum(ordered, axis=self.axis)
        inside = (ordered * k + 1.0) > sums
        count = inside.astype(x.type.dtype).sum(self.axis, keepdims=True)
        total = functions.where(inside, ordered, 0).sum(self.axis, keepdims=True)
        return functions.maximum(x - (total - 1.0) / count, 0)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        inside = y > 0
        count = inside.astype(g.type.dtype).sum(self.axis, keepdims=True)
        kept = functions.where(inside, g, 0)
        mean = kept.sum(self.axis, keepdims=True) / count
        return (functions.where(inside, g - mean, 0),)


@provide
def sparsemax(x: Any, axis: Any = -1) -> Tensor:
    """The nearest point to x among the distributions along `axis`.

    Martins and Astudillo, 2016.

    >>> td.sparsemax([3.0, 0.0, 0.5]).tolist()
    [1.0, 0.0, 0.0]
    """
    node = as_float(x)
    return Sparsemax(resolve_axis(axis, node.type))(node)


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
