"""Losses as modules: loss(prediction, target), a scalar by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import Configured

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class Reduced(Configured):
    """A loss whose elements are averaged, summed or kept ("none").

    Its settings are the other arguments of `function`, by their names.
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")

    def __post_init__(self) -> None:
        settings = vars(self)
        if settings["reduction"] not in self.reductions:
            *known, last = map(repr, self.reductions)
            raise ArgumentError(
                f"reduction is {', '.join(known)} or {last}, "
                f"not {settings['reduction']!r}"
            )
        for name in ("weight", "pos_weight"):
            if name in settings:
                self.register_buffer(name, settings[name])

    def _of(self, *operands: Any) -> Tensor:
        return self.function(
            *operands, **{name: getattr(self, name) for name in self._settings}
        )


class Loss(Reduced):
    """A loss of a prediction and a target."""

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return self._of(prediction, target)


class PlainLoss(Loss):
    """A loss with no other setting."""

    reduction: str = "mean"


class CrossEntropyLoss(Loss, function=F.cross_entropy):
    """-log softmax(logits)[label], averaged over the labels.

    Labels are integers (n, ...) beside logits (n, classes, ...), or probabilities of
    the logits' shape. `ignore_index` leaves labels out; `label_smoothing` mixes in the
    uniform distribution (Szegedy et al. 2016); `weight` has a number for each class.

    >>> f"{float(td.nn.CrossEntropyLoss()([[0.0, 0.0]], [1])):.4f}"
    '0.6931'
    """

    weight: Any = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.label_smoothing <= 1.0:
            raise ArgumentError(
                f"label_smoothing is from 0 to 1, got {self.label_smoothing}"
            )


class NLLLoss(Loss, function=F.nll_loss):
    """-log_probabilities[label], averaged over the labels; `weight` and `ignore_index`
    are those of CrossEntropyLoss.

    >>> float(td.nn.NLLLoss()([[-1.0, -2.0]], [1]))
    2.0
    """

    weight: Any = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"


class MSELoss(PlainLoss, function=F.mse_loss):
    """(prediction - target)².

    >>> float(td.nn.MSELoss()([1.0, 3.0], [1.0, 1.0]))
    2.0
    """


class L1Loss(PlainLoss, function=F.l1_loss):
    """|prediction - target|.

    >>> float(td.nn.L1Loss()([1.0, 3.0], [1.0, 1.0]))
    1.0
    """


class HuberLoss(Loss, function=F.huber_loss):
    """d²/2 where |d| <= delta, else delta (|d| - delta/2). Huber 1964.

    >>> float(td.nn.HuberLoss()([3.0], [0.0]))
    2.5
    """

    reduction: str = "mean"
    delta: float = 1.0


class SmoothL1Loss(Loss, function=F.smooth_l1_loss):
    """The Huber loss divided by beta. Girshick 2015.

    >>> float(td.nn.SmoothL1Loss(beta=2.0)([3.0], [0.0]))
    2.0
    """

    reduction: str = "mean"
    beta: float = 1.0


class BCELoss(Loss, function=F.binary_cross_entropy):
    """-(t log p + (1 - t) log(1 - p)) for probabilities p, times `weight`.

    >>> f"{float(td.nn.BCELoss()([0.5], [1.0])):.4f}"
    '0.6931'
    """

    weight: Any = None
    _: KW_ONLY
    reduction: str = "mean"


class BCEWithLogitsLoss(Loss, function=F.binary_cross_entropy_with_logits):
    """The same for logits, without the overflow of going through probabilities.

    `weight` multiplies the elements, `pos_weight` the terms of targets of 1.

    >>> f"{float(td.nn.BCEWithLogitsLoss()([0.0], [1.0])):.4f}"
    '0.6931'
    """

    weight: Any = None
    _: KW_ONLY
    reduction: str = "mean"
    pos_weight: Any = None


class PoissonNLLLoss(Loss, function=F.poisson_nll_loss):
    """e^x - t x: the negative log-likelihood of counts t under rate e^x, or under a
    rate x if not `log_input`; `full` and `eps` are those of the function.

    >>> float(td.nn.PoissonNLLLoss()([0.0], [2.0]))
    1.0
    """

    log_input: bool = True
    full: bool = False
    _: KW_ONLY
    eps: float = 1e-8
    reduction: str = "mean"


class HingeLoss(PlainLoss, function=F.hinge_loss):
    """max(0, 1 - t x) for targets t of -1 or 1.

    >>> float(td.nn.HingeLoss()([0.5], [1.0]))
    0.5
    """


class CTCLoss(Reduced, function=F.ctc_loss):
    """-log p(labels) where labels have no known places in time. Graves et al. 2006.

    Takes log-probabilities (time, n, classes), labels (n, most) and both lengths.

    >>> even = td.log(td.full((2, 1, 2), 0.5))
    >>> f"{float(td.nn.CTCLoss()(even, [[1]], [2], [1])):.4f}"
    '0.2877'
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(
        self,
        prediction: Any,
        target: Any,
        input_lengths: Any = None,
        target_lengths: Any = None,
    ) -> Tensor:
        return self._of(prediction, target, input_lengths, target_lengths)


class MarginRankingLoss(Reduced, function=F.margin_ranking_loss):
    """max(0, margin - t (x1 - x2)) for targets t of -1 or 1.

    >>> float(td.nn.MarginRankingLoss()([1.0], [3.0], [1.0]))
    2.0
    """

    margin: float = 0.0
    reduction: str = "mean"

    def forward(self, first: Any, second: Any, target: Any) -> Tensor:
        return self._of(first, second, target)


class KLDivLoss(Loss, function=F.kl_div):
    """t (log t - x) for log-probabilities x; "batchmean" is the divergence.

    >>> f"{float(td.nn.KLDivLoss('batchmean')([[0.0, 0.0]], [[0.5, 0.5]])):.4f}"
    '-0.6931'
    """

    reductions = ("mean", "sum", "none", "batchmean")
    reduction: str = "mean"
    log_target: bool = False


class GaussianNLLLoss(Reduced, function=F.gaussian_nll_loss):
    """(log v + (x - t)² / v) / 2 for variances v.

    >>> float(td.nn.GaussianNLLLoss()([1.0], [3.0], [1.0]))
    2.0
    """

    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(self, prediction: Any, target: Any, var: Any = None) -> Tensor:
        return self._of(prediction, target, var)


class SoftMarginLoss(PlainLoss, function=F.soft_margin_loss):
    """log(1 + e^(-t x)) for targets t of -1 or 1.

    >>> f"{float(td.nn.SoftMarginLoss()([0.0], [1.0])):.4f}"
    '0.6931'
    """


class MultiLabelMarginLoss(PlainLoss, function=F.multilabel_margin_loss):
    """max(0, 1 - x[label] + x[c]) over labels and classes that are none, by classes.

    >>> float(td.nn.MultiLabelMarginLoss()([[0.0, 2.0]], [[1, -1]]))
    0.0
    """


class HingeEmbeddingLoss(Loss, function=F.hinge_embedding_loss):
    """x for targets of 1, max(0, margin - x) for those of -1.

    >>> float(td.nn.HingeEmbeddingLoss()([0.25], [-1]))
    0.75
    """

    margin: float = 1.0
    reduction: str = "mean"


class CosineEmbeddingLoss(Reduced, function=F.cosine_embedding_loss):
    """1 - cos(x, y) for targets of 1, max(0, cos(x, y) - margin) for those of -1.

    >>> float(td.nn.CosineEmbeddingLoss()([[1.0, 0.0]], [[0.0, 1.0]], [1]))
    1.0
    """

    margin: float = 0.0
    reduction: str = "mean"

    def forward(self, first: Any, second: Any, target: Any) -> Tensor:
        return self._of(first, second, target)


class _Triplet(Reduced):
    """A loss of an anchor, what is to be near it and what is not."""

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        return self._of(anchor, positive, negative)


class TripletMarginLoss(_Triplet, function=F.triplet_margin_loss):
    """max(0, |anchor - positive| - |anchor - negative| + margin). Balntas et al. 2016.

    >>> f"{float(td.nn.TripletMarginLoss()([[0.0]], [[2.0]], [[1.0]])):.3f}"
    '2.000'
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"


class TripletMarginWithDistanceLoss(
    _Triplet, function=F.triplet_margin_with_distance_loss
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance d.

    >>> loss = td.nn.TripletMarginWithDistanceLoss(
    ...     distance_function=lambda x, y: abs(x - y))
    >>> float(loss(td.ones((1, 1)), [[3.0]], [[2.0]]))
    2.0
    """

    _: KW_ONLY
    distance_function: Callable[[Any, Any], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"


class MultiMarginLoss(Loss, function=F.multi_margin_loss):
    """The mean over classes c of max(0, margin - x[label] + x[c])^p.

    >>> float(td.nn.MultiMarginLoss()([[0.0, 2.0, 1.0, 1.5]], [1]))
    0.125
    """

    p: int = 1
    margin: float = 1.0
    weight: Any = None
    reduction: str = "mean"


class MultiLabelSoftMarginLoss(Loss, function=F.multilabel_soft_margin_loss):
    """The mean over classes of the binary cross entropy of logits.

    >>> f"{float(td.nn.MultiLabelSoftMarginLoss()([[0.0, 0.0]], [[1.0, 0.0]])):.4f}"
    '0.6931'
    """

    weight: Any = None
    reduction: str = "mean"
