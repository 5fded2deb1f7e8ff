"""Running sums, products and their kin along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, int64
from treadle.base.errors import AxisError
from treadle.base.types import Type, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, Traits, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.families import Family

__all__ = [
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_prod",
    "cumulative_sum",
]


def off_infinity(samples: list[Sample]) -> list[Sample]:
    """Exclusive samples without a gradient check: at -inf there is no difference."""
    return [
        Sample(s.op, s.inputs, () if getattr(s.op, "exclusive", False) else None)
        for s in samples
    ]


class Running(Family):
    """A monoid folded over the elements up to each place along `axis`.

    With `reverse` from the end; with `exclusive` without the place's own element.
    """

    __slots__ = ()
    family = "scan"
    arity = 1
    takes = "numeric"
    traits = Traits(tolerance="R")
    axis: int
    reverse: bool
    exclusive: bool

    def infer(self, *types: Type) -> Type:
        normalize_axis(self.axis, types[0].ndim)
        return types[0]

    def accumulate(self, x: Array) -> Array:
        """The inclusive forward scan."""
        raise NotImplementedError

    def identity(self, dtype: Any) -> Any:
        """The fold of nothing."""
        raise NotImplementedError

    def numpy(self, *arrays: Any) -> Array:
        x = np.moveaxis(arrays[0], self.axis, 0)
        x = x[::-1] if self.reverse else x
        y = self.accumulate(x).astype(x.dtype) if x.shape[0] else x
        if self.exclusive and x.shape[0]:
            first = np.full((1, *x.shape[1:]), self.identity(x.dtype), x.dtype)
            y = np.concatenate([first, y[:-1]])
        y = y[::-1] if self.reverse else y
        return np.moveaxis(y, 0, self.axis)

    @classmethod
    def samples(cls) -> list[Sample]:
        made: Any = cls
        return [
            Sample(made(0, False, False), (Input((4, 3), apart=0.01),)),
            Sample(made(1, True, False), (Input((2, 5), apart=0.01),)),
            Sample(made(0, False, True), (Input((4,), apart=0.01),)),
            Sample(made(1, True, True), (Input((2, 3, 2), apart=0.01),)),
            Sample(made(0, False, False), (Input((0, 3)),)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        made: Any = cls
        x = as_tensor([1.0])
        return [
            *super().mistakes(),
            Mistake(lambda: made(1, False, False)(x), AxisError, "out of range"),
        ]


@op(linear=True)
class CumulativeSum(Running):
    """The sum up to each place."""

    axis: int
    reverse: bool = False
    exclusive: bool = False

    def accumulate(self, x: Array) -> Array:
        return np.cumsum(x, 0, dtype=x.dtype)

    def identity(self, dtype: Any) -> Any:
        return 0

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (CumulativeSum(self.axis, not self.reverse, self.exclusive)(g),)


@provide
def cumulative_sum(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """The sum up to each place along `axis`; bools are counted.

    >>> import treadle as td
    >>> td.cumulative_sum([1.0, 2.0, 3.0]).tolist()
    [1.0, 3.0, 6.0]
    """
    node = as_tensor(x)
    if node.type.dtype == bool_:
        node = astype(node, int64)
    return CumulativeSum(resolve_axis(axis, node.type), reverse, exclusive)(node)


@op()
class CumulativeProd(Running):
    """The product up to each place."""

    axis: int
    reverse: bool = False
    exclusive: bool = False

    def accumulate(self, x: Array) -> Array:
        return np.cumprod(x, 0, dtype=x.dtype)

    def identity(self, dtype: Any) -> Any:
        return 1

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # dy[j]/dx[i] is the product of the others up to j: right where x holds zeros.
        (x,) = xs
        n = x.type.shape[self.axis]
        moved = functions.moveaxis(x, self.axis, -1)
        gm = functions.moveaxis(g, self.axis, -1)
        square = functions.expand_dims(moved, -2)
        eye = as_tensor(np.eye(n, dtype=bool))
        others = functions.where(eye, 1, square)  # [i, k]: x[k], and 1 at k = i
        running = CumulativeProd(others.type.ndim - 1, self.reverse, self.exclusive)
        after = np.triu(np.ones((n, n), bool), 1 if self.exclusive else 0)
        reached = as_tensor(after.T if self.reverse else after)
        products = functions.where(reached, running(others), 0)
        gx = (products * functions.expand_dims(gm, -2)).sum(-1)
        return (functions.moveaxis(gx, -1, self.axis),)


@provide
def cumulative_prod(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """The product up to each place along `axis`, with the right derivative at zeros.

    >>> import treadle as td
    >>> td.cumulative_prod([1.0, 2.0, 3.0]).tolist()
    [1.0, 2.0, 6.0]
    """
    node = as_tensor(x)
    return CumulativeProd(resolve_axis(axis, node.type), reverse, exclusive)(node)


@op()
class CumulativeLogSumExp(Running):
    """The logarithm of the sum of e**x up to each place, without overflow."""

    axis: int
    reverse: bool = False
    exclusive: bool = False
    takes = "float"

    def accumulate(self, x: Array) -> Array:
        return np.logaddexp.accumulate(x, 0)

    def identity(self, dtype: Any) -> Any:
        return -np.inf

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # e**(x - y) summed over the places that x reaches; y = -inf reaches nothing.
        (x,) = xs
        top = functions.stop_gradient(x.max(self.axis, keepdims=True))
        share = functions.where(functions.isfinite(y), g * functions.exp(top - y), 0)
        back = CumulativeSum(self.axis, not self.reverse, self.exclusive)(share)
        return (back * functions.exp(x - top),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return off_infinity(super().samples()[:-1])


@provide
def cumulative_logsumexp(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """log(sum(e**x)) up to each place along `axis`; -inf for the sum of nothing.

    >>> import treadle as td
    >>> [f"{v:.4f}" for v in td.cumulative_logsumexp([0.0, 0.0]).tolist()]
    ['0.0000', '0.6931']
    """
    node = as_float(x)
    return CumulativeLogSumExp(resolve_axis(axis, node.type), reverse, exclusive)(node)


@op(tolerance="E")
class CumulativeMax(Running):
    """The greatest element up to each place; the first of equals has the derivative."""

    axis: int
    reverse: bool = False
    exclusive: bool = False
    takes = "float"

    def accumulate(self, x: Array) -> Array:
        return np.maximum.accumulate(x, 0)

    def identity(self, dtype: Any) -> Any:
        return -np.inf

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        (x,) = xs
        n = x.type.shape[self.axis]
        xm = functions.expand_dims(functions.moveaxis(x, self.axis, -1), -1)
        ym = functions.expand_dims(functions.moveaxis(y, self.axis, -1), -2)
        gm = functions.expand_dims(functions.moveaxis(g, self.axis, -1), -2)
        after = np.triu(np.ones((n, n), bool), 1 if self.exclusive else 0)
        reached = as_tensor(after.T if self.reverse else after)
        hit = astype((xm == ym) & reached, g.type.dtype)  # [i, j]: x[i] is y[j]
        before = CumulativeSum(hit.type.ndim - 2, self.reverse, True)(hit)
        first = functions.where(before == 0, hit, 0)
        gx = (first * gm).sum(-1)
        return (functions.moveaxis(gx, -1, self.axis),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return off_infinity(super().samples())


@provide
def cumulative_max(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """The greatest element up to each place along `axis`; -inf of nothing.

    >>> import treadle as td
    >>> td.cumulative_max([1.0, 3.0, 2.0]).tolist()
    [1.0, 3.0, 3.0]
    """
    node = as_float(x)
    return CumulativeMax(resolve_axis(axis, node.type), reverse, exclusive)(node)
