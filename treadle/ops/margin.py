"""Losses of yes or no, and of one score that has to lead another by a margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import TreadleError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.activation import relu, sigmoid, softplus
from treadle.ops.cast import carried_wide
from treadle.ops.distance import pair, reduced
from treadle.ops.families import Elementwise
from treadle.ops.labels import classes_of, is_label, labels_of, over_labels
from treadle.ops.loss import PickLabel
from treadle.ops.movement import broadcast_to
from treadle.ops.pick import take
from treadle.ops.power import log, log1p
from treadle.ops.rearrange import expand_dims
from treadle.ops.reduce import sum
from treadle.ops.select import maximum, where

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "binary_log_loss",
    "class_hinge_loss",
    "focal_loss",
    "hinge_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "pairwise_rank_loss",
]


@op(tolerance="R")
class BinaryCrossEntropy(Elementwise, arity=2, takes="float"):
    """-(t log p + (1 - t) log(1 - p)); the logarithms stop at -100."""

    def numpy(self, p: Any, t: Any) -> Array:
        floor = np.array(-100, p.dtype)
        yes, no = np.maximum(np.log(p), floor), np.maximum(np.log1p(-p), floor)
        return np.subtract((t - 1) * no, t * yes)

    def scalar(self, p: Any, t: Any) -> Any:
        yes, no = maximum(log(p), -100.0), maximum(log1p(-p), -100.0)
        return (t - 1.0) * no - t * yes

    def vjp(self, g: Any, y: Any, p: Tensor, t: Tensor) -> Cotangents:
        yes, no = maximum(log(p), -100.0), maximum(log1p(-p), -100.0)
        # Where the logarithm stops, its slope stays steep: 0 would teach nothing.
        least = 1e-12 if p.type.dtype.itemsize > 2 else 1e-4
        return g * (p - t) / maximum(p * (1.0 - p), least), g * (no - yes)


@provide
@recorded
@carried_wide
def binary_cross_entropy(
    prediction: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) of probabilities p; the logarithms stop at -100.

    `weight` multiplies the elements. For logits, `binary_cross_entropy_with_logits`
    keeps what rounding p would lose.

    >>> f"{float(td.binary_cross_entropy([0.5], [1.0])):.4f}"
    '0.6931'
    """
    values = BinaryCrossEntropy()(*pair(prediction, target, "binary_cross_entropy"))
    values = values if weight is None else values * weight
    return reduced(values, reduction, "binary_cross_entropy")


@carried_wide
def binary_log_loss(p: Any, target: Any) -> Tensor:
    """The sum of the binary cross entropies of probabilities p.

    >>> f"{float(td.binary_log_loss([0.5, 0.5], [1.0, 0.0])):.4f}"
    '1.3863'
    """
    return binary_cross_entropy(p, target, reduction="sum")


@op(tolerance="R")
class LogisticLoss(Elementwise, arity=2, takes="float"):
    """t log(1 + e^-x) + (1 - t) log(1 + e^x), by one logarithm; no digits are lost."""

    def numpy(self, x: Any, t: Any) -> Array:
        above = np.greater(x, 0).astype(x.dtype)
        return np.add((above - t) * x, np.log1p(np.exp(-np.abs(x))))

    def scalar(self, x: Any, t: Any) -> Any:
        above = where(x > 0, 1.0 - t, -t)
        return above * x + log1p(functions.exp(-functions.abs(x)))

    def vjp(self, g: Any, y: Any, x: Tensor, t: Tensor) -> Cotangents:
        return g * ((1.0 - t) * sigmoid(x) - t * sigmoid(-x)), g * -x


@provide
@recorded
@carried_wide
def binary_cross_entropy_with_logits(
    logits: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """t log(1 + e^-x) + (1 - t) log(1 + e^x): binary cross entropy of sigmoid(x).

    `weight` multiplies the elements, `pos_weight` their first term.

    >>> f"{float(td.binary_cross_entropy_with_logits([0.0], [1.0])):.4f}"
    '0.6931'
    >>> float(td.binary_cross_entropy_with_logits([1e4], [0.0]))
    10000.0
    """
    name = "binary_cross_entropy_with_logits"
    x, t = pair(logits, target, name)
    if pos_weight is None:
        values = LogisticLoss()(x, t)
    else:
        values = t * softplus(-x) * pos_weight + (1.0 - t) * softplus(x)
    if weight is not None:
        values = values * weight
    return reduced(values, reduction, name)


@carried_wide
def focal_loss(
    logits: Any,
    target: Any,
    gamma: Any = 2.0,
    alpha: Any = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """(1 - q)^gamma -log q, where q is the probability of the right answer.

    `alpha` weights the answers 1 by alpha and 0 by 1 - alpha. Lin et al., Focal loss
    for dense object detection, 2017.

    >>> f"{float(td.focal_loss([0.0], [1.0])):.4f}"
    '0.1733'
    """
    x, t = pair(logits, target, "focal_loss")
    wrong = t * sigmoid(-x) + (1.0 - t) * sigmoid(x)
    values = LogisticLoss()(x, t) * wrong**gamma
    if alpha is not None:
        values = values * (t * alpha + (1.0 - t) * (1.0 - alpha))
    return reduced(values, reduction, "focal_loss")


@carried_wide
def hinge_loss(
    x: Any, target: Any, margin: Any = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - t x) for targets t of -1 or 1.

    >>> float(td.hinge_loss([0.5], [1.0]))
    0.5
    """
    a, t = pair(x, target, "hinge_loss")
    return reduced(maximum(margin - t * a, 0), reduction, "hinge_loss")


@carried_wide
def class_hinge_loss(
    scores: Any,
    target: Any,
    margin: Any = 1.0,
    axis: Any = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The sum of max(0, margin - x[label] + x[c]) over the other classes c.

    Classes along `axis`: dimension 1 of (n, classes, ...) unless given. Crammer and
    Singer take the largest term; this is the sum of Weston and Watkins, 1999.

    >>> float(td.class_hinge_loss([[0.0, 2.0, 1.5]], [1]))
    0.5
    """
    x, place = classes_of(scores, axis)
    _, values = _beaten(x, target, margin, 1, place, "class_hinge_loss")
    return reduced(over_labels(values, x, place), reduction, "class_hinge_loss")


def _beaten(
    x: Tensor, target: Any, margin: Any, p: int, axis: int, name: str
) -> tuple[Tensor, Tensor]:
    """The labels, and for each the sum over the other classes of what they lack to be
    behind by a margin, to a power."""
    try:
        labels, _ = labels_of(target, None, x, axis)
    except TreadleError as error:
        raise error.located(name) from None
    x = functions.unname(x)
    at_label = expand_dims(PickLabel(axis)(x, labels), axis)
    terms = relu(x - at_label + margin)
    terms = terms if p == 1 else terms**p
    return labels, sum(where(is_label(labels, x, axis), 0, terms), axis)


@carried_wide
def multi_margin_loss(
    prediction: Any,
    target: Any,
    p: int = 1,
    margin: Any = 1.0,
    weight: Any = None,
    reduction: str = "mean",
    *,
    axis: Any = None,
) -> Tensor:
    """The mean over classes c of max(0, margin - x[label] + x[c])^p, 0 for the label.

    `weight` has a number for each class, by which its labels count.

    >>> float(td.multi_margin_loss([[0.0, 2.0, 1.0, 1.5]], [1]))
    0.125
    """
    x, place = classes_of(prediction, axis)
    labels, values = _beaten(x, target, margin, p, place, "multi_margin_loss")
    values = values / max(x.type.shape[place], 1)
    values = values if weight is None else values * take(weight, labels)
    return reduced(over_labels(values, x, place), reduction, "multi_margin_loss")


@carried_wide
def margin_ranking_loss(
    first: Any,
    second: Any,
    target: Any,
    margin: Any = 0.0,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - t (first - second)) for targets t of -1 or 1.

    >>> float(td.margin_ranking_loss([1.0], [3.0], [1.0]))
    2.0
    """
    a, b = pair(first, second, "margin_ranking_loss")
    t = as_tensor(target)
    t = broadcast_to(t, a.type.shape) if t.type.shape else t
    lead, t = pair(a - b, t, "margin_ranking_loss")
    return reduced(maximum(margin - t * lead, 0), reduction, "margin_ranking_loss")


@carried_wide
def pairwise_rank_loss(
    better: Any, worse: Any, margin: Any = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - better + worse).

    >>> float(td.pairwise_rank_loss([1.0], [3.0]))
    3.0
    """
    a, b = pair(better, worse, "pairwise_rank_loss")
    return reduced(maximum(margin - a + b, 0), reduction, "pairwise_rank_loss")
