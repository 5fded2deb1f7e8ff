"""Convolutions in 1, 2 and 3 dimensions, and transposed ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn.applied import Applied
from treadle.nn.linear import above_zero, bias_like_torch, from_zero, weight_like_torch
from treadle.ops.convolution import conv1d, conv2d, conv3d
from treadle.ops.padding import pad
from treadle.ops.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from treadle.ops.window import pairs, spatial

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_MODES = ("zeros", "reflect", "replicate", "circular")  # of borders, as torch has them


def each(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """One number for every dimension, from one number or `rank` of them."""
    numbers = (value,) * rank if hasattr(value, "__index__") else tuple(value)
    if len(numbers) != rank:
        raise ArgumentError(f"{name} is one number or {rank}, got {value!r}")
    return numbers


class _Convolution(Applied):
    """The settings, weights and text that all convolutions share."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _build(
        self,
        channels: tuple[int, int],
        kernel_size: Any,
        sliding: dict[str, Any],
        groups: int,
        bias: bool,
        dtype: Any,
        weight_init: Any,
    ) -> None:
        self.in_channels, self.out_channels = channels
        above_zero(in_channels=channels[0], out_channels=channels[1], groups=groups)
        above_zero(kernel_size=kernel_size)
        for name, value in sliding.items():
            (from_zero if "padding" in name else above_zero)(**{name: value})
        if channels[0] % groups or channels[1] % groups:
            raise ArgumentError(f"{groups} groups do not divide channels {channels}")
        self.kernel_size = each(kernel_size, self.rank, "kernel_size")
        self.groups = groups
        for name, value in sliding.items():
            whole = hasattr(value, "__index__")
            setattr(self, name, each(value, self.rank, name) if whole else value)
        if self.transposed:
            shape = (channels[0], channels[1] // groups, *self.kernel_size)
        else:
            shape = (channels[1], channels[0] // groups, *self.kernel_size)
        self.weight = weight_like_torch(shape, dtype, weight_init)
        fan_in = shape[1] * math.prod(self.kernel_size)
        self.bias = bias_like_torch(channels[1], fan_in, dtype) if bias else None
        self._shown = tuple(sliding)

    def extra_repr(self) -> str:
        plain = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
        text = f"{self.in_channels}, {self.out_channels}"
        text += f", kernel_size={self.kernel_size}"
        for name in self._shown:
            value = getattr(self, name)
            if name == "stride" or value != (plain[name],) * self.rank:
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        mode = getattr(self, "padding_mode", "zeros")
        text += "" if mode == "zeros" else f", padding_mode={mode!r}"
        return text if self.bias is not None else f"{text}, bias=False"


class _Conv(_Convolution):
    """A convolution: weight (out, in / groups, *kernel)."""

    stride: Any
    padding: Any
    dilation: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
        *,
        weight_init: Any = None,
    ) -> None:
        sliding = {"stride": stride, "padding": padding, "dilation": dilation}
        channels = in_channels, out_channels
        self._build(channels, kernel_size, sliding, groups, bias, dtype, weight_init)
        if padding_mode not in _MODES:
            raise ArgumentError(
                f"padding_mode is one of {', '.join(_MODES)}, not {padding_mode!r}"
            )
        self.padding_mode = padding_mode

    def _bordered(self, x: Any) -> tuple[Any, Any]:
        """The input with a border of its own elements, and what padding is left."""
        node = as_tensor(x)
        if self.padding_mode == "zeros" or node.ndim < self.rank + 1:
            return x, self.padding
        steps = spatial(self.stride, self.rank, "stride")
        apart = spatial(self.dilation, self.rank, "dilation")
        extents = node.shape[-self.rank :]
        cover = pairs(self.padding, extents, self.kernel_size, apart, steps)
        lead = ((0, 0),) * (node.ndim - self.rank)
        return pad(node, (*lead, *cover), self.padding_mode), 0

    def forward(self, x: Any) -> Tensor:
        x, padding = self._bordered(x)
        return self.function(
            x,
            self.weight,
            self.bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
        )


class Conv1d(_Conv, rank=1, function=conv1d):
    """y[n, o, i] = b[o] + sum of W[o, c, k] x[n, c, i stride + k dilation - padding].

    Weight (out, in / groups, k); weight and bias start uniform within
    1 / sqrt(in / groups * k), as torch's. `padding_mode` says what padding is made of:
    zeros, or the input's own elements by "reflect", "replicate" or "circular".

    >>> td.nn.Conv1d(3, 8, 5, padding=2)(td.ones((2, 3, 10))).shape
    (2, 8, 10)
    """


class Conv2d(_Conv, rank=2, function=conv2d):
    """The same in two dimensions: images (n, channels, height, width).

    >>> td.nn.Conv2d(1, 4, 3, stride=2)(td.ones((2, 1, 9, 9))).shape
    (2, 4, 4, 4)
    """


class Conv3d(_Conv, rank=3, function=conv3d):
    """The same in three dimensions: (n, channels, depth, height, width).

    >>> td.nn.Conv3d(1, 4, (1, 2, 3))(td.ones((2, 1, 3, 3, 3))).shape
    (2, 4, 3, 2, 1)
    """


class _ConvTranspose(_Convolution):
    """The transpose of a convolution: weight (in, out / groups, *kernel)."""

    transposed = True
    stride: Any
    padding: Any
    output_padding: Any
    dilation: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
        *,
        weight_init: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ArgumentError(f"padding is of zeros here, not {padding_mode!r}")
        sliding = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
        }
        channels = in_channels, out_channels
        self._build(channels, kernel_size, sliding, groups, bias, dtype, weight_init)

    def forward(self, x: Any, output_size: Any = None) -> Tensor:
        more = self.output_padding
        if output_size is not None:
            more = self._padding_for(as_tensor(x), tuple(output_size))
        return self.function(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            more,
            self.groups,
            self.dilation,
        )

    def _padding_for(self, x: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        """The output padding with which a result has these extents, or these last."""
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                x.shape[-self.rank :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        ]
        asked = output_size[-self.rank :]
        more = tuple(m - n for m, n in zip(asked, least, strict=True))
        if any(not 0 <= m < s for m, s in zip(more, self.stride, strict=True)):
            raise ShapeError(f"{asked} is not from {tuple(least)} to a stride more")
        return more


class ConvTranspose1d(_ConvTranspose, rank=1, function=conv_transpose1d):
    """The transposed convolution in one dimension, from a Conv1d's output to its input.

    >>> td.nn.ConvTranspose1d(3, 2, 4, stride=2)(td.ones((1, 3, 5))).shape
    (1, 2, 12)
    """


class ConvTranspose2d(_ConvTranspose, rank=2, function=conv_transpose2d):
    """The same in two dimensions.

    >>> td.nn.ConvTranspose2d(3, 2, 2, stride=2)(td.ones((1, 3, 4, 4))).shape
    (1, 2, 8, 8)
    """


class ConvTranspose3d(_ConvTranspose, rank=3, function=conv_transpose3d):
    """The same in three dimensions.

    >>> td.nn.ConvTranspose3d(1, 2, 2)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 2, 3, 3, 3)
    """
