"""Distances of vectors and losses of margins as functions under torch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops import distance
from treadle.ops.activation import log_sigmoid, relu
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.distance import pair, reduced
from treadle.ops.labels import classes_of, is_label, labels_of
from treadle.ops.loss import PickLabel
from treadle.ops.margin import LogisticLoss
from treadle.ops.norms import norm
from treadle.ops.pick import one_hot, take
from treadle.ops.rearrange import broadcast_arrays
from treadle.ops.select import maximum, where

__all__ = [
    "cosine_similarity",
    "hinge_embedding_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "pairwise_distance",
    "pdist",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


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
def multi_margin_loss(
    prediction: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes c of max(0, margin - x[label] + x[c])^p, 0 for the label.

    `weight` has a number for each label. x is (n, classes), or (classes,) alone.

    >>> float(multi_margin_loss([[0.0, 2.0, 1.0, 1.5]], [1]))
    0.125
    """
    x, place = classes_of(prediction, -1)
    labels, _ = labels_of(target, None, x, place)
    label_score = functions.expand_dims(PickLabel(place)(x, labels), place)
    terms = relu(x - label_score + margin) ** p
    terms = where(is_label(labels, x, place), 0, terms)
    values = functions.mean(terms, place)
    values = values if weight is None else values * take(weight, labels)
    return reduced(values, reduction, "multi_margin_loss")


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


@carried_wide
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance d.

    With `swap` the nearer of anchor and positive counts for the negative.

    >>> float(triplet_margin_with_distance_loss(
    ...     [[0.0]], [[2.0]], [[1.0]], distance_function=lambda x, y: abs(x - y)))
    2.0
    """
    d = pairwise_distance if distance_function is None else distance_function
    a, p, n = as_tensor(anchor), as_tensor(positive), as_tensor(negative)
    near, far = d(a, p), d(a, n)
    if swap:
        far = functions.minimum(far, d(p, n))
    values = maximum(near - far + margin, 0)
    return reduced(values, reduction, "triplet_margin_with_distance_loss")


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin), by norms of order p.

    >>> f"{float(triplet_margin_loss([[0.0]], [[2.0]], [[1.0]])):.3f}"
    '2.000'
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda x, y: pairwise_distance(x, y, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )
