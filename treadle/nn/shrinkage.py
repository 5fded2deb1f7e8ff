"""Activations that take small elements to 0, and softmax of other kinds."""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.module import Module

__all__ = [
    "Hardshrink",
    "RReLU",
    "Softmax2d",
    "Softmin",
    "Softshrink",
    "Tanhshrink",
    "Threshold",
]


class Tanhshrink(Module):
    """x - tanh(x).

    >>> f"{float(td.nn.Tanhshrink()(1.0)):.4f}"
    '0.2384'
    """

    def forward(self, x: Any) -> Tensor:
        return F.tanhshrink(x)


class Hardshrink(Module):
    """x where it is beyond [-lambd, lambd], else 0.

    >>> td.nn.Hardshrink()([-1.0, 0.25]).tolist()
    [-1.0, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Any) -> Tensor:
        return F.hardshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}"


class Softshrink(Module):
    """x brought nearer to 0 by lambd, 0 within [-lambd, lambd].

    >>> td.nn.Softshrink()([-1.0, 0.25]).tolist()
    [-0.5, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Any) -> Tensor:
        return F.softshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}"


class Softmin(Module):
    """softmax(-x) along `dim`.

    >>> td.nn.Softmin()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return F.softmin(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """softmax over the channels of (n, channels, height, width).

    >>> td.nn.Softmax2d()(td.zeros((1, 2, 1, 1))).ravel().tolist()
    [0.5, 0.5]
    """

    def forward(self, x: Any) -> Tensor:
        return F.softmax(x, -3)


class Threshold(Module):
    """x where it is above the threshold, else `value`.

    >>> td.nn.Threshold(1.0, -1.0)([0.5, 2.0]).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Any) -> Tensor:
        return F.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class RReLU(Module):
    """LeakyReLU with slopes drawn from [lower, upper] in training. Xu et al. 2015.

    >>> td.nn.RReLU(0.25, 0.75).eval()([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    def __init__(
        self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False
    ) -> None:
        self.lower = lower
        self.upper = upper

    def forward(self, x: Any) -> Tensor:
        return F.rrelu(x, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"
