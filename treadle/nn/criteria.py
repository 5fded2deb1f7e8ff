"""Losses as functions under torch's names, with a `reduction`."""

from __future__ import annotations

from typing import Any

from treadle.base.dtypes import is_inexact
from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.ops import loss, margin
from treadle.ops.compare import not_equal
from treadle.ops.elementary import exp
from treadle.ops.logarithm import log
from treadle.ops.movement import reshape
from treadle.ops.pick import take_along_axis
from treadle.ops.rounding import abs
from treadle.ops.select import maximum, minimum, where

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def reduced(values: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    """The mean (over what `weight` counts), the sum or the elements themselves."""
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    if reduction != "mean":
        raise ArgumentError(f'reduction is "mean", "sum" or "none", not {reduction!r}')
    return values.mean() if weight is None else values.sum() / weight.sum()


def _pair(prediction: Any, target: Any, name: str) -> tuple[Tensor, Tensor]:
    x, t = as_tensor(prediction), as_tensor(target)
    if t.shape and x.shape != t.shape:
        raise ShapeError(f"prediction {x.type} with target {t.type}").located(name)
    return x, t.astype(x.dtype) if not is_inexact(t.dtype) else t


def mse_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(prediction - target)².

    >>> float(mse_loss([1.0, 3.0], [1.0, 1.0]))
    2.0
    """
    x, t = _pair(prediction, target, "mse_loss")
    return reduced((x - t) * (x - t), reduction)


def l1_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|prediction - target|.

    >>> float(l1_loss([1.0, 3.0], [1.0, 1.0]))
    1.0
    """
    x, t = _pair(prediction, target, "l1_loss")
    return reduced(abs(x - t), reduction)


def huber_loss(
    prediction: Any, target: Any, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """d²/2 where |d| <= delta, else delta (|d| - delta/2). Huber 1964.

    >>> float(huber_loss([3.0], [0.0]))
    2.5
    """
    x, t = _pair(prediction, target, "huber_loss")
    size = abs(x - t)
    near = minimum(size, delta)
    return reduced(near * near * 0.5 + (size - near) * delta, reduction)


def smooth_l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """The Huber loss with delta = beta, divided by beta. Girshick 2015.

    >>> float(smooth_l1_loss([3.0], [0.0], beta=2.0))
    2.0
    """
    return huber_loss(prediction, target, reduction, beta) / beta


def binary_cross_entropy(
    prediction: Any, target: Any, reduction: str = "mean"
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)); the logarithms stop at -100, as torch's.

    >>> f"{float(binary_cross_entropy([0.5], [1.0])):.4f}"
    '0.6931'
    """
    return margin.binary_cross_entropy(prediction, target, reduction=reduction)


def binary_cross_entropy_with_logits(
    prediction: Any, target: Any, reduction: str = "mean"
) -> Tensor:
    """t log(1 + e^-x) + (1 - t) log(1 + e^x) of logits x.

    >>> f"{float(binary_cross_entropy_with_logits([0.0], [1.0])):.4f}"
    '0.6931'
    """
    return margin.binary_cross_entropy_with_logits(
        prediction, target, reduction=reduction
    )


def poisson_nll_loss(
    prediction: Any, target: Any, reduction: str = "mean", log_input: bool = True
) -> Tensor:
    """e^x - t x for a log-rate x; x - t log x for a rate.

    >>> float(poisson_nll_loss([0.0], [2.0]))
    1.0
    """
    x, t = _pair(prediction, target, "poisson_nll_loss")
    return reduced(exp(x) - t * x if log_input else x - t * log(x + 1e-8), reduction)


def hinge_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """max(0, 1 - t x) for targets t of -1 or 1.

    >>> float(hinge_loss([0.5], [1.0]))
    0.5
    """
    x, t = _pair(prediction, target, "hinge_loss")
    return reduced(maximum(1.0 - t * x, 0.0), reduction)


def margin_ranking_loss(
    first: Any, second: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - t (x1 - x2)) for targets t of -1 or 1.

    >>> float(margin_ranking_loss([1.0], [3.0], [1.0]))
    2.0
    """
    x, y = _pair(first, second, "margin_ranking_loss")
    t = as_tensor(target)
    return reduced(maximum(margin - t * (x - y), 0.0), reduction)


def _picked(scores: Tensor, labels: Tensor, ignore: int | None) -> tuple[Any, Any]:
    """The scores (n, classes, ...) at the labels (n, ...), and which labels count."""
    where_labels = reshape(labels, (*labels.shape[:1], 1, *labels.shape[1:]))
    if scores.ndim == 1:
        where_labels = reshape(labels, (1,))
    counted = None
    if ignore is not None:
        kept = not_equal(labels, ignore)
        counted = kept.astype(scores.dtype)
        kept_wide = reshape(kept, where_labels.shape)
        where_labels = where(kept_wide, where_labels, 0)
    axis = 0 if scores.ndim == 1 else 1
    found = reshape(take_along_axis(scores, where_labels, axis), labels.shape)
    return found, counted


def nll_loss(
    prediction: Any,
    target: Any,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[label] for log-probabilities x (n, classes, ...) and labels (n, ...).

    >>> float(nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    x, labels = as_tensor(prediction), as_tensor(target)
    found, counted = _picked(x, labels, ignore_index)
    values = -found if counted is None else where(counted > 0, -found, 0.0)
    return reduced(values, reduction, counted)


def cross_entropy(
    prediction: Any,
    target: Any,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(logits)[label], logits (n, classes, ...) and labels (n, ...).

    Targets of the logits' shape and a float type are probabilities. Smoothing mixes
    the uniform distribution in: (1 - e) loss + e mean over the classes of -log softmax.

    >>> f"{float(cross_entropy([[0.0, 0.0]], [1])):.4f}"
    '0.6931'
    """
    return loss.cross_entropy(
        prediction,
        target,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
