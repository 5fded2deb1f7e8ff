"""Layers of movements: shapes, shuffles, windows as columns, borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import Applied, FunctionLayer
from treadle.nn.linear import above_zero
from treadle.ops.rearrange import flatten, unflatten

__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Flatten",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Unflatten",
    "Unfold",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class Flatten(FunctionLayer, function=flatten):
    """The dimensions from `start_dim` through `end_dim` as one.

    >>> td.nn.Flatten()(td.ones((2, 3, 4))).shape
    (2, 12)
    """

    start_dim: int = 1
    end_dim: int = -1


class Unflatten(FunctionLayer, function=unflatten):
    """One dimension as several.

    >>> td.nn.Unflatten(1, (3, 4))(td.ones((2, 12))).shape
    (2, 3, 4)
    """

    dim: int
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        self.sizes = tuple(self.sizes)


class PixelShuffle(FunctionLayer, function=F.pixel_shuffle):
    """x[..., c r², h, w] as [..., c, h r, w r]. Shi et al. 2016.

    >>> td.nn.PixelShuffle(2)(td.ones((1, 4, 2, 3))).shape
    (1, 1, 4, 6)
    """

    upscale_factor: int

    def __post_init__(self) -> None:
        above_zero(upscale_factor=self.upscale_factor)


class PixelUnshuffle(FunctionLayer, function=F.pixel_unshuffle):
    """x[..., c, h r, w r] as [..., c r², h, w].

    >>> td.nn.PixelUnshuffle(2)(td.ones((1, 1, 4, 6))).shape
    (1, 4, 2, 3)
    """

    downscale_factor: int

    def __post_init__(self) -> None:
        above_zero(downscale_factor=self.downscale_factor)


class ChannelShuffle(FunctionLayer, function=F.channel_shuffle):
    """x[n, c, ...] with the channels of groups by turns. Zhang et al. 2018.

    >>> td.nn.ChannelShuffle(2)([[[1.0], [2.0], [3.0], [4.0]]]).ravel().tolist()
    [1.0, 3.0, 2.0, 4.0]
    """

    groups: int

    def __post_init__(self) -> None:
        above_zero(groups=self.groups)


class Unfold(FunctionLayer, function=F.unfold):
    """The windows of x[n, c, *spatial] as columns [n, c * kernel, windows].

    >>> td.nn.Unfold(2)(td.ones((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def __post_init__(self) -> None:
        above_zero(kernel_size=self.kernel_size)
        above_zero(dilation=self.dilation, stride=self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


class Fold(FunctionLayer, function=F.fold):
    """Columns as `Unfold` gives them, added into images of `output_size`.

    >>> td.nn.Fold(4, 2)(td.ones((1, 12, 9))).shape
    (1, 3, 4, 4)
    """

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def __post_init__(self) -> None:
        above_zero(output_size=self.output_size, kernel_size=self.kernel_size)
        above_zero(dilation=self.dilation, stride=self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


class _Border(Applied):
    """A border of the last dimensions: a number, or (before, after) for each of them,
    from the last one on."""

    mode: ClassVar[str] = "constant"
    rank: ClassVar[int] = 1

    def __init__(self, padding: Any) -> None:
        several = isinstance(padding, (tuple, list))
        self.padding = tuple(padding) if several else (padding,) * 2 * self.rank

    def forward(self, x: Any) -> Tensor:
        return F.pad(x, self.padding, self.mode, getattr(self, "value", None))

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantBorder(_Border):
    """A border of a value."""

    def __init__(self, padding: Any, value: Any) -> None:
        super().__init__(padding)
        self.value = value


class CircularPad1d(_Border, mode="circular"):
    """A border of the other end around the last dimension.

    >>> td.nn.CircularPad1d(1)(td.ones((1, 1, 2))).shape
    (1, 1, 4)
    """


class CircularPad2d(_Border, mode="circular", rank=2):
    """A border of the other end around the last two dimensions.

    >>> td.nn.CircularPad2d(1)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class CircularPad3d(_Border, mode="circular", rank=3):
    """A border of the other end around the last three dimensions.

    >>> td.nn.CircularPad3d(1)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """


class ConstantPad1d(_ConstantBorder):
    """A border of a value around the last dimension.

    >>> td.nn.ConstantPad1d(1, 5.0)(td.ones((1, 1, 2))).shape
    (1, 1, 4)
    """


class ConstantPad2d(_ConstantBorder, rank=2):
    """A border of a value around the last two dimensions.

    >>> td.nn.ConstantPad2d(1, 5.0)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class ConstantPad3d(_ConstantBorder, rank=3):
    """A border of a value around the last three dimensions.

    >>> td.nn.ConstantPad3d(1, 5.0)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """


class ReflectionPad1d(_Border, mode="reflect"):
    """A border of the elements mirrored around the last dimension.

    >>> td.nn.ReflectionPad1d(1)(td.ones((1, 1, 2))).shape
    (1, 1, 4)
    """


class ReflectionPad2d(_Border, mode="reflect", rank=2):
    """A border of the elements mirrored around the last two dimensions.

    >>> td.nn.ReflectionPad2d(1)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class ReflectionPad3d(_Border, mode="reflect", rank=3):
    """A border of the elements mirrored around the last three dimensions.

    >>> td.nn.ReflectionPad3d(1)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """


class ReplicationPad1d(_Border, mode="replicate"):
    """A border of the outer elements around the last dimension.

    >>> td.nn.ReplicationPad1d(1)(td.ones((1, 1, 2))).shape
    (1, 1, 4)
    """


class ReplicationPad2d(_Border, mode="replicate", rank=2):
    """A border of the outer elements around the last two dimensions.

    >>> td.nn.ReplicationPad2d(1)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class ReplicationPad3d(_Border, mode="replicate", rank=3):
    """A border of the outer elements around the last three dimensions.

    >>> td.nn.ReplicationPad3d(1)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """


class ZeroPad1d(_Border):
    """A border of zeros around the last dimension.

    >>> td.nn.ZeroPad1d(1)(td.ones((1, 1, 2))).shape
    (1, 1, 4)
    """


class ZeroPad2d(_Border, rank=2):
    """A border of zeros around the last two dimensions.

    >>> td.nn.ZeroPad2d(1)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class ZeroPad3d(_Border, rank=3):
    """A border of zeros around the last three dimensions.

    >>> td.nn.ZeroPad3d(1)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """
