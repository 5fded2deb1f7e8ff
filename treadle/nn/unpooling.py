"""Pools of windows at drawn places, and values put back to where a pool found them."""

from __future__ import annotations

import math
from typing import Any

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.symbolic import arange
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.create import zeros
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.pick import take_along_axis
from treadle.ops.random import uniform
from treadle.ops.window import spatial

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _unpooled(
    x: Any, indices: Any, kernel: Any, stride: Any, padding: Any, size: Any, rank: int
) -> Tensor:
    """Values of x[n, c, *spatial] at their indices in planes of zeros."""
    node, places = as_tensor(x), as_tensor(indices)
    if node.type.shape != places.type.shape or node.type.ndim not in (
        rank + 1,
        rank + 2,
    ):
        raise ShapeError(
            f"takes values of {rank} dimensions after channels and their indices, got "
            f"{node.type} and {places.type}"
        ).located(f"max_unpool{rank}d")
    lead, extents = node.type.shape[:-rank], node.type.shape[-rank:]
    sizes = spatial(kernel, rank, "kernel_size")
    steps = sizes if stride is None else spatial(stride, rank, "stride")
    cut = spatial(padding, rank, "padding")
    whole = [
        (n - 1) * s - 2 * p + k
        for n, s, p, k in zip(extents, steps, cut, sizes, strict=True)
    ]
    if size is not None:
        whole = list(size)[-rank:]
    planes, area = math.prod(lead), math.prod(whole)
    rows = reshape(places, (planes, math.prod(extents)))
    at = rows + constant_node(arange(planes))[:, None] * area
    empty = zeros((planes * area,), node.dtype)
    put = functions.at(empty)[reshape(at, (-1,))].set(reshape(node, (-1,)))
    return reshape(put, (*lead, *whole))


def max_unpool1d(
    x: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with each value of x[n, c, length] where `max_pool1d` tells it was.

    >>> y, at = td.max_pool1d([[[1.0, 3.0, 2.0, 0.0]]], 2, return_indices=True)
    >>> max_unpool1d(y, at, 2).tolist()
    [[[0.0, 3.0, 2.0, 0.0]]]
    """
    return _unpooled(x, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    x: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with each value of x[n, c, h, w] where `max_pool2d` tells it was.

    >>> max_unpool2d([[[[7.0]]]], [[[[2]]]], 2).tolist()
    [[[[0.0, 0.0], [7.0, 0.0]]]]
    """
    return _unpooled(x, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    x: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with each value of x[n, c, *spatial] where `max_pool3d` tells it was.

    >>> max_unpool3d([[[[[7.0]]]]], [[[[[2]]]]], (1, 1, 3)).tolist()
    [[[[[0.0, 0.0, 7.0]]]]]
    """
    return _unpooled(x, indices, kernel_size, stride, padding, output_size, 3)


def largest(x: Tensor, windows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The first maximum of each window of x[n, c, *spatial], and where it stands in its
    plane; of each dimension there are its places [.., windows, width]."""
    n, c, *extents = x.type.shape
    rank, place = len(extents), as_tensor(0)
    for k, (extent, window) in enumerate(zip(extents, windows, strict=True)):
        *ahead, count, width = window.type.shape
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = count, width
        place = place * extent + reshape(window, (*ahead, *shape))
    counts = place.type.shape[-2 * rank : -rank]
    many, wide = math.prod(counts), math.prod(place.type.shape[-rank:])
    lead = place.type.shape[: -2 * rank] or (1, 1)
    seen = broadcast_to(reshape(place, (*lead, many, wide)), (n, c, many, wide))
    flat = reshape(x, (n, c, math.prod(extents)))
    values = take_along_axis(flat, reshape(seen, (n, c, many * wide)), 2)
    best = functions.argmax(reshape(values, (n, c, many, wide)), -1)
    at = take_along_axis(seen, functions.expand_dims(best, -1), -1)
    at = reshape(at, (n, c, many))
    y = take_along_axis(flat, at, 2)
    return reshape(y, (n, c, *counts)), reshape(at, (n, c, *counts))


def _fractional(
    x: Any, kernel: Any, size: Any, ratio: Any, indices: bool, samples: Any, rank: int
) -> Any:
    """The maxima of windows that begin evenly apart from a drawn phase, rounded."""
    node = as_tensor(x)
    name = f"fractional_max_pool{rank}d"
    if (size is None) == (ratio is None):
        raise ArgumentError("takes one of output_size and output_ratio").located(name)
    if node.type.ndim == rank + 1:
        draws = samples if samples is None else as_tensor(samples)
        y = _fractional(node[None], kernel, size, ratio, indices, draws, rank)
        return (y[0][0], y[1][0]) if indices else y[0]
    if node.type.ndim != rank + 2:
        raise ShapeError(
            f"takes {rank} dimensions after channels, got {node.type}"
        ).located(name)
    n, c, *extents = node.type.shape
    sizes = spatial(kernel, rank, "kernel_size")
    windows = []
    if size is None:
        ratios = ratio if isinstance(ratio, (tuple, list)) else (ratio,) * rank
        counts = tuple(int(m * r) for m, r in zip(extents, ratios, strict=True))
    else:
        counts = spatial(size, rank, "output_size")
    draws = uniform((n, c, rank)) if samples is None else as_tensor(samples)
    for k, (extent, width, count) in enumerate(
        zip(extents, sizes, counts, strict=True)
    ):
        if not 1 <= width <= extent or not 1 <= count <= extent - width + 1:
            raise ShapeError(
                f"{count} windows of {width} do not fit {extent} elements"
            ).located(name)
        # torch has the phases of an image last dimension first.
        phase = draws[:, :, rank - 1 - k if rank == 2 else k, None]
        apart = (extent - width) / max(count - 1, 1)
        steps = constant_node(arange(count))
        first = functions.floor((steps.astype(phase.dtype) + phase) * apart)
        first = (first - functions.floor(phase * apart)).astype("int64")
        first = functions.where(steps == count - 1, extent - width, first)
        windows.append(first[..., None] + constant_node(arange(width)))
    y = largest(node, windows)
    return y if indices else y[0]


def fractional_max_pool2d(
    x: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The maxima of `output_size` windows at drawn places of x[n, c, h, w], that many
    by `output_ratio` times the extents; with their places if `return_indices`.

    Graham, Fractional max-pooling, 2014.

    >>> fractional_max_pool2d(td.ones((1, 1, 5, 5)), 2, output_ratio=0.7).shape
    (1, 1, 3, 3)
    """
    settings = kernel_size, output_size, output_ratio, return_indices
    return _fractional(x, *settings, _random_samples, 2)


def fractional_max_pool3d(
    x: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """`fractional_max_pool2d` of volumes x[n, c, *spatial].

    >>> fractional_max_pool3d(td.ones((1, 1, 5, 5, 5)), 2, 3).shape
    (1, 1, 3, 3, 3)
    """
    settings = kernel_size, output_size, output_ratio, return_indices
    return _fractional(x, *settings, _random_samples, 3)
