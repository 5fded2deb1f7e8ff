"""Losses of margins and embeddings as modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.loss import Loss, PlainLoss, Reduced

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
