"""Pools over windows, grids of bins and whole planes, and larger images: a class of few
lines for each of torch's names.
"""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import FunctionLayer
from treadle.nn.linear import above_zero, from_zero
from treadle.nn.module import Module
from treadle.ops.pooling import (
    adaptive_avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Windowed(FunctionLayer):
    """A function of windows, which begin a kernel apart where there is no stride."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    shown = "kernel_size stride padding"

    def __post_init__(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride
        above_zero(kernel_size=self.kernel_size, stride=self.stride)
        from_zero(padding=self.padding)


class _MaxPool(Windowed):
    """The largest element of each window of as many of the last dimensions as the name
    says; with `return_indices` its place, too.

    >>> td.nn.MaxPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 3)
    >>> td.nn.MaxPool2d(2)(td.ones((1, 3, 6, 4))).shape
    (1, 3, 3, 2)
    """

    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False
    shown = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(dilation=self.dilation)

    def forward(self, x: Any) -> Any:
        sliding = self.stride, self.padding, self.dilation
        return self.function(
            x, self.kernel_size, *sliding, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPool, function=max_pool1d): ...


class MaxPool2d(_MaxPool, function=max_pool2d): ...


class MaxPool3d(_MaxPool, function=max_pool3d): ...


class _AvgPool(Windowed):
    """The mean of each window of as many of the last dimensions as the name says;
    `count_include_pad` counts padding as zeros.

    >>> td.nn.AvgPool1d(2)([[[1.0, 3.0, 5.0, 7.0]]]).tolist()
    [[[2.0, 6.0]]]
    >>> td.nn.AvgPool2d(2)([[[[1.0, 3.0], [5.0, 7.0]]]]).item()
    4.0
    """

    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None


class AvgPool1d(_AvgPool, function=avg_pool1d): ...


class AvgPool2d(_AvgPool, function=avg_pool2d): ...


class AvgPool3d(_AvgPool, function=avg_pool3d): ...


class AdaptiveAvgPool(FunctionLayer, function=adaptive_avg_pool):
    """The means of a grid of `output_size` cells over all dimensions after the second.

    >>> td.nn.AdaptiveAvgPool((1, 2))(td.ones((1, 3, 6, 4))).shape
    (1, 3, 1, 2)
    """

    output_size: Any
    extents = "output_size"


class GlobalAvgPool(FunctionLayer, function=global_avg_pool):
    """The mean over all dimensions after the second.

    >>> td.nn.GlobalAvgPool()(td.ones((2, 3, 4, 4))).shape
    (2, 3)
    """


class GlobalMaxPool(FunctionLayer, function=global_max_pool):
    """The largest element over all dimensions after the second.

    >>> td.nn.GlobalMaxPool()([[[1.0, 3.0]]]).tolist()
    [[3.0]]
    """


class Upsample(Module):
    """Larger images: `size` elements in the dimensions after the second, or
    `scale_factor` times as many, by one of the modes of `td.upsample`.

    >>> td.nn.Upsample(scale_factor=2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        if size is not None:
            above_zero(size=size)
        self.scale_factor, self.size = scale_factor, size
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Any) -> Tensor:
        settings = self.mode, self.align_corners, self.recompute_scale_factor
        return F.interpolate(x, self.size, self.scale_factor, *settings)

    def extra_repr(self) -> str:
        by = "scale_factor" if self.size is None else "size"
        return f"{by}={getattr(self, by)}, mode={self.mode!r}"


class _Adaptive(FunctionLayer):
    """A pool over a grid of bins, `output_size` of them; None leaves an extent."""

    output_size: Any

    def __post_init__(self) -> None:
        several = isinstance(self.output_size, (tuple, list))
        asked = self.output_size if several else (self.output_size,)
        above_zero(output_size=tuple(n for n in asked if n is not None))


class AdaptiveAvgPool1d(_Adaptive, function=F.adaptive_avg_pool1d):
    """The means of a grid of bins of the last dimension.

    >>> td.nn.AdaptiveAvgPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 2)
    """


class AdaptiveAvgPool2d(_Adaptive, function=F.adaptive_avg_pool2d):
    """The means of a grid of bins of the last two dimensions.

    >>> td.nn.AdaptiveAvgPool2d(2)(td.ones((1, 3, 6, 6))).shape
    (1, 3, 2, 2)
    """


class AdaptiveAvgPool3d(_Adaptive, function=F.adaptive_avg_pool3d):
    """The means of a grid of bins of the last three dimensions.

    >>> td.nn.AdaptiveAvgPool3d(2)(td.ones((1, 3, 6, 6, 6))).shape
    (1, 3, 2, 2, 2)
    """


class _AdaptiveMax(_Adaptive):
    """The largest elements of a grid of bins, `output_size` of them, of as many of the
    last dimensions as the name says; with `return_indices` their places, too.

    >>> td.nn.AdaptiveMaxPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 2)
    >>> td.nn.AdaptiveMaxPool2d(2)(td.ones((1, 3, 6, 6))).shape
    (1, 3, 2, 2)
    """

    return_indices: bool = False


class AdaptiveMaxPool1d(_AdaptiveMax, function=F.adaptive_max_pool1d): ...


class AdaptiveMaxPool2d(_AdaptiveMax, function=F.adaptive_max_pool2d): ...


class AdaptiveMaxPool3d(_AdaptiveMax, function=F.adaptive_max_pool3d): ...


class _NormPool(FunctionLayer):
    """(sum of x^p)^(1/p) of each window of as many of the last dimensions as the name
    says, p the `norm_type`.

    >>> td.nn.LPPool1d(2, 2)([[[3.0, 4.0]]]).item()
    5.0
    >>> td.nn.LPPool3d(2, (1, 1, 2))([[[[[3.0, 4.0]]]]]).item()
    5.0
    """

    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False
    extents, shown = "kernel_size", "norm_type kernel_size"


class LPPool1d(_NormPool, function=F.lp_pool1d): ...


class LPPool2d(_NormPool, function=F.lp_pool2d): ...


class LPPool3d(_NormPool, function=F.lp_pool3d): ...


class _Upsampling(FunctionLayer):
    """A larger image, of a `size` or by a `scale_factor`."""

    size: Any = None
    scale_factor: Any = None

    def __post_init__(self) -> None:
        if self.size is not None:
            above_zero(size=self.size)

    def extra_repr(self) -> str:
        return ""


class UpsamplingBilinear2d(_Upsampling, function=F.upsample_bilinear):
    """Lines drawn between elements, the outer ones at the corners.

    >>> td.nn.UpsamplingBilinear2d(scale_factor=2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """


class UpsamplingNearest2d(_Upsampling, function=F.upsample_nearest):
    """The nearest element at each place of a larger image.

    >>> td.nn.UpsamplingNearest2d(scale_factor=2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """
