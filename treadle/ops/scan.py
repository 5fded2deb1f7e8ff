"""Running sums, products and their kin along a dimension, and differences.

Derivatives take one more pass: with y[j] a fold up to j, the cotangents of later
places come back to x[i] through y[i], by a linear recurrence from the end.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.symbolic import arange
from treadle.base.types import Type, as_integer, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, summand
from treadle.ops.elementwise import conj
from treadle.ops.join import concat
from treadle.ops.recurrence import Chain, LinearRecurrence

__all__ = [
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
]


@family
class Running(Chain):
    """A monoid folded over the elements up to each place along `axis`.

    With `reverse` from the end; with `exclusive` without the place's own element.
    """

    __slots__ = ()
    arity = 1
    takes = "numeric"
    exclusive: bool = False

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

    def back(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """The cotangent of x for one of y, the inclusive scan; all without names."""
        raise NotImplementedError

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        names = xs[0].type.axes
        x, g, y = (functions.unname(v) for v in (xs[0], g, y))
        if self.exclusive:
            # The exclusive scan is the inclusive one moved one place along.
            make: Any = type(self)
            y = make(self.axis, self.reverse, False)(x)
            g = self.next(g)
        gx = self.back(g, y, x)
        return (functions.reshape(gx, x.type.shape, axes=names),)

    def next(self, x: Tensor, value: float = 0) -> Tensor:
        """The content of the next place of the scan, at each; `value` at the last."""
        return functions.shift(x, 1 if self.reverse else -1, self.axis, value)

    def gathered(self, factors: Tensor, g: Tensor) -> Tensor:
        """d[i] = g[i] + factors[i] d[i + 1], in the order of the scan."""
        return LinearRecurrence(self.axis, not self.reverse)(factors, g)

    def with_initial(self, x: Tensor) -> Tensor:
        """The scan of x with the fold of nothing where it begins."""
        width = (0, 1) if self.reverse else (1, 0)
        widths = [width if k == self.axis else (0, 0) for k in range(x.type.ndim)]
        return functions.pad(self(x), widths, value=self.identity(x.type.dtype))


@op(linear=True)
class CumulativeSum(Running):
    """The sum up to each place."""

    def accumulate(self, x: Array) -> Array:
        wide = np.float64 if x.dtype == np.float32 else x.dtype
        return np.cumsum(x, 0, dtype=wide).astype(x.dtype, copy=False)

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        return y + xs[0]

    def identity(self, dtype: Any) -> Any:
        return 0

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (CumulativeSum(self.axis, not self.reverse, self.exclusive)(g),)


def _along(axis: Any, type_: Type) -> int:
    """The position of an axis, which is None for the only one of a vector."""
    return resolve_axis(0 if axis is None and type_.ndim == 1 else axis, type_)


@provide
def cumulative_sum(
    x: Any,
    axis: Any = -1,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    reverse: bool = False,
    exclusive: bool = False,
) -> Tensor:
    """The sum up to each place along `axis`; `dtype` as in `sum`.

    None is the axis of a vector, as in the array API standard.
    With `include_initial` one more, of nothing, is where the scan begins.

    >>> td.cumulative_sum([1.0, 2.0, 3.0]).tolist()
    [1.0, 3.0, 6.0]
    """
    node = summand(x, dtype)
    op = CumulativeSum(_along(axis, node.type), reverse, exclusive)
    return op.with_initial(node) if include_initial else op(node)


@op()
class CumulativeProd(Running):
    """The product up to each place."""

    def accumulate(self, x: Array) -> Array:
        return np.cumprod(x, 0, dtype=x.dtype)

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        return y * xs[0]

    def identity(self, dtype: Any) -> Any:
        return 1

    def back(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        # Products of the others, never y / x: right where x holds zeros.
        before = CumulativeProd(self.axis, self.reverse, True)(x)
        return conj(before) * self.gathered(self.next(conj(x)), g)


@provide
def cumulative_prod(
    x: Any,
    axis: Any = -1,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    reverse: bool = False,
    exclusive: bool = False,
) -> Tensor:
    """The product up to each place along `axis`, with the right derivative at zeros.

    `dtype` is as in `sum`; `include_initial` as in `cumulative_sum`.

    >>> td.cumulative_prod([1.0, 2.0, 3.0]).tolist()
    [1.0, 2.0, 6.0]
    """
    node = summand(x, dtype)
    op = CumulativeProd(_along(axis, node.type), reverse, exclusive)
    return op.with_initial(node) if include_initial else op(node)


@op()
class CumulativeLogSumExp(Running):
    """The logarithm of the sum of e**x up to each place, without overflow."""

    takes = "float"

    def accumulate(self, x: Array) -> Array:
        return np.logaddexp.accumulate(x, 0)

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        return cast(Tensor, functions.logaddexp(y, xs[0]))

    def identity(self, dtype: Any) -> Any:
        return -np.inf

    def back(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        # As logaddexp has it: equal infinities share, -inf has no share at all.
        step = -1 if self.reverse else 1
        before = functions.shift(y, step, self.axis, -np.inf)
        gap = functions.where(x == before, 0, x - before)
        share = functions.where(y == -np.inf, 0, functions.sigmoid(gap))
        factors = self.next(functions.sigmoid(-gap))
        return share * self.gathered(factors, g)


@provide
def cumulative_logsumexp(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """log(sum(e**x)) up to each place along `axis`; -inf for the sum of nothing.

    >>> [f"{v:.4f}" for v in td.cumulative_logsumexp([0.0, 0.0]).tolist()]
    ['0.0000', '0.6931']
    """
    node = as_float(x)
    return CumulativeLogSumExp(resolve_axis(axis, node.type), reverse, exclusive)(node)


@op(tolerance="E")
class CumulativeMax(Running):
    """The greatest element up to each place; the last of equals has the derivative."""

    takes = "ordered"

    def accumulate(self, x: Array) -> Array:
        return np.maximum.accumulate(x, 0)

    def step(self, y: Tensor, *xs: Tensor) -> Tensor:
        return cast(Tensor, functions.maximum(y, xs[0]))

    def identity(self, dtype: Any) -> Any:
        return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf

    def back(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        # A greatest element has the derivatives of all places up to one as great.
        n = x.type.shape[self.axis]
        shape = [n if k == self.axis else 1 for k in range(x.type.ndim)]
        places = functions.reshape(constant_node(arange(n)), shape)
        last = functions.equal(places, 0 if self.reverse else n - 1)
        later = self.next(x)
        taken = (later == self.next(y)) | functions.isnan(later) | last
        stays = astype(functions.logical_not(taken), g.type.dtype)
        step = -1 if self.reverse else 1
        first = 1 - functions.shift(stays, step, self.axis)
        return first * self.gathered(stays, g)


@provide
def cumulative_max(
    x: Any, axis: Any = -1, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """The greatest element up to each place along `axis`; the least value of nothing.

    >>> td.cumulative_max([1.0, 3.0, 2.0]).tolist()
    [1.0, 3.0, 3.0]
    """
    node = as_tensor(x)
    return CumulativeMax(resolve_axis(axis, node.type), reverse, exclusive)(node)


@provide
@recorded
def diff(
    x: Any, *, axis: Any = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """x[i + 1] - x[i] along `axis`, done `n` times; of bools, where they change.

    `prepend` and `append` are joined to x before. With them x[.., m, ..] becomes
    [.., m - n, ..] of the joined extent m.

    >>> td.diff([1.0, 4.0, 9.0]).tolist(), td.diff([1.0, 4.0, 9.0], n=2).tolist()
    ([3.0, 5.0], [2.0])
    """
    node = as_tensor(x)
    times = as_integer(n)
    if times is None or times < 0:
        raise ArgumentError(f"n is a whole number from 0 on, not {n!r}").located("diff")
    place = resolve_axis(axis, node.type)
    parts = [part for part in (prepend, node, append) if part is not None]
    if len(parts) > 1:
        node = concat(parts, place)
    lead = (slice(None),) * place
    differ = functions.not_equal if node.type.dtype.kind == "b" else functions.subtract
    for _ in range(times):
        node = differ(node[(*lead, slice(1, None))], node[(*lead, slice(None, -1))])
    return node
