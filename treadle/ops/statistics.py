"""Means, spreads, moments, norms and other sums over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import int64
from treadle.base.errors import ArgumentError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Cotangents, Input, Sample, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.families import Composite, Opaque, reduced
from treadle.ops.flow import stop_gradient
from treadle.ops.reduce import along, over, spread, sum

__all__ = [
    "count_nonzero",
    "l1_norm",
    "l2_norm",
    "logsumexp",
    "mean",
    "median",
    "moment",
    "moments",
    "norm",
    "squared_l2_norm",
    "std",
    "var",
    "weighted_average",
]


def extent(x: Tensor, axes: tuple[int, ...]) -> int:
    """How many elements a fold over `axes` takes together."""
    found = 1
    for axis in axes:
        found *= x.type.shape[axis]
    return found


class Folded(Composite):
    """A composite that folds `axes`."""

    __slots__ = ()
    arity = 1
    takes = "inexact"
    axes: tuple[int, ...]
    keepdims: bool

    def infer(self, *types: Type) -> Type:
        return reduced(types[0], self.axes, self.keepdims)

    @classmethod
    def samples(cls) -> list[Sample]:
        made: Any = cls
        return [
            Sample(made((1,), False), (Input((2, 3)),)),
            Sample(made((0, 1), False), (Input((7, 5)),)),
            Sample(made((0, 2), True), (Input((2, 3, 4)),)),
            Sample(made((), False), (Input((3,)),)),
        ]


@op(linear=True)
class Mean(Folded):
    """The mean over `axes`."""

    axes: tuple[int, ...]
    keepdims: bool = False

    def numpy(self, *arrays: Any) -> Any:
        return np.mean(arrays[0], self.axes, keepdims=self.keepdims)

    def expand(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return sum(x, self.axes, keepdims=self.keepdims) / extent(x, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        (x,) = xs
        share = spread(g, x, self.axes, self.keepdims) / extent(x, self.axes)
        return (over(x, share),)


@provide
def mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean over `axis`; NaN of nothing.

    >>> import treadle as td
    >>> td.mean([[1.0, 2.0], [3.0, 6.0]], 0).tolist()
    [2.0, 4.0]
    """
    node, axes = along(as_float(x), axis)
    return Mean(axes, keepdims)(node)


@op()
class Var(Composite):
    """The mean squared distance from the mean over `axes`, with n - correction."""

    axes: tuple[int, ...]
    keepdims: bool = False
    correction: int = 0
    arity = 1
    takes = "float"

    def infer(self, *types: Type) -> Type:
        return reduced(types[0], self.axes, self.keepdims)

    def numpy(self, *arrays: Any) -> Any:
        settings: Any = {"ddof": self.correction, "keepdims": self.keepdims}
        return np.var(arrays[0], self.axes, **settings)

    def expand(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        centered = x - mean(x, self.axes, keepdims=True)
        n = extent(x, self.axes) - self.correction
        return sum(functions.square(centered), self.axes, keepdims=self.keepdims) / n

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls((1,)), (Input((2, 3)),)),
            Sample(cls((0, 1), True), (Input((7, 5)),)),
            Sample(cls((0,), False, 1), (Input((4, 2)),)),
        ]


@provide
def var(
    x: Any, axis: Any = None, *, correction: int = 0, keepdims: bool = False
) -> Tensor:
    """The variance over `axis`: squared distances from the mean over n - correction.

    >>> import treadle as td
    >>> float(td.var([1.0, 3.0])), float(td.var([1.0, 3.0], correction=1))
    (1.0, 2.0)
    """
    node, axes = along(as_float(x), axis)
    return Var(axes, keepdims, correction)(node)


@provide
def std(
    x: Any, axis: Any = None, *, correction: int = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over `axis`: the root of the variance.

    >>> import treadle as td
    >>> float(td.std([1.0, 3.0]))
    1.0
    """
    return functions.sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def moments(
    x: Any, axis: Any = None, *, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over `axis`.

    >>> import treadle as td
    >>> [float(m) for m in td.moments([1.0, 3.0])]
    [2.0, 1.0]
    """
    return mean(x, axis, keepdims=keepdims), var(x, axis, keepdims=keepdims)


def moment(x: Any, k: int, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The k-th moment about 0 over `axis`: the mean of x**k.

    >>> import treadle as td
    >>> float(td.moment([1.0, 3.0], 2))
    5.0
    """
    return mean(functions.pow(as_float(x), k), axis, keepdims=keepdims)


@op()
class LogSumExp(Folded):
    """The logarithm of the sum of e**x over `axes`, shifted by the maximum."""

    axes: tuple[int, ...]
    keepdims: bool = False
    takes = "float"

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        settings: Any = {"keepdims": self.keepdims}
        return np.logaddexp.reduce(x, self.axes, **settings)

    def expand(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        top = stop_gradient(x.max(self.axes, keepdims=True))
        finite = functions.where(functions.isfinite(top), top, 0)
        total = sum(functions.exp(x - finite), self.axes, keepdims=True)
        found = functions.log(total) + finite
        shape = reduced(x.type, self.axes, self.keepdims).shape
        return functions.reshape(found, shape)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        (x,) = xs
        share = functions.exp(x - spread(y, x, self.axes, self.keepdims))
        return (spread(g, x, self.axes, self.keepdims) * share,)


@provide
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(e**x)) over `axis`, without overflow; -inf where all are -inf.

    >>> import treadle as td
    >>> f"{float(td.logsumexp([1000.0, 1000.0])):.3f}"
    '1000.693'
    """
    node, axes = along(as_float(x), axis)
    return LogSumExp(axes, keepdims)(node)


@op(tolerance="E")
class Median(Opaque):
    """The middle value along `axis`; the mean of the two middle ones of an even count.

    The derivative goes to the middle elements.
    """

    axis: int
    arity = 1
    takes = "float"

    def infer(self, *types: Type) -> Type:
        return reduced(types[0], (self.axis,), False)

    def numpy(self, *arrays: Any) -> Any:
        return np.median(arrays[0], self.axis)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        (x,) = xs
        n = x.type.shape[self.axis]
        order = functions.argsort(x, axis=self.axis)
        weights = np.zeros(n)
        weights[[(n - 1) // 2]] += 0.5
        weights[[n // 2]] += 0.5
        shape = [1] * x.type.ndim
        shape[self.axis] = n
        sorted_weights = as_tensor(weights.reshape(shape).astype(x.type.dtype))
        places = functions.argsort(order, axis=self.axis)
        wide = functions.broadcast_to(sorted_weights, x.type.shape)
        mine = functions.take_along_axis(wide, places, self.axis)
        return (mine * spread(g, x, (self.axis,), False),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(1), (Input((2, 3), apart=0.01),)),
            Sample(cls(0), (Input((4, 5), apart=0.01),)),
            Sample(cls(0), (Input((1,), apart=0.01),)),
        ]


def median(x: Any, axis: Any = None) -> Tensor:
    """The middle value along `axis`, or of all elements.

    >>> import treadle as td
    >>> float(td.median([3.0, 1.0, 2.0]))
    2.0
    """
    node = as_float(x)
    if axis is None:
        return Median(0)(functions.reshape(node, (-1,)))
    node, axes = along(node, axis)
    if len(axes) != 1:
        raise ArgumentError("median takes one axis, or none for all").located("median")
    return Median(axes[0])(node)


def squared_l2_norm(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The sum of squares over `axis`.

    >>> import treadle as td
    >>> float(td.squared_l2_norm([3.0, 4.0]))
    25.0
    """
    return sum(functions.square(as_float(x)), axis, keepdims=keepdims)


@provide
def l2_norm(
    x: Any, axis: Any = None, *, epsilon: Any = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of (the sum of squares + epsilon); its derivative at 0 needs epsilon.

    >>> import treadle as td
    >>> float(td.l2_norm([3.0, 4.0]))
    5.0
    """
    total = squared_l2_norm(x, axis, keepdims=keepdims)
    return functions.sqrt(total + epsilon)


def l1_norm(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The sum of absolute values over `axis`.

    >>> import treadle as td
    >>> float(td.l1_norm([3.0, -4.0]))
    7.0
    """
    return sum(functions.abs(as_float(x)), axis, keepdims=keepdims)


def norm(x: Any, ord: Any = 2, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The vector norm of an order: 1, 2, another number, or infinity.

    >>> import treadle as td
    >>> float(td.norm([3.0, -4.0], float("inf")))
    4.0
    """
    node = as_float(x)
    if ord == 2:
        return l2_norm(node, axis, keepdims=keepdims)
    if ord == 1:
        return l1_norm(node, axis, keepdims=keepdims)
    if ord == float("inf"):
        return functions.abs(node).max(axis, keepdims=keepdims)
    powers = sum(functions.pow(functions.abs(node), ord), axis, keepdims=keepdims)
    return functions.pow(powers, 1.0 / ord)


def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not 0: int64.

    >>> import treadle as td
    >>> int(td.count_nonzero([0.0, 2.0, 3.0]))
    2
    """
    return sum(astype(as_tensor(x) != 0, int64), axis, keepdims=keepdims)


def weighted_average(
    x: Any, weights: Any, axis: Any = None, *, keepdims: bool = False
) -> Tensor:
    """sum(weights x) / sum(weights) over `axis`.

    >>> import treadle as td
    >>> float(td.weighted_average([1.0, 4.0], [2.0, 1.0]))
    2.0
    """
    w = as_float(weights)
    total = sum(as_float(x) * w, axis, keepdims=keepdims)
    return total / sum(
        functions.broadcast_to(w, as_tensor(x).type.shape), axis, keepdims=keepdims
    )
