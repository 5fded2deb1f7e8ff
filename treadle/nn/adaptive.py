"""Pools over grids of bins, norms of windows, images in fixed sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.linear import above_zero
from treadle.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class _Adaptive(Module):
    """A pool over a grid of bins, `output_size` of them; None leaves an extent."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        several = isinstance(output_size, (tuple, list))
        asked = output_size if several else (output_size,)
        above_zero(output_size=tuple(n for n in asked if n is not None))
        self.output_size = output_size

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """The means of a grid of bins of the last dimension.

    >>> td.nn.AdaptiveAvgPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 2)
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """The means of a grid of bins of the last two dimensions.

    >>> td.nn.AdaptiveAvgPool2d(2)(td.ones((1, 3, 6, 6))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """The means of a grid of bins of the last three dimensions.

    >>> td.nn.AdaptiveAvgPool3d(2)(td.ones((1, 3, 6, 6, 6))).shape
    (1, 3, 2, 2, 2)
    """

    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Adaptive):
    """The largest elements of a grid of bins of the last dimension.

    >>> td.nn.AdaptiveMaxPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 2)
    """

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    """The largest elements of a grid of bins of the last two dimensions.

    >>> td.nn.AdaptiveMaxPool2d(2)(td.ones((1, 3, 6, 6))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Adaptive):
    """The largest elements of a grid of bins of the last three dimensions.

    >>> td.nn.AdaptiveMaxPool3d(2)(td.ones((1, 3, 6, 6, 6))).shape
    (1, 3, 2, 2, 2)
    """

    function = staticmethod(F.adaptive_max_pool3d)


class _NormPool(Module):
    """(sum of x^p)^(1/p) of each window, p the `norm_type`."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> None:
        above_zero(kernel_size=kernel_size)
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, x: Any) -> Tensor:
        return type(self).function(
            x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}"


class LPPool1d(_NormPool):
    """(sum of x^p)^(1/p) of each window of the last dimension.

    >>> td.nn.LPPool1d(2, 2)([[[3.0, 4.0]]]).item()
    5.0
    """

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_NormPool):
    """(sum of x^p)^(1/p) of each window of the last two dimensions.

    >>> td.nn.LPPool2d(2, (1, 2))([[[[3.0, 4.0]]]]).item()
    5.0
    """

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_NormPool):
    """(sum of x^p)^(1/p) of each window of the last three dimensions.

    >>> td.nn.LPPool3d(2, (1, 1, 2))([[[[[3.0, 4.0]]]]]).item()
    5.0
    """

    function = staticmethod(F.lp_pool3d)


class _Upsampling(Module):
    """A larger image, of a `size` or by a `scale_factor`."""

    function: ClassVar[Any]

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        if size is not None:
            above_zero(size=size)
        self.size, self.scale_factor = size, scale_factor

    def forward(self, x: Any) -> Tensor:
        return self.function(x, self.size, self.scale_factor)


class UpsamplingBilinear2d(_Upsampling):
    """Lines drawn between elements, the outer ones at the corners.

    >>> td.nn.UpsamplingBilinear2d(scale_factor=2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    function = staticmethod(F.upsample_bilinear)


class UpsamplingNearest2d(_Upsampling):
    """The nearest element at each place of a larger image.

    >>> td.nn.UpsamplingNearest2d(scale_factor=2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    function = staticmethod(F.upsample_nearest)
