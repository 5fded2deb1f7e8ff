"""Losses as functions under torch's names, with a `reduction`."""

from __future__ import annotations

import math
from typing import Any

from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops import distance, loss
from treadle.ops import margin as margins
from treadle.ops.cast import carried_wide
from treadle.ops.ctc import ctc_loss
from treadle.ops.distance import pair, reduced
from treadle.ops.flow import stop_gradient
from treadle.ops.movement import broadcast_to
from treadle.ops.select import maximum, where

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def _weighted(values: Tensor, weight: Any, reduction: str, name: str) -> Tensor:
    """Values by the weights of the elements; the mean is by them."""
    weight = as_tensor(weight)
    if weight.shape != values.shape:
        raise ShapeError(f"weights {weight.type} of values {values.type}").located(name)
    return reduced(values * weight, reduction, name, weight)


def mse_loss(
    prediction: Any, target: Any, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """(prediction - target)²; `weight` has a number for each element, and the mean is
    by them.

    >>> float(mse_loss([1.0, 3.0], [1.0, 1.0]))
    2.0
    """
    if weight is None:
        return distance.mse_loss(prediction, target, reduction)
    values = distance.mse_loss(prediction, target, "none")
    return _weighted(values, weight, reduction, "mse_loss")


def l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """|prediction - target|, by weights as `mse_loss`.

    >>> float(l1_loss([1.0, 3.0], [1.0, 1.0]))
    1.0
    """
    if weight is None:
        return distance.l1_loss(prediction, target, reduction)
    values = distance.l1_loss(prediction, target, "none")
    return _weighted(values, weight, reduction, "l1_loss")


def huber_loss(
    prediction: Any,
    target: Any,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Any = None,
) -> Tensor:
    """d²/2 where |d| <= delta, else delta (|d| - delta/2). Huber 1964.

    `weight` multiplies the elements; the mean is of these products, as torch's.

    >>> float(huber_loss([3.0], [0.0]))
    2.5
    """
    if weight is None:
        return distance.huber_loss(prediction, target, delta, reduction)
    values = distance.huber_loss(prediction, target, delta, "none")
    return reduced(values * weight, reduction, "huber_loss")


def smooth_l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """The Huber loss with delta = beta, divided by beta. Girshick 2015.

    >>> float(smooth_l1_loss([3.0], [0.0], beta=2.0))
    2.0
    """
    return distance.smooth_l1_loss(prediction, target, beta, reduction)


def binary_cross_entropy(
    prediction: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)); the logarithms stop at -100, as torch's.

    `weight` multiplies the elements.

    >>> f"{float(binary_cross_entropy([0.5], [1.0])):.4f}"
    '0.6931'
    """
    if weight is None:
        return margins.binary_cross_entropy(prediction, target, reduction=reduction)
    values = margins.binary_cross_entropy(prediction, target, reduction="none")
    return reduced(values * weight, reduction, "binary_cross_entropy")


def binary_cross_entropy_with_logits(
    prediction: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """t log(1 + e^-x) + (1 - t) log(1 + e^x) of logits x.

    `weight` multiplies the elements, `pos_weight` their first term.

    >>> f"{float(binary_cross_entropy_with_logits([0.0], [1.0])):.4f}"
    '0.6931'
    """
    return margins.binary_cross_entropy_with_logits(
        prediction,
        target,
        weight=weight,
        positive_weight=pos_weight,
        reduction=reduction,
    )


@carried_wide
def poisson_nll_loss(
    prediction: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """e^x - t x for a log-rate x; x - t log(x + eps) for a rate.

    `full` adds Stirling's approximation of log(t!) where t is above 1.

    >>> float(poisson_nll_loss([0.0], [2.0]))
    1.0
    """
    x, t = pair(prediction, target, "poisson_nll_loss")
    values = functions.exp(x) - t * x if log_input else x - t * functions.log(x + eps)
    if full:
        above = maximum(t, 1.0)
        more = above * functions.log(above) - above
        more = more + 0.5 * functions.log(2 * math.pi * above)
        values = values + functions.where(t > 1, more, 0.0)
    return reduced(values, reduction, "poisson_nll_loss")


def hinge_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """max(0, 1 - t x) for targets t of -1 or 1.

    >>> float(hinge_loss([0.5], [1.0]))
    0.5
    """
    return margins.hinge_loss(prediction, target, reduction=reduction)


def margin_ranking_loss(
    first: Any, second: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - t (x1 - x2)) for targets t of -1 or 1.

    >>> float(margin_ranking_loss([1.0], [3.0], [1.0]))
    2.0
    """
    x, t = as_tensor(first), as_tensor(target)
    t = broadcast_to(t, x.shape) if t.shape else t
    return margins.margin_ranking_loss(x, second, t, margin, reduction=reduction)


def nll_loss(
    prediction: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[label] for log-probabilities x (n, classes, ...) and labels (n, ...).

    `weight` has a number for each class; the mean is by them.

    >>> float(nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    return loss.nll_loss(
        prediction,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )


def cross_entropy(
    prediction: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(logits)[label], logits (n, classes, ...) and labels (n, ...).

    Targets of the logits' shape and a float type are probabilities. Smoothing mixes
    the uniform distribution in: (1 - e) loss + e mean over the classes of -log softmax.
    `weight` has a number for each class; the mean is by them.

    >>> f"{float(cross_entropy([[0.0, 0.0]], [1])):.4f}"
    '0.6931'
    """
    return loss.cross_entropy(
        prediction,
        target,
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


def kl_div(
    prediction: Any, target: Any, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """t (log t - x) for log-probabilities x; "batchmean" is the divergence.

    >>> f"{float(kl_div([[0.0, 0.0]], [[0.5, 0.5]], 'batchmean')):.4f}"
    '-0.6931'
    """
    return distance.kl_div(prediction, target, log_target, reduction)


def cosine_embedding_loss(
    first: Any, second: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x, y) for targets of 1, max(0, cos(x, y) - margin) for those of -1.

    >>> float(cosine_embedding_loss([[1.0, 0.0]], [[0.0, 1.0]], [1]))
    1.0
    """
    return distance.cosine_embedding_loss(first, second, target, margin, reduction)


@carried_wide
def gaussian_nll_loss(
    prediction: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log v + (x - t)² / v) / 2 for variances v, at least `eps`, + log(2 pi) / 2 if
    `full`; v has the shape of x, or 1 or nothing for its last dimension.

    >>> float(gaussian_nll_loss([1.0], [3.0], [1.0]))
    2.0
    """
    x, t = pair(prediction, target, "gaussian_nll_loss")
    v = as_tensor(var)
    if v.type.ndim and v.type.shape == x.type.shape[:-1]:
        v = functions.expand_dims(v, -1)
    v = where(v < eps, v - stop_gradient(v) + eps, v)
    values = (functions.log(v) + functions.square(x - t) / v) * 0.5
    values = values + 0.5 * math.log(2 * math.pi) if full else values
    return reduced(values, reduction, "gaussian_nll_loss")
