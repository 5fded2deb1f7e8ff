"""Activations made of others: rectifiers with slopes, cutoffs and gates."""

from __future__ import annotations

from typing import Any

from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.activation import sigmoid
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.naming import by_role

__all__ = [
    "celu",
    "clipped_relu",
    "elu",
    "gelu_tanh",
    "glu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "prelu",
    "relu6",
    "swish",
    "tanh_shrink",
    "thresholded_relu",
    "trelu",
]


def relu6(x: Any) -> Tensor:
    """min(max(x, 0), 6).

    >>> td.relu6([-1.0, 3.0, 9.0]).tolist()
    [0.0, 3.0, 6.0]
    """
    return clipped_relu(x, 6.0)


def clipped_relu(x: Any, cutoff: Any = 20.0) -> Tensor:
    """min(max(x, 0), cutoff).

    >>> td.clipped_relu([-1.0, 3.0], 2.0).tolist()
    [0.0, 2.0]
    """
    return between(as_float(x), 0, cutoff)


def between(x: Tensor, low: Any, high: Any) -> Tensor:
    """x between two ends, where its derivative is 0, as torch's; `clip` has it 1."""
    y: Tensor = functions.where(x <= low, low, functions.where(x >= high, high, x))
    return y


@recorded
def leaky_relu(x: Any, slope: Any = 0.01) -> Tensor:
    """x where it is positive, else slope x; slope is a number or a tensor (PReLU).

    >>> td.leaky_relu([-1.0, 2.0], 0.5).tolist()
    [-0.5, 2.0]
    """
    node = as_float(x)
    return functions.where(node > 0, node, node * slope)


@by_role()
def prelu(x: Any, slope: Any) -> Tensor:
    """leaky_relu with a learned slope, one number or one a channel (dimension 1).

    >>> td.prelu([[-1.0, -1.0]], td.asarray([0.5, 0.25])).tolist()
    [[-0.5, -0.25]]
    """
    node, weight = as_float(x), as_tensor(slope)
    if weight.type.size > 1 and node.type.ndim > 2:
        weight = functions.reshape(weight, (-1, *(1,) * (node.type.ndim - 2)))
    return leaky_relu(node, weight)


def thresholded_relu(x: Any, threshold: Any = 1.0) -> Tensor:
    """x where it is above the threshold, else 0.

    >>> td.thresholded_relu([0.5, 2.0]).tolist()
    [0.0, 2.0]
    """
    node = as_float(x)
    return functions.where(node <= threshold, 0, node)  # NaN stays NaN


@recorded
def elu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x where it is positive, else alpha (e**x - 1) (Clevert et al., 2015).

    >>> [f"{v:.4f}" for v in td.elu([-1.0, 2.0]).tolist()]
    ['-0.6321', '2.0000']
    """
    node = as_float(x)
    below = functions.expm1(functions.minimum(node, 0)) * alpha
    return functions.where(node > 0, node, below)


@carried_wide
def celu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x where it is positive, else alpha (e**(x / alpha) - 1) (Barron, 2017).

    >>> [f"{v:.4f}" for v in td.celu([-1.0, 2.0], 2.0).tolist()]
    ['-0.7869', '2.0000']
    """
    return elu_scaled(as_float(x), alpha)


def elu_scaled(node: Tensor, alpha: Any) -> Tensor:
    """celu of a float tensor."""
    below = functions.expm1(functions.minimum(node, 0) / alpha) * alpha
    return functions.where(node > 0, node, below)


@provide
def gelu_tanh(x: Any) -> Tensor:
    """gelu by its tanh approximation, within 5e-4 of the exact one.

    >>> [f"{v:.4f}" for v in td.gelu_tanh([-1.0, 2.0]).tolist()]
    ['-0.1588', '1.9546']
    """
    node = as_float(x)
    near = functions.clip(node, -10.0, 10.0)  # tanh is 1 beyond: no overflow in x**3
    inner = (near + near * near * near * 0.044715) * 0.7978845608028654
    return node * 0.5 * (functions.tanh(inner) + 1.0)


def swish(x: Any, beta: Any = 1.0) -> Tensor:
    """x sigmoid(beta x) (Ramachandran et al., 2017).

    >>> [f"{v:.4f}" for v in td.swish([-1.0, 2.0]).tolist()]
    ['-0.2689', '1.7616']
    """
    node = as_float(x)
    return node * sigmoid(node * beta)


def tanh_shrink(x: Any) -> Tensor:
    """x - tanh(x).

    >>> [f"{v:.4f}" for v in td.tanh_shrink([-1.0, 2.0]).tolist()]
    ['-0.2384', '1.0360']
    """
    node = as_float(x)
    return node - functions.tanh(node)


def hard_sigmoid(x: Any) -> Tensor:
    """clip(x / 6 + 1/2, 0, 1).

    >>> td.hard_sigmoid([-9.0, 0.0, 9.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return between(as_float(x) * (1 / 6) + 0.5, 0.0, 1.0)


def hard_swish(x: Any) -> Tensor:
    """x hard_sigmoid(x) (Howard et al., 2019).

    >>> td.hard_swish([3.0, 6.0]).tolist()
    [3.0, 6.0]
    """
    node = as_float(x)
    return node * hard_sigmoid(node)


def trelu(x: Any, threshold: Any = 1.0) -> Tensor:
    """Another name of thresholded_relu.

    >>> td.trelu([0.5, 2.0]).tolist()
    [0.0, 2.0]
    """
    return thresholded_relu(x, threshold)


def glu(x: Any, axis: Any = -1) -> Tensor:
    """The first half of x along an axis times the sigmoid of the second half.

    >>> td.glu([3.0, 0.0]).tolist()
    [1.5]
    """
    a, b = functions.split(as_float(x), 2, axis)
    return a * sigmoid(b)
