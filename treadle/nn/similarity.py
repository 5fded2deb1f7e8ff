"""Layers that compare vectors, and channels with those beside them."""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.linear import above_zero
from treadle.nn.module import Module

__all__ = [
    "CosineSimilarity",
    "LocalResponseNorm",
    "PairwiseDistance",
]


class CosineSimilarity(Module):
    """x·y / (|x| |y|) along `dim`.

    >>> f"{float(td.nn.CosineSimilarity()([[1.0, 0.0]], [[3.0, 4.0]])[0]):.1f}"
    '0.6'
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of order p of x - y + eps along the last dimension.

    >>> f"{float(td.nn.PairwiseDistance()([3.0, 4.0], [0.0, 0.0])):.3f}"
    '5.000'
    """

    def __init__(
        self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> None:
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


class LocalResponseNorm(Module):
    """x / (k + alpha mean(x²))^beta, the mean over channels. Krizhevsky et al. 2012.

    >>> td.nn.LocalResponseNorm(1, 0.75, 1.0)([[2.0, 2.0]]).tolist()
    [[0.5, 0.5]]
    """

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> None:
        above_zero(size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Any) -> Tensor:
        return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
