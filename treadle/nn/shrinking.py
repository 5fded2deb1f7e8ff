"""Functions that take small elements to 0, and draws that choose a class."""

from __future__ import annotations

from typing import Any

from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float
from treadle.ops.flow import stop_gradient
from treadle.ops.pick import one_hot
from treadle.ops.random import gumbel, uniform
from treadle.ops.rectifier import leaky_relu
from treadle.ops.select import clip, where
from treadle.ops.softmax import softmax

__all__ = [
    "gumbel_softmax",
    "hardshrink",
    "rrelu",
    "softshrink",
    "threshold",
]


def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x where it is beyond [-lambd, lambd], else 0.

    >>> hardshrink([-1.0, 0.25]).tolist()
    [-1.0, 0.0]
    """
    node = as_float(x)
    inside = functions.logical_and(node >= -lambd, node <= lambd)
    return where(inside, 0, node)


def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x brought nearer to 0 by lambd, 0 within [-lambd, lambd].

    >>> softshrink([-1.0, 0.25]).tolist()
    [-0.5, 0.0]
    """
    node = as_float(x)
    return node - clip(node, -lambd, lambd)


def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else `value`.

    >>> threshold([0.5, 2.0], 1.0, -1.0).tolist()
    [-1.0, 2.0]
    """
    node = as_tensor(x)
    return where(node <= threshold, value, node)


def rrelu(
    x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """LeakyReLU with slopes drawn from [lower, upper] in training, else their mean.

    Xu et al., Empirical evaluation of rectified activations, 2015.

    >>> rrelu([-2.0, 2.0], 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    node = as_float(x)
    if not training:
        return leaky_relu(node, (lower + upper) / 2)
    return where(node >= 0, node, node * uniform(node.shape, lower, upper, node.dtype))


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): a draw of a class that has a gradient.

    `hard` gives 1 at the largest and 0 elsewhere, with the gradient of the soft one;
    `eps` is taken for torch's sake. Jang, Gu and Poole 2017.

    >>> float(gumbel_softmax([0.0, 1.0], hard=True).sum())
    1.0
    """
    node = as_float(logits)
    y = softmax((node + gumbel(node.shape, node.dtype)) / tau, dim)
    if not hard:
        return y
    hot = one_hot(functions.argmax(y, dim), y.shape[dim], y.dtype)
    return y + stop_gradient(functions.moveaxis(hot, -1, dim) - y)
