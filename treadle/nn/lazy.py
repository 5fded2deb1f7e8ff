"""Layers that learn the number of their inputs from the first one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.nn.applied import Applied
from treadle.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from treadle.nn.linear import Linear
from treadle.nn.module import Module
from treadle.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class _Lazy(Applied):
    """A layer of the kind that the name says, whose number of inputs (`in_features`,
    `in_channels`, `num_features`) is that of its first input.

    >>> td.nn.LazyLinear(2)(td.ones((5, 3))).shape
    (5, 2)
    >>> td.nn.LazyConv2d(4, 3)(td.ones((1, 3, 5, 5))).shape
    (1, 4, 3, 3)
    >>> td.nn.LazyConvTranspose1d(4, 3)(td.ones((1, 3, 5))).shape
    (1, 4, 7)
    >>> td.nn.LazyBatchNorm3d()(td.ones((1, 3, 5, 5, 5))).shape
    (1, 3, 5, 5, 5)
    >>> td.nn.LazyInstanceNorm1d()(td.ones((1, 3, 5))).shape
    (1, 3, 5)
    """

    kind: ClassVar[Callable[..., Module]]
    axis: ClassVar[int] = -1  # of the inputs

    def __init__(self, *settings: Any, **named: Any) -> None:
        self._arguments = settings, named

    def forward(self, x: Any, *more: Any, **others: Any) -> Any:
        settings, named = self._arguments
        node = as_tensor(x)
        if not -node.ndim <= self.axis < node.ndim:
            error = ShapeError(f"there is no axis {self.axis}, along which inputs are")
            raise error.located(type(self).__name__, repr(node.type), node.line)
        layer = self.kind(node.shape[self.axis], *settings, **named)
        del self._arguments
        self.__class__ = self.kind  # type: ignore[assignment]
        self._named.update(layer._named)
        for name, value in vars(layer).items():
            if name not in vars(self):
                setattr(self, name, value)  # which names parameters by their place
        return self.forward(x, *more, **others)

    def extra_repr(self) -> str:
        settings, named = self._arguments
        return ", ".join([*map(repr, settings), *[f"{k}={named[k]}" for k in named]])


class LazyLinear(_Lazy, kind=Linear): ...


class LazyConv1d(_Lazy, kind=Conv1d, axis=-2): ...


class LazyConv2d(_Lazy, kind=Conv2d, axis=-3): ...


class LazyConv3d(_Lazy, kind=Conv3d, axis=-4): ...


class LazyConvTranspose1d(_Lazy, kind=ConvTranspose1d, axis=-2): ...


class LazyConvTranspose2d(_Lazy, kind=ConvTranspose2d, axis=-3): ...


class LazyConvTranspose3d(_Lazy, kind=ConvTranspose3d, axis=-4): ...


class LazyBatchNorm1d(_Lazy, kind=BatchNorm1d, axis=1): ...


class LazyBatchNorm2d(_Lazy, kind=BatchNorm2d, axis=1): ...


class LazyBatchNorm3d(_Lazy, kind=BatchNorm3d, axis=1): ...


class LazyInstanceNorm1d(_Lazy, kind=InstanceNorm1d, axis=-2): ...


class LazyInstanceNorm2d(_Lazy, kind=InstanceNorm2d, axis=-3): ...


class LazyInstanceNorm3d(_Lazy, kind=InstanceNorm3d, axis=-4): ...
