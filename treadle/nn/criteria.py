"""Losses and distances of vectors that have torch's names alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops import distance
from treadle.ops.activation import log_sigmoid, relu
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.ctc import ctc_loss
from treadle.ops.distance import (
    cosine_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    pair,
    pairwise_distance,
    reduced,
    smooth_l1_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from treadle.ops.flow import stop_gradient
from treadle.ops.loss import cross_entropy, nll_loss
from treadle.ops.margin import (
    LogisticLoss,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    hinge_loss,
    margin_ranking_loss,
    multi_margin_loss,
)
from treadle.ops.norms import norm
from treadle.ops.pick import one_hot, take
from treadle.ops.rearrange import broadcast_arrays
from treadle.ops.select import maximum, where

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "pairwise_distance",
    "pdist",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


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


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x·y / (|x| |y|) along `dim`; norms below `eps` count as `eps`.

    >>> f"{float(cosine_similarity([[1.0, 0.0]], [[3.0, 4.0]])[0]):.1f}"
    '0.6'
    """
    a, b = broadcast_arrays(x1, x2)
    return distance.cosine_similarity(a, b, dim, eps)


@carried_wide
def pdist(x: Any, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows i < j of x[n, width], row by row.

    >>> pdist([[0.0], [1.0], [3.0]]).tolist()
    [1.0, 3.0, 2.0]
    """
    node = as_float(x)
    first, second = np.triu_indices(node.type.shape[0], 1)
    return norm(take(node, first, 0) - take(node, second, 0), p, -1)


@carried_wide
def hinge_embedding_loss(
    prediction: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """x for targets of 1, max(0, margin - x) for those of -1.

    >>> float(hinge_embedding_loss([0.25, 0.25], [1, -1], reduction="sum"))
    1.0
    """
    x, t = pair(prediction, target, "hinge_embedding_loss")
    values = where(t == 1, 0, maximum(margin - x, 0)) + where(t == -1, 0, x)
    return reduced(values, reduction, "hinge_embedding_loss")


@carried_wide
def soft_margin_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + e^(-t x)) for targets t of -1 or 1.

    >>> f"{float(soft_margin_loss([0.0], [1.0])):.4f}"
    '0.6931'
    """
    x, t = pair(prediction, target, "soft_margin_loss")
    return reduced(-log_sigmoid(t * x), reduction, "soft_margin_loss")


@carried_wide
def multilabel_margin_loss(
    prediction: Any, target: Any, reduction: str = "mean"
) -> Tensor:
    """The sum of max(0, 1 - x[j] + x[c]) over labels j and classes c that are none, by
    the number of classes; the labels in a row of `target` end with a -1.

    >>> float(multilabel_margin_loss([[0.0, 2.0, 1.5]], [[1, -1, 0]]))
    0.16666667...
    """
    x, labels = as_tensor(prediction), as_tensor(target)
    classes = x.type.shape[-1]
    valid = functions.cumulative_prod(functions.astype(labels >= 0, x.dtype), -1)
    places = functions.maximum(labels, 0)
    hot = one_hot(places, classes, x.dtype) * functions.expand_dims(valid, -1)
    none = functions.expand_dims(1.0 - functions.max(hot, -2), -2)
    lead = functions.expand_dims(functions.take_along_axis(x, places, -1), -1)
    terms = relu(1.0 - lead + functions.expand_dims(x, -2))
    terms = where(functions.expand_dims(valid, -1) * none > 0, terms, 0)
    values = functions.sum(terms, (-2, -1)) / classes
    return reduced(values, reduction, "multilabel_margin_loss")


@carried_wide
def multilabel_soft_margin_loss(
    prediction: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of -(t log s(x) + (1 - t) log s(-x)), s the sigmoid.

    >>> f"{float(multilabel_soft_margin_loss([[0.0, 0.0]], [[1.0, 0.0]])):.4f}"
    '0.6931'
    """
    x, t = pair(prediction, target, "multilabel_soft_margin_loss")
    values = LogisticLoss()(x, t)
    values = values if weight is None else values * weight
    return reduced(functions.mean(values, -1), reduction, "multilabel_soft_margin_loss")
