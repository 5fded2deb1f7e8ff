"""Pooling as users write it, over windows and whole planes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError, TreadleError
from treadle.base.types import Shape
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions, provide
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, carried_wide, summand
from treadle.ops.families import some
from treadle.ops.naming import named_like
from treadle.ops.pool import MaxPool, MaxPoolPositions, SumPool
from treadle.ops.window import (
    Integers,
    Pairs,
    batched,
    even_bins,
    image,
    padded,
    pairs,
    spatial,
)

__all__ = [
    "adaptive_avg_pool",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "global_avg_pool",
    "global_max_pool",
    "global_sum_pool",
    "l2_pool",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "sum_pool",
]


def _windows(
    x: Any, kernel: Any, sliding: tuple[Any, Any, Any], ceil: bool, rank: int | None
) -> tuple[Tensor, tuple[Shape, Integers, Pairs, Integers], Pairs]:
    """The operand, the fields of a pool, and the padding before rounding up."""
    node = as_tensor(x)
    stride, padding, dilation = sliding
    try:
        dimensions = max(node.type.ndim - 2, 1) if rank is None else rank
        image(node.type, dimensions)
        sizes = spatial(kernel, dimensions, "kernel")
        steps = sizes if stride is None else spatial(stride, dimensions, "stride")
        apart = spatial(dilation, dimensions, "dilation")
        asked = pairs(padding, node.type.shape[2:], sizes, apart, steps)
        cover = asked
        if ceil:
            wide = []
            for n, k, s, (low, high), d in zip(
                node.type.shape[2:], sizes, steps, asked, apart, strict=True
            ):
                slack = n + low + high - d * (k - 1) - 1
                # One more window, if it starts inside the input.
                start = -(-slack // s) * s
                more = start - slack if 0 <= start < n + low else 0
                wide.append((low, high + more))
            cover = tuple(wide)
    except TreadleError as error:
        raise error.located("pool", repr(node.type), describe(capture())) from None
    return node, (sizes, steps, cover, apart), asked


@provide
def max_pool(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    rank: int | None = None,
) -> Any:
    """The maximum of each window of x[n, c, *spatial]; `stride` is the kernel's extent.

    With `ceil_mode` a last window may reach over the end; with `return_indices` the
    place of each maximum, counted through its plane, is the second result.

    >>> td.max_pool([[[1.0, 3.0, 2.0, 0.0]]], 2).tolist()
    [[[3.0, 2.0]]]
    """
    node, fields, _ = _windows(x, kernel, (stride, padding, dilation), ceil_mode, rank)
    y = MaxPool(*fields)(node)
    return (y, MaxPoolPositions(*fields)(node)) if return_indices else y


@provide
def max_pool1d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool` of sequences x[n, c, length].

    >>> td.max_pool1d([[[1.0, 3.0, 2.0]]], 2, stride=1).tolist()
    [[[3.0, 3.0]]]
    """
    settings = kernel, stride, padding, dilation, ceil_mode, return_indices
    return batched(as_tensor(x), 1, lambda y: max_pool(y, *settings, rank=1))


@provide
def max_pool2d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool` of images x[n, c, height, width].

    >>> td.max_pool2d(td.ones((1, 1, 5, 4)), 2, ceil_mode=True).shape
    (1, 1, 3, 2)
    """
    settings = kernel, stride, padding, dilation, ceil_mode, return_indices
    return batched(as_tensor(x), 2, lambda y: max_pool(y, *settings, rank=2))


@provide
def max_pool3d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool` of volumes x[n, c, *spatial].

    >>> td.max_pool3d(td.ones((1, 1, 4, 4, 4)), 2).shape
    (1, 1, 2, 2, 2)
    """
    settings = kernel, stride, padding, dilation, ceil_mode, return_indices
    return batched(as_tensor(x), 3, lambda y: max_pool(y, *settings, rank=3))


@provide
def sum_pool(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The sum of each window of x[n, c, *spatial], integers in 64 bits as in `sum`.

    >>> td.sum_pool([[[1.0, 3.0, 2.0, 0.0]]], 2).tolist()
    [[[4.0, 2.0]]]
    """
    node, fields, _ = _windows(x, kernel, (stride, padding, dilation), ceil_mode, None)
    return SumPool(*fields)(summand(node))


@provide
@carried_wide
def avg_pool(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    rank: int | None = None,
) -> Tensor:
    """The average of each window of x[n, c, *spatial].

    Padding counts as zeros, or not at all without `count_include_pad`; sums are divided
    by `divisor_override` in the place of the elements' number where it is given.

    >>> td.avg_pool([[[1.0, 3.0, 2.0, 0.0]]], 2).tolist()
    [[[2.0, 1.0]]]
    """
    node, fields, asked = _windows(x, kernel, (stride, padding, 1), ceil_mode, rank)
    node = as_float(node)
    total = SumPool(*fields)(node)
    if divisor_override is not None:
        if not divisor_override:
            raise ArgumentError("a divisor is not 0").located("avg_pool")
        return total / divisor_override
    kernel, _, border, _ = fields
    if not any(map(any, border)):
        return total / constant_node(np.array(math.prod(kernel), node.type.dtype))
    # How many elements of data, or of it and its border, each window counts.
    seen = np.ones((1, 1, *node.type.shape[2:]))
    if count_include_pad:
        seen = padded(seen, asked, 1)
        edge = zip(fields[2], asked, strict=True)
        extra = tuple((0, a[1] - b[1]) for a, b in edge)
        fields = (*fields[:2], extra, fields[3])
    counts = SumPool(*fields).numpy(seen).astype(node.type.dtype)
    if counts.size and (counts == counts.flat[0]).all():
        counts = np.array(counts.flat[0])
    names = node.type.axes if counts.ndim else None
    return total / constant_node(counts, names and some((None, None, *names[2:])))


@provide
def avg_pool1d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool` of sequences x[n, c, length].

    >>> td.avg_pool1d([[[1.0, 3.0, 5.0]]], 2, stride=1).tolist()
    [[[2.0, 4.0]]]
    """
    settings = kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    y: Tensor = batched(as_tensor(x), 1, lambda y: avg_pool(y, *settings, rank=1))
    return y


@provide
def avg_pool2d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool` of images x[n, c, height, width].

    >>> td.avg_pool2d(td.ones((1, 1, 4, 4)), 2).shape
    (1, 1, 2, 2)
    """
    settings = kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    y: Tensor = batched(as_tensor(x), 2, lambda y: avg_pool(y, *settings, rank=2))
    return y


@provide
def avg_pool3d(
    x: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool` of volumes x[n, c, *spatial].

    >>> td.avg_pool3d(td.ones((1, 1, 4, 4, 4)), 2).shape
    (1, 1, 2, 2, 2)
    """
    settings = kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    y: Tensor = batched(as_tensor(x), 3, lambda y: avg_pool(y, *settings, rank=3))
    return y


@provide
@carried_wide
def l2_pool(x: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The Euclidean norm of each window: sqrt(sum x^2), with gradient 0 at 0.

    >>> td.l2_pool([[[3.0, 4.0]]], 2).tolist()
    [[[5.0]]]
    """
    node = as_float(x)
    total = sum_pool(node * node, kernel, stride, padding)
    return functions.norm_of(total)


def plane(x: Any) -> tuple[Tensor, tuple[int, ...]]:
    """x and its spatial dimensions."""
    node = as_tensor(x)
    image(node.type, max(node.type.ndim - 2, 1))
    return node, tuple(range(2, node.type.ndim))


@provide
def global_max_pool(x: Any) -> Tensor:
    """The maximum of each channel: x[n, c, *spatial] to [n, c].

    >>> td.global_max_pool([[[1.0, 3.0]]]).tolist()
    [[3.0]]
    """
    node, axes = plane(x)
    return functions.max(node, axes)


@provide
def global_avg_pool(x: Any) -> Tensor:
    """The average of each channel: x[n, c, *spatial] to [n, c].

    >>> td.global_avg_pool([[[1.0, 3.0]]]).tolist()
    [[2.0]]
    """
    node, axes = plane(x)
    return functions.mean(node, axes)


@provide
def global_sum_pool(x: Any) -> Tensor:
    """The sum of each channel: x[n, c, *spatial] to [n, c].

    >>> td.global_sum_pool([[[1.0, 3.0]]]).tolist()
    [[4.0]]
    """
    node, axes = plane(x)
    return functions.sum(node, axes)


@provide
@carried_wide
def adaptive_avg_pool(x: Any, output: Any) -> Tensor:
    """Averages of x[n, c, *spatial] over `output` bins of each spatial dimension.

    Bin i of m spans elements floor(i n / m) before ceil((i + 1) n / m).

    >>> td.adaptive_avg_pool([[[1.0, 3.0, 5.0, 7.0]]], 2).tolist()
    [[[2.0, 6.0]]]
    """
    node = as_float(x)
    names = node.type.axes
    rank = len(plane(node)[1])
    bins = list(enumerate(spatial(output, rank, "output"), 2))
    for k, _ in bins:
        if not node.type.shape[k]:
            raise ShapeError(
                f"bins of dimension {k} of {node.type} have no elements"
            ).located("adaptive_avg_pool")
    whole = tuple(k for k, m in bins if m == 1)
    if whole:
        node = functions.mean(node, whole, keepdims=True)
    node = functions.unname(node)
    shape = node.type.shape
    windows = [even_bins(shape[k], m) or (1, 1) for k, m in bins]
    kernel, stride = zip(*windows, strict=True)
    if any(k > 1 for k in kernel):
        node = avg_pool(node, kernel, stride)
    for k, m in bins:
        if m != node.type.shape[k]:
            node = _binned(node, k, m)
    return named_like(node, names)


def _binned(x: Tensor, axis: int, bins: int) -> Tensor:
    """The averages of `bins` bins along `axis`."""
    n = x.type.shape[axis]
    i = np.arange(bins)
    first, last = i * n // bins, -(-(i + 1) * n // bins)
    places = first[:, None] + np.arange((last - first).max(initial=0))
    # Elements outside a bin are left out: times 0 a NaN would stay one.
    shape = (*places.shape, *[1] * (x.type.ndim - axis - 1))
    inside = constant_node((places < last[:, None]).reshape(shape))
    elements = functions.take(x, np.minimum(places, n - 1), axis)
    total = functions.sum(functions.where(inside, elements, 0), axis + 1)
    counts = (last - first).astype(x.type.dtype).reshape(bins, *shape[2:])
    return total / constant_node(counts)
