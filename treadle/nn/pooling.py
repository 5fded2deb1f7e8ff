"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from treadle.graph.tensor import Tensor
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
from treadle.ops.upsample import upsample

__all__ = [
    "AdaptiveAvgPool",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Upsample",
]


class _MaxPool(Module):
    """The largest element of each window."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        above_zero(kernel_size=kernel_size, stride=self.stride, dilation=dilation)
        from_zero(padding=padding)
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, x: Any) -> Tensor:
        return type(self).function(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of the last dimension.

    >>> td.nn.MaxPool1d(2)(td.ones((1, 3, 6))).shape
    (1, 3, 3)
    """

    function = staticmethod(max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window of the last two dimensions.

    >>> td.nn.MaxPool2d(2)(td.ones((1, 3, 6, 4))).shape
    (1, 3, 3, 2)
    """

    function = staticmethod(max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of each window of the last three dimensions.

    >>> td.nn.MaxPool3d(2)(td.ones((1, 1, 4, 4, 2))).shape
    (1, 1, 2, 2, 1)
    """

    function = staticmethod(max_pool3d)


class _AvgPool(Module):
    """The mean of each window; padding counts as zeros unless told otherwise."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        above_zero(kernel_size=kernel_size, stride=self.stride)
        from_zero(padding=padding)
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Any) -> Tensor:
        return type(self).function(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class AvgPool1d(_AvgPool):
    """The mean of each window of the last dimension.

    >>> td.nn.AvgPool1d(2)([[[1.0, 3.0, 5.0, 7.0]]]).tolist()
    [[[2.0, 6.0]]]
    """

    function = staticmethod(avg_pool1d)


class AvgPool2d(_AvgPool):
    """The mean of each window of the last two dimensions.

    >>> td.nn.AvgPool2d(2)([[[[1.0, 3.0], [5.0, 7.0]]]]).item()
    4.0
    """

    function = staticmethod(avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window of the last three dimensions.

    >>> td.nn.AvgPool3d(2)(td.ones((1, 1, 4, 4, 2))).shape
    (1, 1, 2, 2, 1)
    """

    function = staticmethod(avg_pool3d)


class AdaptiveAvgPool(Module):
    """The means of a grid of `output_size` cells over all dimensions after the second.

    >>> td.nn.AdaptiveAvgPool((1, 2))(td.ones((1, 3, 6, 4))).shape
    (1, 3, 1, 2)
    """

    def __init__(self, output_size: Any) -> None:
        above_zero(output_size=output_size)
        self.output_size = output_size

    def forward(self, x: Any) -> Tensor:
        return adaptive_avg_pool(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class GlobalAvgPool(Module):
    """The mean over all dimensions after the second.

    >>> td.nn.GlobalAvgPool()(td.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    def forward(self, x: Any) -> Tensor:
        return global_avg_pool(x)


class GlobalMaxPool(Module):
    """The largest element over all dimensions after the second.

    >>> td.nn.GlobalMaxPool()([[[1.0, 3.0]]]).tolist()
    [[3.0]]
    """

    def forward(self, x: Any) -> Tensor:
        return global_max_pool(x)


class Upsample(Module):
    """`scale_factor` times as many elements in the dimensions after the second, or as
    many as `size` says, by one of the modes of `td.upsample`.

    >>> td.nn.Upsample(2)(td.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    def __init__(
        self,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        *,
        size: Any = None,
    ) -> None:
        if size is not None:
            above_zero(size=size)
        self.scale_factor, self.size = scale_factor, size
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Any) -> Tensor:
        corners, size = self.align_corners, self.size
        return upsample(
            x, self.scale_factor, self.mode, align_corners=corners, size=size
        )

    def extra_repr(self) -> str:
        by = "scale_factor" if self.size is None else "size"
        return f"{by}={getattr(self, by)}, mode={self.mode!r}"
