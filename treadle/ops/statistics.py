"""Means, spreads, moments and other sums over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import int64, real_of
from treadle.base.symbolic import counted
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Cotangents, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, astype, carried_wide
from treadle.ops.families import Composite, reduced
from treadle.ops.flow import stop_gradient
from treadle.ops.power import squared_modulus
from treadle.ops.reduce import along, over, spread, sum, summed

__all__ = [
    "count_nonzero",
    "logsumexp",
    "mean",
    "moment",
    "moments",
    "std",
    "var",
    "weighted_average",
]


def extent(x: Any, axes: tuple[int, ...]) -> int:
    """The number of elements that a fold over `axes` takes together."""
    return math.prod(x.shape[axis] for axis in axes)


def kept(y: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """A folded value, with dimensions of extent 1 where they are to be kept."""
    t = reduced(x.type, axes, keepdims)
    return functions.reshape(y, t.shape, axes=t.axes)


@family
class Folded(Composite):
    """A composite that folds `axes`."""

    __slots__ = ()
    arity = 1
    takes = "inexact"
    axes: tuple[int, ...]
    keepdims: bool = False
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        return reduced(types[0], self.axes, self.keepdims)


@op(linear=True)
class Mean(Folded):
    """The mean over `axes`."""

    def numpy(self, x: Any) -> Any:
        total = summed(x, self.axes, self.keepdims)
        return total / np.asarray(extent(x, self.axes), x.dtype)

    def expand(self, x: Tensor) -> Tensor:
        y = sum(x, self.axes) / counted(extent(x, self.axes))
        return kept(y, x, self.axes, self.keepdims)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        share = spread(g, x, self.axes, self.keepdims) / counted(extent(x, self.axes))
        return (over(x, share),)


@provide
@recorded
def mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean over `axis`; NaN of nothing.

    >>> td.mean([[1.0, 2.0], [3.0, 6.0]], 0).tolist()
    [2.0, 4.0]
    """
    node, axes = along(as_float(x), axis)
    return Mean(axes, keepdims)(node)


@op()
class Var(Folded):
    """The mean squared distance from the mean over `axes`, with n - correction.

    It is real; the distance of complex numbers is the modulus.
    """

    correction: int = 0

    def infer(self, *types: Type) -> Type:
        return super().infer(*types).with_dtype(real_of(types[0].dtype))

    def numpy(self, x: Any) -> Any:
        n = np.asarray(extent(x, self.axes), real_of(x.dtype))
        centered = x - summed(x, self.axes, True) / n
        parts = centered * np.conj(centered)
        squares = summed(np.real(parts), self.axes, self.keepdims)
        off = summed(centered, self.axes, self.keepdims)
        squares = np.maximum(squares - np.real(off * np.conj(off)) / n, 0)
        return squares / np.maximum(n - n.dtype.type(self.correction), 0)

    def expand(self, x: Tensor) -> Tensor:
        centered = self.centered(x)
        count = counted(extent(x, self.axes))
        # A mean is rounded: how far it is off shows in the sum of the distances.
        off = squared_modulus(sum(centered, self.axes)) / count
        squares = sum(squared_modulus(centered), self.axes)
        y = functions.maximum(squares - off, 0) / self.divisor(x)
        return kept(y, x, self.axes, self.keepdims)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        share = spread(g * 2 / self.divisor(x), x, self.axes, self.keepdims)
        return (over(x, share) * self.centered(self.centered(x)),)

    def divisor(self, x: Tensor) -> Any:
        """What the sum of squares is divided by: 0 where nothing is left."""
        n = extent(x, self.axes) - self.correction
        left = n if n > 0 else 0
        return counted(left) if type(self.correction) is int else left

    def centered(self, x: Tensor) -> Tensor:
        """The distances from the mean."""
        return x - spread(mean(x, self.axes), x, self.axes, False)


@provide
@recorded
def var(
    x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The variance over `axis`: squared distances from the mean over n - correction.

    >>> float(td.var([1.0, 3.0])), float(td.var([1.0, 3.0], correction=1))
    (1.0, 2.0)
    """
    node, axes = along(as_float(x), axis)
    if isinstance(correction, (float, np.floating)):
        correction = float(correction)
        correction = int(correction) if correction.is_integer() else correction
    if not isinstance(correction, float):
        return Var(axes, keepdims, correction)(node)
    n = extent(node.type, axes)
    return Var(axes, keepdims)(node) * (n / (n - correction))


@provide
@recorded
@carried_wide
def std(
    x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over `axis`: the root of the variance.

    Where it is 0 its derivative is 0.

    >>> float(td.std([1.0, 3.0]))
    1.0
    """
    node, axes = along(as_float(x), axis)
    y = functions.norm_of(var(node, axes, correction=correction))
    return kept(y, node, axes, keepdims)


def moments(
    x: Any, axis: Any = None, *, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over `axis`.

    >>> [float(m) for m in td.moments([1.0, 3.0])]
    [2.0, 1.0]
    """
    return mean(x, axis, keepdims=keepdims), var(x, axis, keepdims=keepdims)


@carried_wide
def moment(x: Any, k: int, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The k-th moment about 0 over `axis`: the mean of x**k.

    >>> float(td.moment([1.0, 3.0], 2))
    5.0
    """
    return mean(functions.pow(as_float(x), k), axis, keepdims=keepdims)


@op()
class LogSumExp(Folded):
    """The logarithm of the sum of e**x over `axes`, shifted by the maximum."""

    def numpy(self, x: Any) -> Any:
        top = np.max(x.real, self.axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        y = np.log(summed(np.exp(x - top), self.axes, self.keepdims))
        return y + (top if self.keepdims else np.squeeze(top, self.axes))

    def expand(self, x: Tensor) -> Tensor:
        if extent(x, self.axes) == 0:
            y = functions.log(sum(x, self.axes))  # log(0): the sum of nothing
            return kept(y, x, self.axes, self.keepdims)
        top = stop_gradient(functions.real(x).max(self.axes))
        top = functions.where(functions.isfinite(top), top, 0)
        shifted = functions.exp(x - spread(top, x, self.axes, False))
        y = functions.log(sum(shifted, self.axes)) + top
        return kept(y, x, self.axes, self.keepdims)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        # Where y is -inf no element has a share; infinite elements share equally. The
        # difference of two infinities would be NaN.
        y = spread(y, x, self.axes, self.keepdims)
        hit = x == y
        gap = functions.where(hit, 0, x - functions.where(y == -np.inf, 0, y))
        hits = sum(astype(hit, real_of(x.type.dtype)), self.axes)
        count = functions.where(y == np.inf, spread(hits, x, self.axes, False), 1)
        share = functions.where(y == -np.inf, 0, functions.exp(gap) / count)
        return (spread(g, x, self.axes, self.keepdims) * functions.conj(share),)


@provide
@recorded
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(e**x)) over `axis`, without overflow; -inf where all are -inf.

    >>> f"{float(td.logsumexp([1000.0, 1000.0])):.3f}"
    '1000.693'
    """
    node, axes = along(as_float(x), axis)
    return LogSumExp(axes, keepdims)(node)


@recorded
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The number of nonzero elements over `axis`: int64.

    >>> int(td.count_nonzero([0.0, 2.0, 3.0]))
    2
    """
    return sum(astype(as_tensor(x) != 0, int64), axis, keepdims=keepdims)


@carried_wide
def weighted_average(
    x: Any, weights: Any, axis: Any = None, *, keepdims: bool = False
) -> Tensor:
    """sum(weights x) / sum(weights) over `axis`; weights of one axis may be a vector.

    >>> float(td.weighted_average([1.0, 4.0], [2.0, 1.0]))
    2.0
    """
    node, axes = along(as_float(x), axis)
    w = as_float(weights)
    if w.type.axes is not None:
        w = functions.unname(align([node, w])[1])
    elif w.type.ndim == 1 and len(axes) == 1:
        shape = [-1 if k == axes[0] else 1 for k in range(node.type.ndim)]
        w = functions.reshape(w, shape)
    w = over(node, w)
    y = sum(node * w, axes) / sum(w, axes)
    return kept(y, node, axes, keepdims)
