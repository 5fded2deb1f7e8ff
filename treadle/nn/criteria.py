"""Losses as functions under torch's names, with a `reduction`."""

from __future__ import annotations

from typing import Any

from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.ops import ctc, distance, loss
from treadle.ops import margin as margins
from treadle.ops.movement import broadcast_to

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "hinge_loss",
    "huber_loss",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def mse_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(prediction - target)².

    >>> float(mse_loss([1.0, 3.0], [1.0, 1.0]))
    2.0
    """
    return distance.mse_loss(prediction, target, reduction)


def l1_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|prediction - target|.

    >>> float(l1_loss([1.0, 3.0], [1.0, 1.0]))
    1.0
    """
    return distance.l1_loss(prediction, target, reduction)


def huber_loss(
    prediction: Any, target: Any, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """d²/2 where |d| <= delta, else delta (|d| - delta/2). Huber 1964.

    >>> float(huber_loss([3.0], [0.0]))
    2.5
    """
    return distance.huber_loss(prediction, target, delta, reduction)


def smooth_l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """The Huber loss with delta = beta, divided by beta. Girshick 2015.

    >>> float(smooth_l1_loss([3.0], [0.0], beta=2.0))
    2.0
    """
    return distance.smooth_l1_loss(prediction, target, beta, reduction)


def binary_cross_entropy(
    prediction: Any, target: Any, reduction: str = "mean"
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)); the logarithms stop at -100, as torch's.

    >>> f"{float(binary_cross_entropy([0.5], [1.0])):.4f}"
    '0.6931'
    """
    return margins.binary_cross_entropy(prediction, target, reduction=reduction)


def binary_cross_entropy_with_logits(
    prediction: Any, target: Any, reduction: str = "mean"
) -> Tensor:
    """t log(1 + e^-x) + (1 - t) log(1 + e^x) of logits x.

    >>> f"{float(binary_cross_entropy_with_logits([0.0], [1.0])):.4f}"
    '0.6931'
    """
    return margins.binary_cross_entropy_with_logits(
        prediction, target, reduction=reduction
    )


def poisson_nll_loss(
    prediction: Any, target: Any, reduction: str = "mean", log_input: bool = True
) -> Tensor:
    """e^x - t x for a log-rate x; x - t log x for a rate.

    >>> float(poisson_nll_loss([0.0], [2.0]))
    1.0
    """
    return distance.poisson_nll_loss(prediction, target, log_input, reduction=reduction)


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
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[label] for log-probabilities x (n, classes, ...) and labels (n, ...).

    >>> float(nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    return loss.nll_loss(
        prediction, target, ignore_index=ignore_index, reduction=reduction
    )


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


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log p(labels) of log-probabilities (time, n, classes) and labels (n, most).

    >>> import treadle as td
    >>> even = td.log(td.full((2, 1, 2), 0.5))
    >>> f"{float(ctc_loss(even, [[1]], [2], [1])):.4f}"
    '0.2877'
    """
    return ctc.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )
