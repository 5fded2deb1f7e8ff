"""Transposed convolutions: what a convolution's gradient does, as a layer."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError, ShapeError, TreadleError
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import located
from treadle.ops.cast import operands
from treadle.ops.convolution import ConvInputGradient, biased
from treadle.ops.window import pairs, spatial

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _transposed(
    x: Any, w: Any, b: Any, rank: int, sliding: tuple[Any, Any, Any, Any], groups: int
) -> Tensor:
    """A transposed convolution with attributes as a user writes them."""
    nodes = operands(x, w)
    (g, kernel), (stride, padding, extra, dilation) = nodes, sliding
    made = ConvInputGradient((), (), (), (), groups)
    try:
        if not g.type.ndim == kernel.type.ndim == rank + 2:
            shapes = f"{g.type.shape} and {kernel.type.shape}"
            raise ShapeError(f"takes x[n, c, *spatial] and w[c, out, *k], not {shapes}")
        sizes = kernel.type.shape[2:]
        steps = spatial(stride, rank, "stride")
        apart = spatial(dilation, rank, "dilation")
        more = spatial(extra, rank, "output_padding")
        cover = pairs(padding, sizes, apart, steps)
        if any(
            m and m >= max(s, d) for m, s, d in zip(more, steps, apart, strict=True)
        ):
            raise ArgumentError(
                f"output_padding {more} is not below the stride {steps}"
            )
        extents = tuple(
            s * (n - 1) - low - high + d * (k - 1) + 1 + m
            for n, k, s, (low, high), d, m in zip(
                g.type.shape[2:], sizes, steps, cover, apart, more, strict=True
            )
        )
        made = ConvInputGradient(extents, steps, cover, apart, groups)
    except TreadleError as error:
        raise located(error, made, nodes) from None
    return biased(made(*nodes), b)


@provide
def conv_transpose1d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv1d`: x[n, c, s] spread by w[c, out / groups, k].

    >>> import treadle as td
    >>> td.conv_transpose1d([[[1.0, 2.0]]], [[[1.0, 3.0]]]).tolist()
    [[[1.0, 5.0, 6.0]]]
    """
    return _transposed(x, w, b, 1, (stride, padding, output_padding, dilation), groups)


@provide
def conv_transpose2d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv2d`.

    >>> import treadle as td
    >>> td.conv_transpose2d(td.ones((1, 2, 3, 3)), td.ones((2, 4, 2, 2)), None, 2).shape
    (1, 4, 6, 6)
    """
    return _transposed(x, w, b, 2, (stride, padding, output_padding, dilation), groups)


@provide
def conv_transpose3d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose of `conv3d`.

    >>> import treadle as td
    >>> td.conv_transpose3d(td.ones((1, 1, 2, 2, 2)), td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 3, 3, 3)
    """
    return _transposed(x, w, b, 3, (stride, padding, output_padding, dilation), groups)
