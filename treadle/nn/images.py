"""Functions of images under torch's names: shuffles, windows, borders, pools, sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import as_integer, as_integers
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.nn.unpooling import largest
from treadle.ops import padding, window
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.movement import permute_dims, reshape
from treadle.ops.pooling import adaptive_avg_pool, avg_pool, max_pool
from treadle.ops.upsample import upsample
from treadle.ops.window import unfold

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "channel_shuffle",
    "fold",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
    "upsample_bilinear",
    "upsample_nearest",
]


# -- elements in another order -----------------------------------------------------


def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """x[..., c r², h, w] as [..., c, h r, w r], channels side by side in space.

    Shi et al., Real-time single image and video super-resolution, 2016.

    >>> pixel_shuffle([[[1.0]], [[2.0]], [[3.0]], [[4.0]]], 2).tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    node, r = as_tensor(x), int(upscale_factor)
    *rest, c, h, w = _planes(node, "pixel_shuffle")
    if r < 1 or c % r**2:
        raise ShapeError(f"{r}² does not divide the channels of {node.type}").located(
            "pixel_shuffle"
        )
    parts = reshape(node, (*rest, c // r**2, r, r, h, w))
    return reshape(_reordered(parts, (0, 3, 1, 4, 2)), (*rest, c // r**2, h * r, w * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """x[..., c, h r, w r] as [..., c r², h, w]: `pixel_shuffle` back.

    >>> pixel_unshuffle([[[1.0, 2.0], [3.0, 4.0]]], 2).tolist()
    [[[1.0]], [[2.0]], [[3.0]], [[4.0]]]
    """
    node, r = as_tensor(x), int(downscale_factor)
    *rest, c, h, w = _planes(node, "pixel_unshuffle")
    if r < 1 or h % r or w % r:
        raise ShapeError(f"{r} does not divide the extents of {node.type}").located(
            "pixel_unshuffle"
        )
    parts = reshape(node, (*rest, c, h // r, r, w // r, r))
    return reshape(
        _reordered(parts, (0, 2, 4, 1, 3)), (*rest, c * r**2, h // r, w // r)
    )


def channel_shuffle(x: Any, groups: int) -> Tensor:
    """x[n, c, ...] with the channels of `groups` groups by turns. Zhang et al. 2018.

    >>> channel_shuffle([[[1.0], [2.0], [3.0], [4.0]]], 2).tolist()
    [[[1.0], [3.0], [2.0], [4.0]]]
    """
    node = as_tensor(x)
    if node.type.ndim < 3 or groups < 1 or node.type.shape[1] % groups:
        raise ShapeError(f"{groups} groups do not divide {node.type}").located(
            "channel_shuffle"
        )
    n, c, *rest = node.type.shape
    parts = reshape(node, (n, groups, c // groups, *rest))
    return reshape(functions.swapaxes(parts, 1, 2), node.type.shape)


def _planes(x: Tensor, name: str) -> tuple[int, ...]:
    if x.type.ndim < 3:
        raise ShapeError(f"takes (..., channels, height, width), got {x.type}").located(
            name
        )
    return x.type.shape


def _reordered(x: Tensor, last: Sequence[int]) -> Tensor:
    """The last dimensions of x in another order."""
    first = x.type.ndim - len(last)
    return permute_dims(x, (*range(first), *(first + k for k in last)))


# -- windows and borders -----------------------------------------------------------


def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Columns as `unfold` gives them, added into images of `output_size`.

    >>> fold([[[1.0, 2.0], [2.0, 3.0]]], (1, 3), (1, 2)).tolist()
    [[[[1.0, 4.0, 3.0]]]]
    """
    size = (output_size,) * 2 if isinstance(output_size, int) else output_size
    return window.fold(x, size, kernel_size, dilation, padding, stride)


def pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """x with a border, or less of it where a number is negative.

    `pad` has the numbers before and after for each dimension, from the last one on.
    `mode` is "constant" (of `value`, or 0), "reflect", "replicate" or "circular".

    >>> pad([[1.0, 2.0]], (1, 0, 0, 1)).tolist()
    [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    node, counts = as_tensor(x), as_integers(pad)
    if counts is None:
        raise ArgumentError(f"widths are whole numbers, not {pad!r}").located("pad")
    if len(counts) % 2 or len(counts) > 2 * node.type.ndim:
        raise ArgumentError(f"{len(counts)} widths for {node.type}").located("pad")
    pairs = list(zip(counts[::2], counts[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (node.type.ndim - len(pairs)) + pairs
    if any(w < 0 for pair in pairs for w in pair):
        key = [
            slice(max(-a, 0), n - max(-b, 0))
            for n, (a, b) in zip(node.type.shape, pairs, strict=True)
        ]
        node = node[tuple(key)]
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return padding.pad(node, pairs, mode, value)


# -- pools -------------------------------------------------------------------------


def _of_rank(x: Any, rank: int, pool: Callable[[Tensor], Any]) -> Any:
    """A pool of [n, c, *spatial], or of [c, *spatial] alone."""
    node = as_tensor(x)
    if node.type.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"takes {rank} dimensions after channels, got {node.type}")
    return window.batched(node, rank, pool)


def _sizes(x: Tensor, output: Any) -> tuple[int, ...]:
    """The extents that are asked for; None is that of x."""
    spatial = x.type.shape[2:]
    asked = output if isinstance(output, (tuple, list)) else (output,) * len(spatial)
    sizes = [
        n if m is None else as_integer(m) for n, m in zip(spatial, asked, strict=False)
    ]
    whole = tuple([n for n in sizes if n is not None])
    if len(asked) != len(spatial) or len(whole) != len(spatial):
        raise ArgumentError(f"output_size is {output}, for {x.type}")
    return whole


def _averages(x: Any, output: Any, rank: int) -> Tensor:
    y: Tensor = _of_rank(x, rank, lambda y: adaptive_avg_pool(y, _sizes(y, output)))
    return y


def _largest(x: Any, output: Any, indices: bool, rank: int) -> Any:
    def pool(y: Tensor) -> Any:
        spatial, sizes = y.type.shape[2:], _sizes(y, output)
        windows = [window.even_bins(n, m) for n, m in zip(spatial, sizes, strict=True)]
        if None not in windows:
            kernel, stride = zip(*windows, strict=True)
            return max_pool(y, kernel, stride, return_indices=indices)
        bins = []
        for n, m in zip(spatial, sizes, strict=True):
            first = np.arange(m) * n // m
            count = -(-np.arange(1, m + 1) * n // m) - first
            steps = np.minimum(np.arange(max(count, default=0)), count[:, None] - 1)
            bins.append(constant_node(first[:, None] + steps))
        values, places = largest(y, bins)
        return (values, places) if indices else values

    return _of_rank(x, rank, pool)


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """The means of `output_size` bins of the last dimension.

    >>> adaptive_avg_pool1d([[[1.0, 3.0, 5.0, 7.0]]], 2).tolist()
    [[[2.0, 6.0]]]
    """
    return _averages(x, output_size, 1)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """The means of a grid of bins of the last two dimensions; None leaves one as it is.

    >>> adaptive_avg_pool2d([[[[1.0, 3.0], [5.0, 7.0]]]], (None, 1)).tolist()
    [[[[2.0], [6.0]]]]
    """
    return _averages(x, output_size, 2)


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """The means of a grid of bins of the last three dimensions.

    >>> adaptive_avg_pool3d([[[[[1.0, 3.0]]]]], 1).item()
    2.0
    """
    return _averages(x, output_size, 3)


def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of `output_size` bins of the last dimension.

    >>> adaptive_max_pool1d([[[1.0, 3.0, 5.0]]], 2).tolist()
    [[[3.0, 5.0]]]
    """
    return _largest(x, output_size, return_indices, 1)


def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of a grid of bins of the last two dimensions.

    >>> adaptive_max_pool2d([[[[1.0, 3.0], [5.0, 7.0]]]], (None, 1)).tolist()
    [[[[3.0], [7.0]]]]
    """
    return _largest(x, output_size, return_indices, 2)


def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of a grid of bins of the last three dimensions.

    >>> adaptive_max_pool3d([[[[[1.0, 3.0]]]]], 1).item()
    3.0
    """
    return _largest(x, output_size, return_indices, 3)


@carried_wide
def _norms(
    x: Any, norm_type: float, kernel: Any, stride: Any, ceil: bool, rank: int
) -> Tensor:
    def pool(y: Tensor) -> Tensor:
        sizes = kernel if isinstance(kernel, (tuple, list)) else (kernel,) * rank
        mean = avg_pool(as_float(y) ** norm_type, kernel, stride, 0, ceil, rank=rank)
        total = mean * math.prod(sizes)
        none = total == 0  # there the derivative is 0, as of other norms
        root = functions.where(none, 1, total) ** (1.0 / norm_type)
        return functions.where(none, 0, root)

    y: Tensor = _of_rank(x, rank, pool)
    return y


def lp_pool1d(
    x: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^p)^(1/p) of each window of the last dimension, p the `norm_type`.

    >>> lp_pool1d([[[3.0, 4.0]]], 2, 2).tolist()
    [[[5.0]]]
    """
    return _norms(x, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    x: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^p)^(1/p) of each window of the last two dimensions.

    >>> lp_pool2d([[[[3.0, 4.0]]]], 2, (1, 2)).tolist()
    [[[[5.0]]]]
    """
    return _norms(x, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    x: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^p)^(1/p) of each window of the last three dimensions.

    >>> lp_pool3d([[[[[3.0, 4.0]]]]], 2, (1, 1, 2)).tolist()
    [[[[[5.0]]]]]
    """
    return _norms(x, norm_type, kernel_size, stride, ceil_mode, 3)


# -- sizes -------------------------------------------------------------------------


def upsample_nearest(x: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """x[n, c, *spatial] with the nearest element at each place of a larger image.

    >>> upsample_nearest([[[1.0, 2.0]]], scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return upsample(x, scale_factor, size=size)


def upsample_bilinear(x: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Lines drawn between elements, the outer ones at the corners.

    >>> upsample_bilinear([[[[1.0, 2.0]]]], (1, 3)).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """
    return upsample(x, scale_factor, "bilinear", align_corners=True, size=size)
