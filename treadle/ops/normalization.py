"""Values brought to a common scale: by mean and variance, root mean square, norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, accumulator, promote
from treadle.base.errors import ArgumentError, AxisError, ShapeError, TreadleError
from treadle.base.types import (
    TupleType,
    Type,
    normalize_axes,
    normalize_axis,
    resolve_axis,
)
from treadle.graph.leaves import constant_node
from treadle.graph.op import Array, Cotangents, family, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.rows import shifted
from treadle.graph.tensor import Tensor
from treadle.ops.align import over_axes
from treadle.ops.cast import as_float, astype, carried_wide
from treadle.ops.families import Composite
from treadle.ops.movement import reshape
from treadle.ops.padding import pad

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
    "standardize",
    "weight_norm",
]

Axes = tuple[int, ...]
Running = tuple[Tensor, Tensor, Tensor]  # batches so far, means, variances


def _wide(x: Tensor) -> Tensor:
    """x without axis names, in the type statistics are computed in."""
    plain: Tensor = functions.unname(x)
    return astype(plain, accumulator(x.type.dtype))


@family
class Scaled(Composite):
    """x on a scale found over `axes`; the second input, a float scalar, is epsilon."""

    __slots__ = ()
    arity = 2
    takes = "float"
    axes: Axes

    def infer(self, x: Type, eps: Type) -> Type:
        if eps.shape:
            raise ShapeError(f"epsilon is a scalar, not {eps}")
        if not self.axes:
            raise AxisError("takes at least one axis")
        for axis in self.axes:
            normalize_axis(axis, x.ndim)
        return x

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        if has_rows[1]:
            return super().rows(has_rows, *xs)
        return shifted(self)(*xs)


@op()
class Standardize(Scaled):
    """(x - mean) / sqrt(var + epsilon) over `axes`: mean 0 and variance 1."""

    def numpy(self, x: Any, eps: Any) -> Array:
        centered = x - np.mean(x, self.axes, keepdims=True)
        spread = np.var(x, self.axes, keepdims=True) + eps.astype(x.dtype)
        return np.divide(centered, np.sqrt(spread))

    def expand(self, *xs: Tensor) -> Tensor:
        x, eps = _wide(xs[0]), _wide(xs[1])
        centered = x - x.mean(self.axes, keepdims=True)
        variance = (centered * centered).mean(self.axes, keepdims=True)
        return astype(centered * functions.rsqrt(variance + eps), xs[0].type.dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, eps, g, y = _wide(xs[0]), _wide(xs[1]), _wide(g), _wide(y)
        r = functions.rsqrt(x.var(self.axes, keepdims=True) + eps)
        along = (g * y).mean(self.axes, keepdims=True)
        gx = r * (g - g.mean(self.axes, keepdims=True) - y * along)
        return gx, (g * y * r * r).sum() * -0.5


def standardize(x: Any, axis: Any = -1, eps: Any = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) over `axis`: mean 0 and variance 1.

    >>> td.standardize([1.0, 3.0], eps=0.0).tolist()
    [-1.0, 1.0]
    """
    node = as_float(x)
    axes = tuple(sorted(normalize_axes(axis, node.type)))
    return Standardize(axes)(node, _epsilon(eps, node))


def _epsilon(eps: Any, x: Tensor) -> Tensor:
    """A scalar of the type statistics are computed in; no negative number."""
    if isinstance(eps, Operand):
        return astype(eps, accumulator(x.type.dtype))
    if not eps >= 0.0:
        raise ArgumentError(f"epsilon is 0 or above, got {eps}")
    return constant_node(np.array(eps, accumulator(x.type.dtype)))


def _affine(y: Tensor, weight: Any, bias: Any, axes: Axes, name: str) -> Tensor:
    """y * weight + bias, both over `axes` of y: by role they have its names there."""
    if weight is None and bias is None:
        return y
    try:
        scale = None if weight is None else over_axes(weight, y, axes, "weight")
        offset = None if bias is None else over_axes(bias, y, axes, "bias")
    except TreadleError as error:
        raise error.located(name) from None
    result = functions.unname(y)
    result = result if scale is None else result * scale
    result = result if offset is None else result + offset
    return reshape(result, y.type.shape, axes=y.type.axes)


@op(differentiable=False)
class RunningStatistics(Composite):
    """A number of batches, means and variances, moved a part of the way toward those of
    one more, x, over `axes`, its variance times a ratio that makes it unbiased.

    Operands: x, ratio, part, and what moves. The ratio, of a size, is data.
    """

    axes: Axes
    arity = 6

    def infer(self, x: Type, ratio: Type, part: Type, *moved: Type) -> TupleType:
        count, mean, var = moved
        size = math.prod(n for k, n in enumerate(x.shape) if k not in self.axes)
        numbers = not (ratio.shape or part.shape or count.shape)
        if not numbers or not mean.shape == var.shape == (size,):
            raise ShapeError(f"{size} statistics of {x} are no {mean} and {var}")
        return TupleType(moved)

    def numpy(self, *arrays: Any) -> Any:
        x, ratio, part, count, *statistics = arrays
        batch = np.mean(x, self.axes), np.var(x, self.axes) * ratio
        moved = [
            (old + (new.reshape(-1) - old) * part).astype(old.dtype)
            for old, new in zip(statistics, batch, strict=True)
        ]
        return count + 1, *moved

    def expand(self, *xs: Tensor) -> Running:
        x, ratio, part, *running = xs
        # As `Standardize` writes them, so that a program computes them once.
        x = x.astype(accumulator(x.dtype))
        mean = x.mean(self.axes, keepdims=True)
        centered = x - mean
        var = (centered * centered).mean(self.axes, keepdims=True)
        return updated_statistics(
            mean.reshape(-1), var.reshape(-1) * ratio, part, *running
        )


def updated_statistics(
    mean: Tensor, unbiased: Tensor, part: Any, *running: Tensor
) -> Running:
    """A number of batches and running statistics, moved by a `part` of the way toward a
    mean and an unbiased variance."""
    count, *statistics = running
    mean, var = [
        (old + (new - old) * part).astype(old.dtype)
        for old, new in zip(statistics, (mean, unbiased), strict=True)
    ]
    return count + 1, mean, var


def share_of(
    momentum: float | None, count: Tensor, old: Tensor, dtype: DType
) -> Tensor:
    """How far old statistics move toward those of a dtype: without a momentum they are
    the means of all batches."""
    if momentum is None:
        return 1.0 / (count + 1).astype(old.dtype)
    return constant_node(np.array(momentum, promote(dtype, old.dtype)))


@provide
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, axis: Any = -1, eps: Any = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over `axis`.

    Weight and bias have the extents of `axis`. Ba, Kiros and Hinton, Layer
    normalization, 2016.

    >>> td.layer_norm([[1.0, 3.0]], [2.0, 2.0], [0.0, 1.0], eps=0.0).tolist()
    [[-2.0, 3.0]]
    """
    y = standardize(x, axis, eps)
    axes = tuple(sorted(normalize_axes(axis, y.type)))
    return _affine(y, weight, bias, axes, "layer_norm")


@op()
class RootMeanSquare(Scaled):
    """x / sqrt(mean(x²) + epsilon) over `axes`."""

    def numpy(self, x: Any, eps: Any) -> Array:
        size = np.mean(np.square(x), self.axes, keepdims=True) + eps.astype(x.dtype)
        return np.divide(x, np.sqrt(size))

    def expand(self, *xs: Tensor) -> Tensor:
        x, eps = _wide(xs[0]), _wide(xs[1])
        size = (x * x).mean(self.axes, keepdims=True)
        return astype(x * functions.rsqrt(size + eps), xs[0].type.dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, eps, g, y = _wide(xs[0]), _wide(xs[1]), _wide(g), _wide(y)
        r = functions.rsqrt((x * x).mean(self.axes, keepdims=True) + eps)
        gx = r * (g - y * (g * y).mean(self.axes, keepdims=True))
        return gx, (g * y * r * r).sum() * -0.5


@provide
def rms_norm(x: Any, weight: Any = None, axis: Any = -1, eps: Any = 1e-6) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over `axis`. Zhang and Sennrich 2019.

    >>> td.rms_norm([3.0, 3.0], eps=0.0).tolist()
    [1.0, 1.0]
    """
    node = as_float(x)
    axes = tuple(sorted(normalize_axes(axis, node.type)))
    y = RootMeanSquare(axes)(node, _epsilon(eps, node))
    return _affine(y, weight, None, axes, "rms_norm")


@op()
class Normalize(Scaled):
    """x / max(|x|, epsilon) with the Euclidean norm over `axes`."""

    def numpy(self, x: Any, eps: Any) -> Array:
        norm = np.sqrt(np.sum(np.square(x), self.axes, keepdims=True))
        return np.divide(x, np.maximum(norm, eps.astype(x.dtype)))

    def expand(self, *xs: Tensor) -> Tensor:
        x, eps = _wide(xs[0]), _wide(xs[1])
        norm = functions.norm_of((x * x).sum(self.axes, keepdims=True))
        return astype(x / functions.maximum(norm, eps), xs[0].type.dtype)


def normalize(x: Any, axis: Any = -1, eps: Any = 1e-12) -> Tensor:
    """x / max(|x|, eps) with the Euclidean norm over `axis`; 0 stays 0.

    >>> [f"{v:.1f}" for v in td.normalize([3.0, 4.0]).tolist()]
    ['0.6', '0.8']
    """
    node = as_float(x)
    axes = tuple(sorted(normalize_axes(axis, node.type)))
    return Normalize(axes)(node, _epsilon(eps, node))


@carried_wide
def weight_norm(v: Any, g: Any, axis: Any = 0) -> Tensor:
    """g v / |v| with the norm over all dimensions but `axis`, g one number for each.

    Salimans and Kingma, Weight normalization, 2016.

    >>> [f"{v:.1f}" for v in td.weight_norm([[3.0, 4.0]], [10.0])[0].tolist()]
    ['6.0', '8.0']
    """
    node = as_float(v)
    place = resolve_axis(axis, node.type)
    others = tuple(k for k in range(node.type.ndim) if k != place)
    if not others:
        raise ShapeError(f"{node.type} has no dimension to take a norm over").located(
            "weight_norm"
        )
    return _affine(normalize(node, others), g, None, (place,), "weight_norm")


@provide
def batch_norm(
    x: Any,
    mean: Any = None,
    var: Any = None,
    weight: Any = None,
    bias: Any = None,
    axis: Any = 1,
    eps: Any = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, a number for each place of `axis`.

    Without mean and var, those of x over its other dimensions (`td.moments` gives
    them). Ioffe and Szegedy, Batch normalization, 2015.

    >>> td.batch_norm([[1.0], [3.0]], eps=0.0).tolist()
    [[-1.0], [1.0]]
    >>> td.batch_norm([[1.0], [3.0]], [1.0], [4.0], eps=0.0).tolist()
    [[0.0], [1.0]]
    """
    node = as_float(x)
    place = resolve_axis(axis, node.type)
    if (mean is None) != (var is None):
        raise ArgumentError("mean and var are given together").located("batch_norm")
    if mean is None:
        others = tuple(k for k in range(node.type.ndim) if k != place)
        y = standardize(node, others, eps)
    else:
        try:
            center = over_axes(mean, node, (place,), "mean")
            spread = over_axes(var, node, (place,), "var")
        except TreadleError as error:
            raise error.located("batch_norm") from None
        plain = functions.unname(node)
        y = (plain - center) * functions.rsqrt(spread + _epsilon(eps, spread))
        y = reshape(y, node.type.shape, axes=node.type.axes)
    return _affine(y, weight, bias, (place,), "batch_norm")


@provide
@recorded
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5
) -> Tensor:
    """Each sample of (n, channels, ...) standardized over groups of channels.

    Wu and He, Group normalization, 2018.

    >>> td.group_norm([[[1.0, 3.0]]], 1, eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    node = as_float(x)
    if node.type.ndim < 2 or num_groups < 1 or node.type.shape[1] % num_groups:
        raise ShapeError(f"{num_groups} groups do not divide {node.type}").located(
            "group_norm"
        )
    n, c, *rest = node.type.shape
    size = math.prod(rest) * (c // num_groups)
    y = standardize(reshape(node, (n, num_groups, size)), 2, eps)
    y = reshape(y, node.type.shape, axes=node.type.axes)
    return _affine(y, weight, bias, (1,), "group_norm")


def instance_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5
) -> Tensor:
    """Each channel of each sample of (n, channels, ...) standardized by itself.

    Ulyanov, Vedaldi and Lempitsky, Instance normalization, 2016.

    >>> td.instance_norm([[[1.0, 3.0]]], eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    node = as_float(x)
    if node.type.ndim < 3:
        raise ShapeError(f"takes (n, channels, ...), got {node.type}").located(
            "instance_norm"
        )
    y = standardize(node, tuple(range(2, node.type.ndim)), eps)
    return _affine(y, weight, bias, (1,), "instance_norm")


@carried_wide
def local_response_norm(
    x: Any, size: int = 5, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0
) -> Tensor:
    """x / (k + alpha mean(x²))^beta, the mean over `size` channels (dimension 1).

    Channels beyond the ends count as 0. Krizhevsky, Sutskever and Hinton 2012.

    >>> td.local_response_norm([[2.0, 2.0]], 1, alpha=0.75, beta=1.0).tolist()
    [[0.5, 0.5]]
    """
    node = as_float(x)
    if node.type.ndim < 2 or size < 1:
        raise ShapeError(f"{size} channels of {node.type} have no mean").located(
            "local_response_norm"
        )
    channels = node.type.shape[1]
    border = [(0, 0)] * node.type.ndim
    border[1] = (size // 2, size - 1 - size // 2)
    square = pad(node * node, border)
    total = square[:, :channels]
    for j in range(1, size):
        total = total + square[:, j : j + channels]
    return node * (total * (alpha / size) + k) ** -beta
