"""Layers that put values back to where a pool took them, and pools at drawn places."""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import FunctionLayer
from treadle.nn.pooling import Windowed

__all__ = [
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxUnpool(Windowed):
    """Values put back to where a MaxPool of these settings found them, among zeros."""

    def forward(  # type: ignore[override]
        self, x: Any, indices: Any, output_size: Any = None
    ) -> Tensor:
        settings = self.kernel_size, self.stride, self.padding
        return self.function(x, indices, *settings, output_size)


class MaxUnpool1d(_MaxUnpool, function=F.max_unpool1d):
    """The values of a MaxPool1d at the places that it tells, among zeros.

    >>> pool = td.nn.MaxPool1d(2, return_indices=True)
    >>> td.nn.MaxUnpool1d(2)(*pool([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[0.0, 3.0, 2.0, 0.0]]]
    """


class MaxUnpool2d(_MaxUnpool, function=F.max_unpool2d):
    """The values of a MaxPool2d at the places that it tells, among zeros.

    >>> td.nn.MaxUnpool2d(2)([[[[7.0]]]], [[[[2]]]]).tolist()
    [[[[0.0, 0.0], [7.0, 0.0]]]]
    """


class MaxUnpool3d(_MaxUnpool, function=F.max_unpool3d):
    """The values of a MaxPool3d at the places that it tells, among zeros.

    >>> td.nn.MaxUnpool3d((1, 1, 3))([[[[[7.0]]]]], [[[[[2]]]]]).tolist()
    [[[[[0.0, 0.0, 7.0]]]]]
    """


class _FractionalMaxPool(FunctionLayer):
    """The largest element of windows at drawn places; `output_size` of them, or
    `output_ratio` times the extents."""

    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Any = None
    extents, shown = "kernel_size", "kernel_size output_size"


class FractionalMaxPool2d(_FractionalMaxPool, function=F.fractional_max_pool2d):
    """The largest element of drawn windows of the last two dimensions. Graham 2014.

    >>> td.nn.FractionalMaxPool2d(2, output_ratio=0.7)(td.ones((1, 1, 5, 5))).shape
    (1, 1, 3, 3)
    """


class FractionalMaxPool3d(_FractionalMaxPool, function=F.fractional_max_pool3d):
    """The largest element of drawn windows of the last three dimensions.

    >>> td.nn.FractionalMaxPool3d(2, 3)(td.ones((1, 1, 5, 5, 5))).shape
    (1, 1, 3, 3, 3)
    """
