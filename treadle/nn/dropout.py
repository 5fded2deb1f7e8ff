"""Layers that drop or disturb values in training and pass them on in use."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.module import Module
from treadle.ops.dropout import gaussian_dropout, gaussian_noise

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "GaussianDropout",
    "GaussianNoise",
]


class _Dropping(Module):
    """A probability of dropping, kept as a number."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"a probability is from 0 to 1, got {p}")
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout(_Dropping):
    """In training each element is 0 with probability p, else x / (1 - p).

    Srivastava et al., Dropout, 2014.

    >>> td.nn.Dropout(0.5).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def forward(self, x: Any) -> Tensor:
        return F.dropout(x, self.p, self.training)


class _ChannelDropout(_Dropping):
    """Whole channels of (n, channels, ...) dropped. Tompson et al. 2015."""

    def forward(self, x: Any) -> Tensor:
        return F.channel_dropout(x, self.p, self.training)


class Dropout1d(_ChannelDropout):
    """Whole channels of (n, channels, length) dropped.

    >>> td.nn.Dropout1d(1.0)(td.ones((1, 1, 2))).tolist()
    [[[0.0, 0.0]]]
    """


class Dropout2d(_ChannelDropout):
    """Whole channels of (n, channels, height, width) dropped.

    >>> td.nn.Dropout2d(1.0)(td.ones((1, 1, 1, 2))).tolist()
    [[[[0.0, 0.0]]]]
    """


class Dropout3d(_ChannelDropout):
    """Whole channels of (n, channels, depth, height, width) dropped.

    >>> td.nn.Dropout3d(0.5).eval()(td.ones((1, 1, 1, 1, 1))).item()
    1.0
    """


class AlphaDropout(_Dropping):
    """Dropout that keeps the mean 0 and variance 1 of SELU. Klambauer et al. 2017.

    >>> td.nn.AlphaDropout(0.5).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def forward(self, x: Any) -> Tensor:
        return F.alpha_dropout(x, self.p, self.training)


class GaussianDropout(_Dropping):
    """In training x times normal(1, sqrt(p / (1 - p))). Srivastava et al. 2014.

    >>> td.nn.GaussianDropout(0.5)(td.ones(3)).shape
    (3,)
    """

    def forward(self, x: Any) -> Tensor:
        return gaussian_dropout(x, self.p, self.training)


class GaussianNoise(Module):
    """In training x plus normal(0, std).

    >>> td.nn.GaussianNoise(0.1).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def __init__(self, std: float = 0.1) -> None:
        self.std = std

    def forward(self, x: Any) -> Tensor:
        return gaussian_noise(x, self.std, self.training)

    def extra_repr(self) -> str:
        return f"std={self.std}"
