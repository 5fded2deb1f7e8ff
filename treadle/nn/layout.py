"""Layers of movements: shapes, shuffles, windows as columns, borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import Applied, FunctionLayer
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
    extents = "upscale_factor"


class PixelUnshuffle(FunctionLayer, function=F.pixel_unshuffle):
    """x[..., c, h r, w r] as [..., c r², h, w].

    >>> td.nn.PixelUnshuffle(2)(td.ones((1, 1, 4, 6))).shape
    (1, 4, 2, 3)
    """

    downscale_factor: int
    extents = "downscale_factor"


class ChannelShuffle(FunctionLayer, function=F.channel_shuffle):
    """x[n, c, ...] with the channels of groups by turns. Zhang et al. 2018.

    >>> td.nn.ChannelShuffle(2)([[[1.0], [2.0], [3.0], [4.0]]]).ravel().tolist()
    [1.0, 3.0, 2.0, 4.0]
    """

    groups: int
    extents = "groups"


class Unfold(FunctionLayer, function=F.unfold):
    """The windows of x[n, c, *spatial] as columns [n, c * kernel, windows].

    >>> td.nn.Unfold(2)(td.ones((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
    extents, shown = "kernel_size dilation stride", "kernel_size stride"


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
    extents = "output_size kernel_size dilation stride"
    shown = "kernel_size stride"


class _Border(Applied):
    """A border around as many of the last dimensions as the name says: a number, or
    (before, after) for each of them, from the last one on.

    Circular ones have elements of the other end, constant ones a value, reflected ones
    the elements mirrored, replicated ones the outer elements, and the others zeros.

    >>> x = td.asarray([[[1.0, 2.0, 3.0]]])
    >>> td.nn.CircularPad1d(1)(x).tolist(), td.nn.ConstantPad1d(1, 5.0)(x).tolist()
    ([[[3.0, 1.0, 2.0, 3.0, 1.0]]], [[[5.0, 1.0, 2.0, 3.0, 5.0]]])
    >>> td.nn.ReflectionPad1d(1)(x).tolist(), td.nn.ReplicationPad1d(1)(x).tolist()
    ([[[2.0, 1.0, 2.0, 3.0, 2.0]]], [[[1.0, 1.0, 2.0, 3.0, 3.0]]])
    >>> td.nn.ZeroPad2d((1, 0))(td.ones((1, 1, 2, 2))).shape
    (1, 1, 2, 3)
    """

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
    def __init__(self, padding: Any, value: Any) -> None:
        super().__init__(padding)
        self.value = value


class CircularPad1d(_Border, mode="circular"): ...


class CircularPad2d(_Border, mode="circular", rank=2): ...


class CircularPad3d(_Border, mode="circular", rank=3): ...


class ConstantPad1d(_ConstantBorder): ...


class ConstantPad2d(_ConstantBorder, rank=2): ...


class ConstantPad3d(_ConstantBorder, rank=3): ...


class ReflectionPad1d(_Border, mode="reflect"): ...


class ReflectionPad2d(_Border, mode="reflect", rank=2): ...


class ReflectionPad3d(_Border, mode="reflect", rank=3): ...


class ReplicationPad1d(_Border, mode="replicate"): ...


class ReplicationPad2d(_Border, mode="replicate", rank=2): ...


class ReplicationPad3d(_Border, mode="replicate", rank=3): ...


class ZeroPad1d(_Border): ...


class ZeroPad2d(_Border, rank=2): ...


class ZeroPad3d(_Border, rank=3): ...
