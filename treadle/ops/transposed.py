"""Transposed convolutions: what a convolution's gradient does, as a layer."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError, ShapeError, TreadleError
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import located
from treadle.ops.cast import factors
from treadle.ops.convolution import ConvInputGradient, biased
from treadle.ops.padding import pad
from treadle.ops.rearrange import expand_dims, squeeze
from treadle.ops.window import Integers, Pairs, pairs, spatial

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _transposed(
    x: Any, w: Any, b: Any, rank: int, sliding: tuple[Any, Any, Any, Any], groups: int
) -> Tensor:
    """A transposed convolution with attributes as a user writes them.

    Where `output_padding` gives room to one more window, it undoes padding first; what
    is left of it is zeros, behind all that windows reach.
    """
    nodes = factors(x, w)
    if nodes[0].type.ndim == rank + 1:
        one = _transposed(expand_dims(nodes[0], 0), nodes[1], b, rank, sliding, groups)
        return squeeze(one, 0)
    (g, kernel), (stride, padding, extra, dilation) = nodes, sliding
    op = ConvInputGradient((), (), (), (), groups)
    try:
        if not g.type.ndim == kernel.type.ndim == rank + 2:
            shapes = f"{g.type.shape} and {kernel.type.shape}"
            raise ShapeError(f"takes x[n, c, *spatial] and w[c, out, *k], not {shapes}")
        sizes = kernel.type.shape[2:]
        steps = spatial(stride, rank, "stride")
        apart = spatial(dilation, rank, "dilation")
        more = spatial(extra, rank, "output_padding")
        wide = tuple(n * s for n, s in zip(g.type.shape[2:], steps, strict=True))
        cover = pairs(padding, wide, sizes, apart, steps)
        if padding == "same":  # stride times as many elements
            more = tuple(
                m + max(s - d * (k - 1) - 1, 0)
                for m, s, d, k in zip(more, steps, apart, sizes, strict=True)
            )
        elif any(
            m and m >= max(s, d) for m, s, d in zip(more, steps, apart, strict=True)
        ):
            raise ArgumentError(
                f"output_padding {more} is not below the stride {steps}"
            )
        cover, more, zeros = _undone(cover, more, steps)
        extents = tuple(
            s * (n - 1) - low - high + d * (k - 1) + 1 + m
            for n, k, s, (low, high), d, m in zip(
                g.type.shape[2:], sizes, steps, cover, apart, more, strict=True
            )
        )
        op = ConvInputGradient(extents, steps, cover, apart, groups)
    except TreadleError as error:
        raise located(error, op, nodes) from None
    y = op(*nodes)
    if any(zeros):
        y = pad(y, ((0, 0), (0, 0), *((0, n) for n in zeros)))
    return biased(y, b)


def _undone(
    cover: Pairs, more: Integers, steps: Integers
) -> tuple[Pairs, Integers, Integers]:
    """Padding and output padding with no room for one more window, and zeros behind."""
    padding, left, zeros = [], [], []
    for (low, high), m, s in zip(cover, more, steps, strict=True):
        less = min(m, high) if m >= s else 0
        rest = min(m - less, s - 1)
        padding.append((low, high - less))
        left.append(rest)
        zeros.append(m - less - rest)
    return tuple(padding), tuple(left), tuple(zeros)


@provide
def conv_transpose1d(
    x: Any,
    w: Any,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv1d`: x[n, c, s] spread by w[c, out / groups, k].

    `output_padding` adds elements behind; padding "same" gives stride times as many.

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
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv2d`.

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
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv3d`.

    >>> td.conv_transpose3d(td.ones((1, 1, 2, 2, 2)), td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 3, 3, 3)
    """
    return _transposed(x, w, b, 3, (stride, padding, output_padding, dilation), groups)
