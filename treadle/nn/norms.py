"""Normalizations by statistics, of channels and of vectors, under torch's names."""

from __future__ import annotations

import math
from typing import Any

from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.cast import as_float
from treadle.ops.flow import stop_gradient
from treadle.ops.naming import by_role
from treadle.ops.normalization import batch_norm as channel_norm
from treadle.ops.normalization import instance_norm as plane_norm
from treadle.ops.normalization import local_response_norm
from treadle.ops.normalization import normalize as by_length
from treadle.ops.norms import norm

__all__ = [
    "batch_norm",
    "instance_norm",
    "local_response_norm",
    "normalize",
]


def normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|, eps) with the norm of order p along `dim`.

    >>> normalize([[3.0, 1.0]], p=1.0).tolist()
    [[0.75, 0.25]]
    """
    if p == 2:
        return by_length(x, dim, eps)
    node = as_float(x)
    return node / functions.maximum(norm(node, p, dim, keepdims=True), eps)


@by_role()
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, a number for each channel.

    By the running statistics; in `training` by those of the batch, which go into
    running ones that are Variables with a share of `momentum`.

    >>> batch_norm([[3.0]], [1.0], [4.0], eps=0.0).tolist()
    [[1.0]]
    """
    if not training:
        return channel_norm(x, running_mean, running_var, weight, bias, eps=eps)
    node = as_float(x)
    axes = (0, *range(2, node.ndim))
    count = math.prod(node.shape[k] for k in axes)
    var = functions.var(node, axes) * (count / max(count - 1, 1))
    _follow((running_mean, running_var), (functions.mean(node, axes), var), momentum)
    return channel_norm(node, weight=weight, bias=bias, eps=eps)


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample by its own statistics, or by the running ones.

    Running statistics are read without `use_input_stats`; else those that are Variables
    take in the samples' mean statistics with a share of `momentum`.

    >>> instance_norm([[[1.0, 3.0]]], eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    node = as_float(x)
    space = tuple(range(2, node.ndim))
    means = functions.mean(node, space), functions.var(node, space, correction=1)
    _follow((running_mean, running_var), means, momentum)
    return plane_norm(node, weight, bias, eps)


def _follow(
    running: tuple[Any, Any], statistics: tuple[Tensor, Tensor], momentum: float
) -> None:
    """Move running statistics that are Variables a part toward those of a batch; of a
    sample's own ones toward their mean."""
    for old, new in zip(running, statistics, strict=True):
        if isinstance(old, Variable):
            new = stop_gradient(functions.mean(new, 0) if new.ndim == 2 else new)
            old.assign(old + (new - old) * momentum)
