"""The greatest and the least over axes, products, and truth of all or any."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, int64
from treadle.base.errors import ArgumentError
from treadle.base.types import Type, normalize_axes
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Cotangents, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import astype, summand
from treadle.ops.families import Opaque, Reduction, reduced
from treadle.ops.reduce import along, over, spread

__all__ = ["all", "any", "argmax", "argmin", "max", "min", "prod"]


class Extremum(Reduction):
    """The greatest or least element; elements that are equal share the derivative."""

    __slots__ = ()
    takes = "real"

    def infer(self, *types: Type) -> Type:
        result = super().infer(*types)
        for axis in self.axes:
            if types[0].shape[axis] == 0:
                raise ArgumentError(
                    f"no greatest or least of nothing: axis {axis} of {types[0]}"
                )
        return result

    def identity(self, dtype: Any) -> Any:
        return None

    def combine(self, a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray):
            return self.ufunc(a, b)
        return getattr(functions, self.ufunc.__name__)(a, b)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        hit = x == spread(y, x, self.axes, self.keepdims)
        ones = astype(hit, g.type.dtype)
        share = spread(g, x, self.axes, self.keepdims)
        count = functions.stop_gradient(functions.sum(ones, self.axes))
        return (ones * (share / spread(count, x, self.axes, False)),)


@op()
class Max(Extremum, ufunc=np.maximum):
    """The greatest element over `axes`; NaN where there is one."""


@provide
@recorded
def max(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The greatest element over `axis`; NaN where there is one.

    Elements that are equally great share the derivative.

    >>> td.max([[1.0, 4.0], [3.0, 2.0]], 0).tolist()
    [3.0, 4.0]
    """
    node, axes = along(x, axis)
    return Max(axes, keepdims)(node)


@op()
class Min(Extremum, ufunc=np.minimum):
    """The least element over `axes`; NaN where there is one."""


@provide
@recorded
def min(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The least element over `axis`; NaN where there is one.

    Elements that are equally small share the derivative.

    >>> td.min([[1.0, 4.0], [3.0, 2.0]], 0).tolist()
    [1.0, 2.0]
    """
    node, axes = along(x, axis)
    return Min(axes, keepdims)(node)


@op()
class Prod(Reduction):
    """The product over `axes`."""

    takes = "numeric"

    def numpy(self, x: Any) -> Any:
        return np.prod(x, self.axes, dtype=x.dtype, keepdims=self.keepdims)

    def combine(self, a: Any, b: Any) -> Any:
        return a * b

    def identity(self, dtype: Any) -> Any:
        return 1

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        # The product of the others, not y / x, which fails where an element is 0.
        t = x.type
        rest = tuple(k for k in range(t.ndim) if k not in self.axes)
        permuted = functions.permute_dims(functions.unname(x), (*rest, *self.axes))
        count = math.prod(t.shape[k] for k in self.axes)
        flat = functions.reshape(permuted, (*(t.shape[k] for k in rest), count))
        before = functions.cumulative_prod(flat, exclusive=True)
        after = functions.cumulative_prod(flat, exclusive=True, reverse=True)
        others = functions.reshape(before * after, permuted.type.shape)
        back = tuple(np.argsort((*rest, *self.axes)).tolist())
        others = functions.permute_dims(others, back)
        others = functions.reshape(functions.conj(others), t.shape, axes=t.axes)
        return (over(x, spread(g, x, self.axes, self.keepdims)) * others,)


@provide
@recorded
def prod(
    x: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """The product over `axis`, with the right derivative at zeros; `dtype` as in `sum`.

    >>> float(td.prod([2.0, 3.0, 4.0]))
    24.0
    """
    node, axes = along(summand(x, dtype), axis)
    return Prod(axes, keepdims)(node)


class Truth(Reduction):
    """A connective folded over bools; it has no derivative."""

    __slots__ = ()
    takes = "bool"


@op(differentiable=False, tolerance="E")
class All(Truth, ufunc=np.logical_and):
    """Whether every element over `axes` is true."""

    def combine(self, a: Any, b: Any) -> Any:
        return a & b

    def identity(self, dtype: Any) -> Any:
        return True


@provide
@recorded
def all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether every element over `axis` is true (not 0).

    >>> bool(td.all([True, False]))
    False
    """
    node, axes = along(x, axis)
    return All(axes, keepdims)(astype(node, bool_))


@op(differentiable=False, tolerance="E")
class Any_(Truth, ufunc=np.logical_or):
    """Whether some element over `axes` is true."""

    def combine(self, a: Any, b: Any) -> Any:
        return a | b

    def identity(self, dtype: Any) -> Any:
        return False


@provide
@recorded
def any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element over `axis` is true (not 0).

    >>> bool(td.any([True, False]))
    True
    """
    node, axes = along(x, axis)
    return Any_(axes, keepdims)(astype(node, bool_))


@family
class Position(Opaque):
    """The place of the first greatest or least element along one axis."""

    __slots__ = ()
    arity = 1
    takes = "real"
    axis: int
    keepdims: bool = False
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        (axis,) = normalize_axes(self.axis, types[0])
        if types[0].shape[axis] == 0:
            raise ArgumentError(f"no position in nothing: axis {axis} of {types[0]}")
        return reduced(types[0], (axis,), self.keepdims).with_dtype(int64)

    def numpy(self, *arrays: Any) -> Any:
        place: Any = np.argmax if self.name == "ArgMax" else np.argmin
        return place(arrays[0], self.axis, keepdims=self.keepdims)


@op(differentiable=False, tolerance="E")
class ArgMax(Position):
    """The place of the first greatest element along `axis`."""


@provide
@recorded
def argmax(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The place of the first greatest element along `axis`, or among all: int64.

    A NaN counts as greatest.

    >>> td.argmax([[1.0, 4.0], [3.0, 2.0]], 1).tolist()
    [1, 0]
    """
    return placed(ArgMax, x, axis, keepdims)


@op(differentiable=False, tolerance="E")
class ArgMin(Position):
    """The place of the first least element along `axis`."""


@provide
@recorded
def argmin(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The place of the first least element along `axis`, or among all: int64.

    A NaN counts as least.

    >>> td.argmin([[1.0, 4.0], [3.0, 2.0]], 1).tolist()
    [0, 1]
    """
    return placed(ArgMin, x, axis, keepdims)


def placed(kind_of: Any, x: Any, axis: Any, keepdims: bool) -> Tensor:
    """A position along one axis, or in the flattened tensor."""
    node = as_tensor(x)
    if axis is None:
        flat = kind_of(0)(functions.reshape(node, (-1,)))
        return functions.reshape(flat, (1,) * node.type.ndim) if keepdims else flat
    places = normalize_axes(axis, node.type)
    if len(places) != 1:
        raise ArgumentError(
            f"a position is along one axis or among all, not along {len(places)}"
        ).located(kind_of.__name__, repr(node.type))
    return kind_of(places[0], keepdims)(node)
