"""Layers that drop or disturb values in training and pass them on in use."""

from __future__ import annotations

from dataclasses import InitVar

from treadle.base.errors import ArgumentError
from treadle.nn import functional as F
from treadle.nn.applied import TrainedDifferently
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


class _Dropping(TrainedDifferently):
    """A probability of dropping, kept as a number."""

    p: float = 0.5
    inplace: InitVar[bool] = False

    def __post_init__(self, inplace: bool) -> None:
        if not 0.0 <= self.p <= 1.0:
            raise ArgumentError(f"a probability is from 0 to 1, got {self.p}")


class Dropout(_Dropping, function=F.dropout):
    """In training each element is 0 with probability p, else x / (1 - p).

    Srivastava et al., Dropout, 2014.

    >>> td.nn.Dropout(0.5).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """


class _ChannelDropout(_Dropping, function=F.channel_dropout):
    """Whole channels of (n, channels, ...) dropped. Tompson et al. 2015."""


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


class AlphaDropout(_Dropping, function=F.alpha_dropout):
    """Dropout that keeps the mean 0 and variance 1 of SELU. Klambauer et al. 2017.

    >>> td.nn.AlphaDropout(0.5).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """


class GaussianDropout(_Dropping, function=gaussian_dropout):
    """In training x times normal(1, sqrt(p / (1 - p))). Srivastava et al. 2014.

    >>> td.nn.GaussianDropout(0.5)(td.ones(3)).shape
    (3,)
    """


class GaussianNoise(TrainedDifferently, function=gaussian_noise):
    """In training x plus normal(0, std).

    >>> td.nn.GaussianNoise(0.1).eval()([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    std: float = 0.1
