"""Distances and similarities of vectors under torch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.ops import distance
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.norms import norm
from treadle.ops.pick import take
from treadle.ops.rearrange import broadcast_arrays

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x·y / (|x| |y|) along `dim`; norms below `eps` count as `eps`.

    >>> f"{float(cosine_similarity([[1.0, 0.0]], [[3.0, 4.0]])[0]):.1f}"
    '0.6'
    """
    a, b = broadcast_arrays(x1, x2)
    return distance.cosine_similarity(a, b, dim, eps)


@carried_wide
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The norm of order p of x - y + eps along the last dimension.

    >>> f"{float(pairwise_distance([3.0, 4.0], [0.0, 0.0])):.3f}"
    '5.000'
    """
    return norm(as_float(x1) - as_tensor(x2) + eps, p, -1, keepdims=keepdim)


@carried_wide
def pdist(x: Any, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows i < j of x[n, width], row by row.

    >>> pdist([[0.0], [1.0], [3.0]]).tolist()
    [1.0, 3.0, 2.0]
    """
    node = as_float(x)
    first, second = np.triu_indices(node.type.shape[0], 1)
    return norm(take(node, first, 0) - take(node, second, 0), p, -1)
