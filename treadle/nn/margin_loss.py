"""Losses of margins and embeddings as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.loss import Loss, Reduced

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class SoftMarginLoss(Loss):
    """log(1 + e^(-t x)) for targets t of -1 or 1.

    >>> f"{float(td.nn.SoftMarginLoss()([0.0], [1.0])):.4f}"
    '0.6931'
    """

    function = staticmethod(F.soft_margin_loss)


class MultiLabelMarginLoss(Loss):
    """max(0, 1 - x[label] + x[c]) over labels and classes that are none, by classes.

    >>> float(td.nn.MultiLabelMarginLoss()([[0.0, 2.0]], [[1, -1]]))
    0.0
    """

    function = staticmethod(F.multilabel_margin_loss)


class HingeEmbeddingLoss(Loss):
    """x for targets of 1, max(0, margin - x) for those of -1.

    >>> float(td.nn.HingeEmbeddingLoss()([0.25], [-1]))
    0.75
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.hinge_embedding_loss(prediction, target, self.margin, self.reduction)


class CosineEmbeddingLoss(Reduced):
    """1 - cos(x, y) for targets of 1, max(0, cos(x, y) - margin) for those of -1.

    >>> float(td.nn.CosineEmbeddingLoss()([[1.0, 0.0]], [[0.0, 1.0]], [1]))
    1.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, first: Any, second: Any, target: Any) -> Tensor:
        return F.cosine_embedding_loss(
            first, second, target, self.margin, self.reduction
        )


class TripletMarginLoss(Reduced):
    """max(0, |anchor - positive| - |anchor - negative| + margin). Balntas et al. 2016.

    >>> f"{float(td.nn.TripletMarginLoss()([[0.0]], [[2.0]], [[1.0]])):.3f}"
    '2.000'
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            self.margin,
            self.p,
            self.eps,
            self.swap,
            self.reduction,
        )


class TripletMarginWithDistanceLoss(Reduced):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance d.

    >>> loss = td.nn.TripletMarginWithDistanceLoss(
    ...     distance_function=lambda x, y: abs(x - y))
    >>> float(loss(td.ones((1, 1)), [[3.0]], [[2.0]]))
    2.0
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function, self.margin = distance_function, margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiMarginLoss(Loss):
    """The mean over classes c of max(0, margin - x[label] + x[c])^p.

    >>> float(td.nn.MultiMarginLoss()([[0.0, 2.0, 1.0, 1.5]], [1]))
    0.125
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.multi_margin_loss(
            prediction, target, self.p, self.margin, self.weight, self.reduction
        )


class MultiLabelSoftMarginLoss(Loss):
    """The mean over classes of the binary cross entropy of logits.

    >>> f"{float(td.nn.MultiLabelSoftMarginLoss()([[0.0, 0.0]], [[1.0, 0.0]])):.4f}"
    '0.6931'
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return F.multilabel_soft_margin_loss(
            prediction, target, self.weight, self.reduction
        )
