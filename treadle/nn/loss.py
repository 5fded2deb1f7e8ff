"""Losses as modules: loss(prediction, target), a scalar by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
]


class Reduced(Module):
    """A loss whose elements are averaged, summed or kept ("none")."""

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")
    weight: Any = None
    pos_weight: Any = None

    def __init__(self, reduction: str = "mean") -> None:
        if reduction not in self.reductions:
            *known, last = map(repr, self.reductions)
            raise ArgumentError(
                f"reduction is {', '.join(known)} or {last}, not {reduction!r}"
            )
        self.reduction = reduction


class Loss(Reduced):
    """A loss of a prediction and a target."""

    function: ClassVar[Callable[..., Tensor]]

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return type(self).function(prediction, target, reduction=self.reduction)


class CrossEntropyLoss(Loss):
    """-log softmax(logits)[label], averaged over the labels.

    Labels are integers (n, ...) beside logits (n, classes, ...), or probabilities of
    the logits' shape. `ignore_index` leaves labels out; `label_smoothing` mixes in the
    uniform distribution (Szegedy et al. 2016); `weight` has a number for each class.

    >>> f"{float(td.nn.CrossEntropyLoss()([[0.0, 0.0]], [1])):.4f}"
    '0.6931'
    """

    def __init__(
        self,
        ignore_index: int | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        weight: Any = None,
    ) -> None:
        super().__init__(reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(
                f"label_smoothing is from 0 to 1, got {label_smoothing}"
            )
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.register_buffer("weight", weight)

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.cross_entropy(
            prediction,
            target,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            weight=self.weight,
        )


class NLLLoss(Loss):
    """-log_probabilities[label], averaged over the labels.

    >>> float(td.nn.NLLLoss()([[-1.0, -2.0]], [1]))
    2.0
    """

    function = staticmethod(F.nll_loss)


class MSELoss(Loss):
    """(prediction - target)².

    >>> float(td.nn.MSELoss()([1.0, 3.0], [1.0, 1.0]))
    2.0
    """

    function = staticmethod(F.mse_loss)


class L1Loss(Loss):
    """|prediction - target|.

    >>> float(td.nn.L1Loss()([1.0, 3.0], [1.0, 1.0]))
    1.0
    """

    function = staticmethod(F.l1_loss)


class HuberLoss(Loss):
    """d²/2 where |d| <= delta, else delta (|d| - delta/2). Huber 1964.

    >>> float(td.nn.HuberLoss()([3.0], [0.0]))
    2.5
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.huber_loss(
            prediction, target, reduction=self.reduction, delta=self.delta
        )


class SmoothL1Loss(Loss):
    """The Huber loss divided by beta. Girshick 2015.

    >>> float(td.nn.SmoothL1Loss(beta=2.0)([3.0], [0.0]))
    2.0
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.smooth_l1_loss(
            prediction, target, reduction=self.reduction, beta=self.beta
        )


class BCELoss(Loss):
    """-(t log p + (1 - t) log(1 - p)) for probabilities p.

    >>> f"{float(td.nn.BCELoss()([0.5], [1.0])):.4f}"
    '0.6931'
    """

    function = staticmethod(F.binary_cross_entropy)


class BCEWithLogitsLoss(Loss):
    """The same for logits, without the overflow of going through probabilities.

    `weight` multiplies the elements, `pos_weight` the terms of targets of 1.

    >>> f"{float(td.nn.BCEWithLogitsLoss()([0.0], [1.0])):.4f}"
    '0.6931'
    """

    def __init__(
        self, reduction: str = "mean", *, weight: Any = None, pos_weight: Any = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            prediction,
            target,
            self.reduction,
            weight=self.weight,
            pos_weight=self.pos_weight,
        )


class PoissonNLLLoss(Loss):
    """e^x - t x: the negative log-likelihood of counts t under rate e^x.

    >>> float(td.nn.PoissonNLLLoss()([0.0], [2.0]))
    1.0
    """

    function = staticmethod(F.poisson_nll_loss)


class HingeLoss(Loss):
    """max(0, 1 - t x) for targets t of -1 or 1.

    >>> float(td.nn.HingeLoss()([0.5], [1.0]))
    0.5
    """

    function = staticmethod(F.hinge_loss)


class CTCLoss(Loss):
    """-log p(labels) where labels have no known places in time. Graves et al. 2006.

    Takes log-probabilities (time, n, classes), labels (n, most) and both lengths.

    >>> even = td.log(td.full((2, 1, 2), 0.5))
    >>> f"{float(td.nn.CTCLoss()(even, [[1]], [2], [1])):.4f}"
    '0.2877'
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self,
        prediction: Any,
        target: Any,
        input_lengths: Any = None,
        target_lengths: Any = None,
    ) -> Tensor:
        return F.ctc_loss(
            prediction,
            target,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class MarginRankingLoss(Module):
    """max(0, margin - t (x1 - x2)) for targets t of -1 or 1.

    >>> float(td.nn.MarginRankingLoss()([1.0], [3.0], [1.0]))
    2.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        self.margin, self.reduction = margin, reduction

    def forward(self, first: Any, second: Any, target: Any) -> Tensor:
        return F.margin_ranking_loss(
            first, second, target, margin=self.margin, reduction=self.reduction
        )


class KLDivLoss(Loss):
    """t (log t - x) for log-probabilities x; "batchmean" is the divergence.

    >>> f"{float(td.nn.KLDivLoss('batchmean')([[0.0, 0.0]], [[0.5, 0.5]])):.4f}"
    '-0.6931'
    """

    reductions = ("mean", "sum", "none", "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.kl_div(prediction, target, self.reduction, self.log_target)


class GaussianNLLLoss(Loss):
    """(log v + (x - t)² / v) / 2 for variances v.

    >>> float(td.nn.GaussianNLLLoss()([1.0], [3.0], [1.0]))
    2.0
    """

    def __init__(
        self, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, prediction: Any, target: Any, var: Any = None) -> Tensor:
        return F.gaussian_nll_loss(
            prediction, target, var, self.full, self.eps, self.reduction
        )
