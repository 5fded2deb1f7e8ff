"""Calls under torch's names, written once for both libraries, and torch's numbers.

A number is the sum of the elements by a cosine of their places. `python -m
tests.nn.names`, where torch is, prints them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CALLS", "NUMBERS", "Inputs", "checksum"]


def checksum(y: Any) -> float:
    """One number of all elements and their places."""
    flat = np.asarray(y, np.float64).ravel()
    return float(flat @ np.cos(np.arange(len(flat)) * 0.37 + 0.1))


class Inputs:
    """Arrays of a library, the same in each call: floats, positive ones and whole
    numbers; `first` is the first of the floats."""

    def __init__(self, floats: Callable[[Any], Any], others: Callable[[Any], Any]):
        self.floats, self.others = floats, others
        self.count, self.first = 0, None

    def x(self, *shape: int) -> Any:
        """Floats between -1.5 and 1.5."""
        self.count += 1
        size = int(np.prod(shape))
        values = 1.5 * np.sin(np.arange(size) * 0.7 + 0.3 * self.count)
        made = self.floats(values.reshape(shape).astype(np.float32))
        self.first = made if self.first is None else self.first
        return made

    def p(self, *shape: int) -> Any:
        """Floats between 0.1 and 0.9."""
        size = int(np.prod(shape))
        values = 0.5 + 0.4 * np.sin(np.arange(size) * 1.1 + 0.2)
        return self.others(values.reshape(shape).astype(np.float32))

    def i(self, values: Any) -> Any:
        """Whole numbers as they are."""
        return self.others(np.asarray(values))

    def sign(self, *shape: int) -> Any:
        """-1 and 1."""
        size = int(np.prod(shape))
        return self.others(np.where(np.arange(size) % 3, 1, -1).reshape(shape))


Call = Callable[[Any, Any, Inputs], Any]
LABELS = [1, 0, 2]
CALLS: dict[str, Call] = {
    "adaptive_avg_pool1d": lambda F, nn, v: F.adaptive_avg_pool1d(v.x(2, 3, 7), 3),
    "adaptive_avg_pool2d": lambda F, nn, v: F.adaptive_avg_pool2d(
        v.x(2, 5, 7), (None, 2)
    ),
    "adaptive_avg_pool3d": lambda F, nn, v: F.adaptive_avg_pool3d(
        v.x(1, 2, 3, 4, 5), 2
    ),
    "adaptive_max_pool1d": lambda F, nn, v: F.adaptive_max_pool1d(v.x(2, 3, 7), 3),
    "adaptive_max_pool2d": lambda F, nn, v: F.adaptive_max_pool2d(
        v.x(2, 3, 6, 7), (3, 4)
    ),
    "adaptive_max_pool3d": lambda F, nn, v: F.adaptive_max_pool3d(
        v.x(1, 2, 4, 4, 6), 2
    ),
    "affine_grid": lambda F, nn, v: F.affine_grid(
        v.x(2, 2, 3), (2, 1, 3, 4), align_corners=False
    ),
    "affine_grid corners": lambda F, nn, v: F.affine_grid(
        v.x(1, 3, 4), (1, 1, 2, 3, 4), align_corners=True
    ),
    "batch_norm": lambda F, nn, v: F.batch_norm(
        v.x(3, 2, 4), v.p(2), v.p(2), v.x(2), v.x(2)
    ),
    "batch_norm training": lambda F, nn, v: F.batch_norm(
        v.x(3, 2, 4), None, None, training=True
    ),
    "bilinear": lambda F, nn, v: F.bilinear(v.x(2, 3), v.x(2, 4), v.x(5, 3, 4), v.x(5)),
    "binary_cross_entropy_with_logits": lambda F, nn, v: (
        F.binary_cross_entropy_with_logits(
            v.x(2, 3), v.p(2, 3), weight=v.p(2, 3), pos_weight=v.p(3)
        )
    ),
    "channel_shuffle": lambda F, nn, v: F.channel_shuffle(v.x(2, 6, 3), 3),
    "cosine_embedding_loss": lambda F, nn, v: F.cosine_embedding_loss(
        v.x(4, 3), v.x(4, 3), v.sign(4), margin=0.2
    ),
    "cosine_similarity": lambda F, nn, v: F.cosine_similarity(v.x(2, 3, 4), v.x(3, 4)),
    "cross_entropy": lambda F, nn, v: F.cross_entropy(
        v.x(3, 4), v.i(LABELS), weight=v.p(4)
    ),
    "embedding_bag": lambda F, nn, v: F.embedding_bag(v.i([[0, 2], [1, 1]]), v.x(3, 4)),
    "embedding_bag max": lambda F, nn, v: F.embedding_bag(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), mode="max"
    ),
    "embedding_bag offsets": lambda F, nn, v: F.embedding_bag(
        v.i([0, 2, 1, 1]), v.x(3, 4), v.i([0, 1, 1])
    ),
    "embedding_bag weights": lambda F, nn, v: F.embedding_bag(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), mode="sum", per_sample_weights=v.p(2, 2)
    ),
    "embedding_bag without": lambda F, nn, v: F.embedding_bag(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), padding_idx=-1
    ),
    "embedding_bag max without": lambda F, nn, v: F.embedding_bag(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), mode="max", padding_idx=1
    ),
    "embedding_bag ends": lambda F, nn, v: F.embedding_bag(
        v.i([0, 2, 1, 1]),
        v.x(3, 4),
        v.i([0, 1, 4]),
        include_last_offset=True,
        padding_idx=2,
    ),
    "embedding_bag in order": lambda F, nn, v: F.embedding_bag(
        v.i([[0, 2], [1, 1]]),
        v.x(3, 4),
        None,
        None,
        2.0,
        False,
        "sum",
        False,
        v.p(2, 2),
    ),
    "fold": lambda F, nn, v: F.fold(
        v.x(1, 12, 6), (5, 6), (2, 3), stride=(2, 2), padding=(1, 0)
    ),
    "gaussian_nll_loss": lambda F, nn, v: F.gaussian_nll_loss(
        v.x(2, 3), v.x(2, 3), v.p(2, 1), full=True
    ),
    "gaussian_nll_loss rows": lambda F, nn, v: F.gaussian_nll_loss(
        v.x(2, 3), v.x(2, 3), v.p(2), reduction="none"
    ),
    "hardshrink": lambda F, nn, v: F.hardshrink(v.x(2, 5)),
    "hinge_embedding_loss": lambda F, nn, v: F.hinge_embedding_loss(
        v.x(5), v.sign(5), margin=0.7
    ),
    "instance_norm": lambda F, nn, v: F.instance_norm(
        v.x(2, 3, 4), weight=v.x(3), bias=v.x(3)
    ),
    "instance_norm running": lambda F, nn, v: F.instance_norm(
        v.x(2, 3, 4), v.p(3), v.p(3), use_input_stats=False
    ),
    "kl_div": lambda F, nn, v: F.kl_div(v.x(2, 3), v.p(2, 3), reduction="batchmean"),
    "kl_div log": lambda F, nn, v: F.kl_div(v.x(2, 3), v.x(2, 3), log_target=True),
    "local_response_norm": lambda F, nn, v: F.local_response_norm(
        v.x(2, 5, 3), 4, alpha=0.5
    ),
    "lp_pool1d": lambda F, nn, v: F.lp_pool1d(v.x(2, 3, 7), 2, 3, ceil_mode=True),
    "lp_pool2d": lambda F, nn, v: F.lp_pool2d(v.x(1, 2, 5, 6), 2, (2, 3), 2),
    "lp_pool3d": lambda F, nn, v: F.lp_pool3d(v.x(1, 2, 4, 4, 4), 4, 2),
    "multi_margin_loss": lambda F, nn, v: F.multi_margin_loss(
        v.x(3, 4), v.i(LABELS), p=2, margin=0.8, weight=v.p(4)
    ),
    "multi_margin_loss one": lambda F, nn, v: F.multi_margin_loss(v.x(4), v.i(2)),
    "multilabel_margin_loss": lambda F, nn, v: F.multilabel_margin_loss(
        v.x(2, 4), v.i([[3, 0, -1, 1], [2, -1, 2, 2]]), reduction="none"
    ),
    "multilabel_soft_margin_loss": lambda F, nn, v: F.multilabel_soft_margin_loss(
        v.x(2, 4), v.p(2, 4), v.p(4)
    ),
    "nll_loss": lambda F, nn, v: F.nll_loss(v.x(3, 4), v.i(LABELS), weight=v.p(4)),
    "normalize": lambda F, nn, v: F.normalize(v.x(2, 3, 4)),
    "normalize 3": lambda F, nn, v: F.normalize(v.x(2, 3), p=3.0, dim=0),
    "pad": lambda F, nn, v: F.pad(v.x(2, 3, 4), (1, 2, -1, 2), value=0.5),
    "pad circular": lambda F, nn, v: F.pad(
        v.x(1, 2, 3, 4), (1, 2, 2, 0), mode="circular"
    ),
    "pad reflect": lambda F, nn, v: F.pad(v.x(1, 3, 4), (2, 1), mode="reflect"),
    "pairwise_distance": lambda F, nn, v: F.pairwise_distance(
        v.x(3, 4), v.x(3, 4), p=3.0, keepdim=True
    ),
    "pdist": lambda F, nn, v: F.pdist(v.x(4, 3)),
    "pixel_shuffle": lambda F, nn, v: F.pixel_shuffle(v.x(2, 8, 2, 3), 2),
    "pixel_unshuffle": lambda F, nn, v: F.pixel_unshuffle(v.x(2, 4, 6), 2),
    "rrelu": lambda F, nn, v: F.rrelu(v.x(2, 5)),
    "soft_margin_loss": lambda F, nn, v: F.soft_margin_loss(v.x(2, 3), v.sign(2, 3)),
    "softmin": lambda F, nn, v: F.softmin(v.x(2, 3), dim=0),
    "softshrink": lambda F, nn, v: F.softshrink(v.x(2, 5), 0.3),
    "tanhshrink": lambda F, nn, v: F.tanhshrink(v.x(2, 5)),
    "threshold": lambda F, nn, v: F.threshold(v.x(2, 5), 0.1, 20.0),
    "triplet_margin_loss": lambda F, nn, v: F.triplet_margin_loss(
        v.x(3, 4), v.x(3, 4), v.x(3, 4), swap=True
    ),
    "triplet_margin_with_distance_loss": lambda F, nn, v: (
        F.triplet_margin_with_distance_loss(v.x(3, 4), v.x(3, 4), v.x(3, 4), margin=2.0)
    ),
    "unfold": lambda F, nn, v: F.unfold(
        v.x(2, 3, 5, 6), (2, 3), dilation=(1, 2), padding=(1, 0), stride=2
    ),
    "upsample_bilinear": lambda F, nn, v: F.upsample_bilinear(
        v.x(1, 2, 3, 4), scale_factor=2
    ),
    "upsample_nearest": lambda F, nn, v: F.upsample_nearest(
        v.x(1, 2, 3, 4), size=(6, 5)
    ),
    # layers
    "CircularPad2d": lambda F, nn, v: nn.CircularPad2d((1, 2, 0, 1))(v.x(1, 2, 3, 4)),
    "ConstantPad1d": lambda F, nn, v: nn.ConstantPad1d(2, 1.5)(v.x(2, 3)),
    "ReflectionPad2d": lambda F, nn, v: nn.ReflectionPad2d(1)(v.x(1, 2, 3, 4)),
    "ReplicationPad3d": lambda F, nn, v: nn.ReplicationPad3d(1)(v.x(1, 1, 2, 3, 2)),
    "ZeroPad2d": lambda F, nn, v: nn.ZeroPad2d((0, 1, 2, 3))(v.x(1, 3, 4)),
    "BCEWithLogitsLoss": lambda F, nn, v: nn.BCEWithLogitsLoss(pos_weight=v.p(3))(
        v.x(2, 3), v.p(2, 3)
    ),
    "CrossEntropyLoss": lambda F, nn, v: nn.CrossEntropyLoss(
        weight=v.p(4), label_smoothing=0.1
    )(v.x(3, 4), v.i(LABELS)),
    "ChannelShuffle": lambda F, nn, v: nn.ChannelShuffle(2)(v.x(1, 4, 3)),
    "CosineEmbeddingLoss": lambda F, nn, v: nn.CosineEmbeddingLoss(0.1)(
        v.x(4, 3), v.x(4, 3), v.sign(4)
    ),
    "CosineSimilarity": lambda F, nn, v: nn.CosineSimilarity()(v.x(4, 3), v.x(4, 3)),
    "Fold": lambda F, nn, v: nn.Fold((4, 5), 2)(v.x(1, 8, 12)),
    "GaussianNLLLoss": lambda F, nn, v: nn.GaussianNLLLoss()(
        v.x(2, 3), v.x(2, 3), v.p(2, 3)
    ),
    "Hardshrink": lambda F, nn, v: nn.Hardshrink(0.3)(v.x(7)),
    "HingeEmbeddingLoss": lambda F, nn, v: nn.HingeEmbeddingLoss()(v.x(5), v.sign(5)),
    "KLDivLoss": lambda F, nn, v: nn.KLDivLoss(reduction="batchmean")(
        v.x(2, 3), v.p(2, 3)
    ),
    "LPPool2d": lambda F, nn, v: nn.LPPool2d(2, 2)(v.x(1, 2, 4, 4)),
    "LocalResponseNorm": lambda F, nn, v: nn.LocalResponseNorm(3)(v.x(1, 5, 4)),
    "MultiLabelMarginLoss": lambda F, nn, v: nn.MultiLabelMarginLoss()(
        v.x(2, 3), v.i([[2, 0, -1], [-1, 1, 0]])
    ),
    "MultiLabelSoftMarginLoss": lambda F, nn, v: nn.MultiLabelSoftMarginLoss(v.p(4))(
        v.x(2, 4), v.p(2, 4)
    ),
    "MultiMarginLoss": lambda F, nn, v: nn.MultiMarginLoss(weight=v.p(4))(
        v.x(3, 4), v.i(LABELS)
    ),
    "PairwiseDistance": lambda F, nn, v: nn.PairwiseDistance(1.0)(v.x(3, 4), v.x(3, 4)),
    "PixelShuffle": lambda F, nn, v: nn.PixelShuffle(3)(v.x(9, 2, 2)),
    "PixelUnshuffle": lambda F, nn, v: nn.PixelUnshuffle(3)(v.x(1, 1, 3, 6)),
    "RReLU": lambda F, nn, v: nn.RReLU().eval()(v.x(7)),
    "SoftMarginLoss": lambda F, nn, v: nn.SoftMarginLoss(reduction="sum")(
        v.x(4), v.sign(4)
    ),
    "Softmax2d": lambda F, nn, v: nn.Softmax2d()(v.x(2, 3, 2, 2)),
    "Softmin": lambda F, nn, v: nn.Softmin(dim=1)(v.x(2, 3)),
    "Softshrink": lambda F, nn, v: nn.Softshrink()(v.x(7)),
    "Tanhshrink": lambda F, nn, v: nn.Tanhshrink()(v.x(7)),
    "Threshold": lambda F, nn, v: nn.Threshold(0.2, -3.0)(v.x(7)),
    "TripletMarginLoss": lambda F, nn, v: nn.TripletMarginLoss(margin=0.5, p=1.0)(
        v.x(3, 4), v.x(3, 4), v.x(3, 4)
    ),
    "TripletMarginWithDistanceLoss": lambda F, nn, v: nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().sum(-1), swap=True
    )(v.x(3, 4), v.x(3, 4), v.x(3, 4)),
    "Unfold": lambda F, nn, v: nn.Unfold((2, 3))(v.x(1, 2, 4, 5)),
    "UpsamplingBilinear2d": lambda F, nn, v: nn.UpsamplingBilinear2d(size=(5, 7))(
        v.x(1, 1, 3, 4)
    ),
    "UpsamplingNearest2d": lambda F, nn, v: nn.UpsamplingNearest2d(scale_factor=2)(
        v.x(1, 1, 3, 4)
    ),
}
for _name in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
    for _rank in (1, 2, 3):
        CALLS[f"{_name}{_rank}d"] = (
            lambda F, nn, v, name=f"{_name}{_rank}d", rank=_rank: getattr(nn, name)(2)(
                v.x(1, 2, *(3, 5, 4)[:rank])
            )
        )
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        for _corners in (False, True):
            CALLS[f"grid_sample {_mode} {_padding} {_corners}"] = (
                lambda F, nn, v, mode=_mode, padding=_padding, corners=_corners: (
                    F.grid_sample(
                        v.x(2, 3, 4, 5), v.x(2, 3, 4, 2), mode, padding, corners
                    )
                )
            )
CALLS["grid_sample volumes"] = lambda F, nn, v: F.grid_sample(
    v.x(1, 2, 3, 4, 5), v.x(1, 2, 3, 4, 3), align_corners=False
)


def filled(layer: Any, v: Inputs, **shapes: tuple[int, ...]) -> Any:
    """The layer in use with numbers between 0.1 and 0.9 as its state, which is told by
    torch's names, with __ for a dot."""
    state = {
        name.replace("__", "."): v.p(*shape) if shape else v.i(np.int64(0))
        for name, shape in shapes.items()
    }
    layer.load_state_dict(state)
    return layer.eval()


HEADS: dict[str, Any] = {
    "in_proj_bias": (12,),
    "out_proj__weight": (4, 4),
    "out_proj__bias": (4,),
}
JOINED: dict[str, Any] = {"in_proj_weight": (12, 4), **HEADS}
HIDDEN: dict[str, Any] = {"query": (3, 2, 4), "key": (5, 2, 4), "value": (5, 2, 4)}
LAST = np.arange(10).reshape(2, 5) % 5 > 2  # keys that are padding


def attended(nn: Any, v: Inputs, result: int, settings: Any = (), **masks: Any) -> Any:
    """One of the two results of torch's attention."""
    layer = filled(nn.MultiheadAttention(4, 2, **dict(settings)), v, **JOINED)
    xs = {name: v.x(*shape) for name, shape in HIDDEN.items()}
    if dict(settings).get("batch_first"):
        xs = {name: x.swapaxes(0, 1) for name, x in xs.items()}
    return layer(**xs, **masks)[result]


def recurrent(nn: Any, v: Inputs, kind: str, gates: int) -> Any:
    """A recurrent layer of 3 inputs and 2 units."""
    rows = 2 * gates
    return filled(
        getattr(nn, kind)(3, 2),
        v,
        weight_ih_l0=(rows, 3),
        weight_hh_l0=(rows, 2),
        bias_ih_l0=(rows,),
        bias_hh_l0=(rows,),
    )


def placed(pair: Any) -> Any:
    """The values of a pool times their places."""
    return pair[0] * pair[1].float()


CALLS |= {
    "embedding padding": lambda F, nn, v: F.embedding(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), padding_idx=1
    ),
    "embedding norm": lambda F, nn, v: F.embedding(
        v.i([[0, 2], [1, 1]]), v.x(3, 4), max_norm=1.5
    ),
    "embedding norm 1": lambda F, nn, v: F.embedding(
        v.i([2, 0, 2]), v.x(3, 4), None, 1.0, 1.0
    ),
    "embedding frequency": lambda F, nn, v: F.embedding(
        v.i([[0, 2], [1, 1], [1, 2]]), v.x(3, 4), scale_grad_by_freq=True
    ),
    "Embedding pretrained": lambda F, nn, v: (
        nn.Embedding.from_pretrained(v.p(3, 4), padding_idx=1)(v.i([0, 1])) * v.x(4)
    ),
    "cross_entropy ignored": lambda F, nn, v: F.cross_entropy(
        v.x(3, 4), v.i([1, -100, 2]), ignore_index=-100
    ),
    "cross_entropy smooth": lambda F, nn, v: F.cross_entropy(
        v.x(3, 4), v.i(LABELS), v.p(4), ignore_index=0, label_smoothing=0.2
    ),
    "cross_entropy probabilities": lambda F, nn, v: F.cross_entropy(
        v.x(3, 4), v.p(3, 4), v.p(4), label_smoothing=0.2
    ),
    "nll_loss ignored": lambda F, nn, v: F.nll_loss(
        v.x(3, 4), v.i([1, -100, 2]), v.p(4), ignore_index=-100, reduction="sum"
    ),
    "NLLLoss": lambda F, nn, v: nn.NLLLoss(v.p(4), ignore_index=0)(
        v.x(3, 4), v.i(LABELS)
    ),
    "BCELoss": lambda F, nn, v: nn.BCELoss(v.p(2, 3))(F.sigmoid(v.x(2, 3)), v.p(2, 3)),
    "BCEWithLogitsLoss weight": lambda F, nn, v: nn.BCEWithLogitsLoss(v.p(2, 3))(
        v.x(2, 3), v.p(2, 3)
    ),
    "poisson_nll_loss": lambda F, nn, v: F.poisson_nll_loss(
        v.x(5), v.i([0, 1, 2, 3, 7]), full=True
    ),
    "PoissonNLLLoss": lambda F, nn, v: nn.PoissonNLLLoss(False, eps=0.5)(
        v.x(5) ** 2, v.p(5)
    ),
    "softplus threshold": lambda F, nn, v: F.softplus(v.x(2, 5), 2.0, 1.0),
    "relu inplace": lambda F, nn, v: F.relu(v.x(2, 5) * 1.0, inplace=True),
    "mse_loss weight": lambda F, nn, v: F.mse_loss(
        v.x(2, 3), v.x(2, 3), weight=v.p(2, 3)
    ),
    "l1_loss weight": lambda F, nn, v: F.l1_loss(
        v.x(2, 3), v.x(2, 3), weight=v.p(2, 3)
    ),
    "huber_loss weight": lambda F, nn, v: F.huber_loss(
        v.x(2, 3), v.x(2, 3), delta=0.5, weight=v.p(2, 3)
    ),
    "scaled_dot_product_attention gqa": lambda F, nn, v: F.scaled_dot_product_attention(
        v.x(1, 4, 3, 2), v.x(1, 2, 5, 2), v.x(1, 2, 5, 2), enable_gqa=True
    ),
    "upsample by size": lambda F, nn, v: F.upsample(v.x(1, 2, 2, 3), (4, 5)),
    "alpha_dropout": lambda F, nn, v: F.alpha_dropout(v.x(2, 3)),
    "softmax by names": lambda F, nn, v: F.softmax(input=v.x(2, 5), dim=1),
    "avg_pool2d divisor": lambda F, nn, v: F.avg_pool2d(
        v.x(1, 2, 5, 6), 2, padding=1, divisor_override=3
    ),
    "avg_pool2d without padding": lambda F, nn, v: F.avg_pool2d(
        v.x(1, 2, 5, 6), 3, 2, 1, True, False
    ),
    "AvgPool3d alone": lambda F, nn, v: nn.AvgPool3d(2, divisor_override=5)(
        v.x(2, 4, 4, 5)
    ),
    "max_pool1d by names": lambda F, nn, v: F.max_pool1d(
        input=v.x(1, 2, 6), kernel_size=2, return_indices=False
    ),
    "max_pool2d alone": lambda F, nn, v: F.max_pool2d(v.x(2, 5, 6), 2, ceil_mode=True),
    "max_pool2d places": lambda F, nn, v: placed(
        F.max_pool2d(v.x(1, 2, 5, 6), 3, 2, 1, return_indices=True)
    ),
    "MaxPool3d places": lambda F, nn, v: placed(
        nn.MaxPool3d(2, return_indices=True)(v.x(2, 4, 4, 5))
    ),
    "adaptive_max_pool2d places": lambda F, nn, v: placed(
        F.adaptive_max_pool2d(v.x(2, 3, 6, 7), (3, 4), return_indices=True)
    ),
    "AdaptiveMaxPool1d places": lambda F, nn, v: placed(
        nn.AdaptiveMaxPool1d(3, return_indices=True)(v.x(2, 7))
    ),
    "max_unpool1d": lambda F, nn, v: F.max_unpool1d(
        *F.max_pool1d(v.x(1, 2, 7), 2, 3, 1, return_indices=True), 2, 3, 1
    ),
    "max_unpool2d": lambda F, nn, v: F.max_unpool2d(
        *F.max_pool2d(v.x(2, 3, 5, 6), 2, return_indices=True), 2, output_size=(5, 6)
    ),
    "MaxUnpool2d": lambda F, nn, v: nn.MaxUnpool2d(2)(
        *F.max_pool2d(v.x(3, 4, 6), 2, return_indices=True)
    ),
    "max_unpool3d": lambda F, nn, v: F.max_unpool3d(
        *F.max_pool3d(v.x(1, 2, 4, 4, 4), 2, return_indices=True), 2
    ),
    "fractional_max_pool2d": lambda F, nn, v: F.fractional_max_pool2d(
        v.x(2, 3, 9, 7), (2, 3), (4, 3), _random_samples=v.p(2, 3, 2)
    ),
    "fractional_max_pool3d": lambda F, nn, v: F.fractional_max_pool3d(
        v.x(1, 2, 6, 7, 8), 2, output_ratio=0.6, _random_samples=v.p(1, 2, 3)
    ),
    "FractionalMaxPool2d places": lambda F, nn, v: placed(
        nn.FractionalMaxPool2d(
            2, output_ratio=0.5, return_indices=True, _random_samples=v.p(1, 2, 2)
        )(v.x(1, 2, 7, 9))
    ),
    "conv1d alone": lambda F, nn, v: F.conv1d(v.x(3, 7), v.x(4, 3, 2), padding=1),
    "conv2d alone": lambda F, nn, v: F.conv2d(v.x(2, 5, 6), v.x(4, 1, 3, 2), groups=2),
    "conv3d alone": lambda F, nn, v: F.conv3d(v.x(2, 3, 4, 4), v.x(3, 2, 2, 2, 2)),
    "conv_transpose1d alone": lambda F, nn, v: F.conv_transpose1d(
        v.x(3, 5), v.x(3, 2, 3), stride=2
    ),
    "conv_transpose3d alone": lambda F, nn, v: F.conv_transpose3d(
        v.x(2, 2, 2, 3), v.x(2, 1, 2, 2, 2)
    ),
    "Conv2d circular alone": lambda F, nn, v: filled(
        nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
        v,
        weight=(3, 2, 3, 3),
        bias=(3,),
    )(v.x(2, 4, 5)),
    "ConvTranspose2d size": lambda F, nn, v: filled(
        nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1),
        v,
        weight=(2, 3, 3, 3),
        bias=(3,),
    )(v.x(1, 2, 4, 5), output_size=(8, 9)),
    "InstanceNorm1d alone": lambda F, nn, v: nn.InstanceNorm1d(2, 1e-4, 0.1, True)(
        v.x(2, 5)
    ),
    "InstanceNorm2d running": lambda F, nn, v: filled(
        nn.InstanceNorm2d(2, track_running_stats=True),
        v,
        running_mean=(2,),
        running_var=(2,),
        num_batches_tracked=(),
    )(v.x(2, 2, 3, 4)),
    "Upsample size": lambda F, nn, v: nn.Upsample(6)(v.x(1, 2, 4)),
    "interpolate recomputed": lambda F, nn, v: F.interpolate(
        v.x(1, 2, 5), scale_factor=1.3, mode="linear", recompute_scale_factor=True
    ),
    "LSTM alone": lambda F, nn, v: recurrent(nn, v, "LSTM", 4)(v.x(5, 3))[0],
    "LSTM alone from a state": lambda F, nn, v: recurrent(nn, v, "LSTM", 4)(
        v.x(5, 3), (v.x(1, 2), v.x(1, 2))
    )[1][1],
    "GRU alone": lambda F, nn, v: recurrent(nn, v, "GRU", 3)(v.x(5, 3), hx=v.x(1, 2))[
        1
    ],
    "RNN alone": lambda F, nn, v: recurrent(nn, v, "RNN", 1)(v.x(5, 3))[0],
    "MultiheadAttention": lambda F, nn, v: attended(nn, v, 0),
    "MultiheadAttention weights": lambda F, nn, v: attended(nn, v, 1),
    "MultiheadAttention without weights": lambda F, nn, v: attended(
        nn, v, 0, need_weights=False
    ),
    "MultiheadAttention of heads": lambda F, nn, v: attended(
        nn, v, 1, average_attn_weights=False
    ),
    "MultiheadAttention padded": lambda F, nn, v: attended(
        nn, v, 0, {"batch_first": True}, key_padding_mask=v.i(LAST)
    ),
    "MultiheadAttention masked": lambda F, nn, v: attended(
        nn, v, 1, attn_mask=v.i(np.arange(15).reshape(3, 5) % 4 == 1)
    ),
    "MultiheadAttention by heads masked": lambda F, nn, v: attended(
        nn, v, 0, attn_mask=v.i(np.arange(60).reshape(4, 3, 5) % 7 == 1)
    ),
    "MultiheadAttention biased": lambda F, nn, v: attended(
        nn, v, 0, attn_mask=v.p(3, 5), key_padding_mask=v.p(2, 5)
    ),
    "MultiheadAttention alone": lambda F, nn, v: filled(
        nn.MultiheadAttention(4, 2), v, **JOINED
    )(v.x(3, 4), v.x(5, 4), v.x(5, 4), key_padding_mask=v.i(LAST[0]))[0],
    "MultiheadAttention of widths": lambda F, nn, v: filled(
        nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True),
        v,
        q_proj_weight=(4, 4),
        k_proj_weight=(4, 3),
        v_proj_weight=(4, 2),
        **HEADS,
    )(v.x(2, 3, 4), v.x(2, 5, 3), v.x(2, 5, 2))[0],
    "MultiheadAttention with more keys": lambda F, nn, v: filled(
        nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True),
        v,
        bias_k=(1, 1, 4),
        bias_v=(1, 1, 4),
        **JOINED,
    )(v.x(3, 2, 4), v.x(5, 2, 4), v.x(5, 2, 4), key_padding_mask=v.i(LAST))[0],
    "TransformerEncoderLayer": lambda F, nn, v: filled(
        nn.TransformerEncoderLayer(4, 2, 6, batch_first=True),
        v,
        **{f"self_attn__{name}": shape for name, shape in JOINED.items()},
        linear1__weight=(6, 4),
        linear1__bias=(6,),
        linear2__weight=(4, 6),
        linear2__bias=(4,),
        **{f"norm{k}__{name}": (4,) for k in (1, 2) for name in ("weight", "bias")},
    )(
        v.x(2, 5, 4),
        src_mask=v.i(np.arange(25).reshape(5, 5) % 6 == 1),
        src_key_padding_mask=v.i(LAST),
    ),
}


# Of each call: the shape, the number of the values, and that of the gradient.
NUMBERS: dict[str, tuple[tuple[int, ...], float, float]] = {
    "adaptive_avg_pool1d": ((2, 3, 3), 2.8298243, 0.58673486),
    "adaptive_avg_pool2d": ((2, 5, 2), 0.69793371, 0.21069819),
    "adaptive_avg_pool3d": ((1, 2, 2, 2, 2), 0.86121045, -0.84351399),
    "adaptive_max_pool1d": ((2, 3, 3), 3.5477738, 0.93884132),
    "adaptive_max_pool2d": ((2, 3, 3, 4), 4.1892518, 8.933952),
    "adaptive_max_pool3d": ((1, 2, 2, 2, 2), -1.155933, 0.93887402),
    "affine_grid": ((2, 3, 4, 2), -1.6382364, 1.8742381),
    "affine_grid corners": ((1, 2, 3, 4, 3), 2.3051839, -3.4976707),
    "batch_norm": ((3, 2, 4), 5.1177695, 14.083051),
    "batch_norm training": ((3, 2, 4), 0.26911561, 11.147279),
    "bilinear": ((2, 5), 2.1599403, 1.1557416),
    "binary_cross_entropy_with_logits": ((), 0.26336292, 0.015419802),
    "channel_shuffle": ((2, 6, 3), 0.91735715, 7.282204),
    "cosine_embedding_loss": ((), 0.42153046, 0.01549006),
    "cosine_similarity": ((2, 4), 3.5926663, 0.65713898),
    "cross_entropy": ((), 1.0057969, -0.11694144),
    "embedding_bag": ((2, 4), 4.6055932, 1.3097383),
    "embedding_bag max": ((2, 4), 5.6132908, 3.4587227),
    "embedding_bag offsets": ((3, 4), 4.1365998, 4.2013654),
    "embedding_bag weights": ((2, 4), 5.6415917, 0.69470078),
    "fold": ((1, 2, 5, 6), -0.30087879, -0.26529962),
    "gaussian_nll_loss": ((), 0.81919607, -0.13570755),
    "gaussian_nll_loss rows": ((2, 3), -0.51416135, -0.74558695),
    "hardshrink": ((2, 5), 5.5655317, 3.7688076),
    "hinge_embedding_loss": ((), 0.61069262, 0.11041032),
    "instance_norm": ((2, 3, 4), 5.4236101, 0.73080082),
    "instance_norm running": ((2, 3, 4), 1.7470625, 13.292661),
    "kl_div": ((), -2.0979174, -0.94651852),
    "kl_div log": ((), 0.022289785, -1.5373447),
    "local_response_norm": ((2, 5, 3), 3.1986361, 10.21048),
    "lp_pool1d": ((2, 3, 3), 2.4246069, 2.0464976),
    "lp_pool2d": ((1, 2, 2, 2), 2.430438, 3.0660614),
    "lp_pool3d": ((1, 2, 2, 2, 2), -1.9149779, -0.0420101),
    "multi_margin_loss": ((), 0.16440216, -0.041918394),
    "multi_margin_loss one": ((), 0.32347755, -0.022471662),
    "multilabel_margin_loss": ((2,), 2.8015031, 0.27527296),
    "multilabel_soft_margin_loss": ((), 0.48649671, 0.061061511),
    "nll_loss": ((), -0.95099538, -0.077857197),
    "normalize": ((2, 3, 4), 1.9455159, 4.9745513),
    "normalize 3": ((2, 3), 2.4935923, 0.68919934),
    "pad": ((2, 4, 7), 1.4940252, 3.8727731),
    "pad circular": ((1, 2, 5, 7), 7.8086696, 2.4709262),
    "pad reflect": ((1, 3, 7), 9.0857705, -0.9304823),
    "pairwise_distance": ((3, 1), 1.3162731, 0.39058612),
    "pdist": ((6,), 5.7188751, 2.5896759),
    "pixel_shuffle": ((2, 2, 4, 6), 7.3763344, 0.94430699),
    "pixel_unshuffle": ((8, 2, 3), 10.433195, -1.5654469),
    "rrelu": ((2, 5), 3.1763979, 3.8251106),
    "soft_margin_loss": ((), 0.76802468, 0.13503669),
    "softmin": ((2, 3), 0.67811778, -0.32119999),
    "softshrink": ((2, 5), 4.0897803, 5.6779429),
    "tanhshrink": ((2, 5), 1.7611367, 2.6731591),
    "threshold": ((2, 5), -56.668408, 3.2741587),
    "triplet_margin_loss": ((), 1.0056539, 0.32702388),
    "triplet_margin_with_distance_loss": ((), 1.4103862, -0.095651281),
    "unfold": ((2, 18, 3), 0.87958925, 0.33942345),
    "upsample_bilinear": ((1, 2, 6, 8), -1.2436259, 5.2054561),
    "upsample_nearest": ((1, 2, 6, 5), -1.6469178, 0.56901063),
    "CircularPad2d": ((1, 2, 4, 7), 2.748859, -1.9490848),
    "ConstantPad1d": ((2, 7), -1.3736181, 0.8326481),
    "ReflectionPad2d": ((1, 2, 5, 6), -3.4126567, -9.3434543),
    "ReplicationPad3d": ((1, 1, 4, 5, 4), -15.380007, -5.5713832),
    "ZeroPad2d": ((1, 8, 5), -6.2298729, -2.8120467),
    "BCEWithLogitsLoss": ((), 0.59268457, 0.037325701),
    "CrossEntropyLoss": ((), 1.0405569, -0.098066478),
    "ChannelShuffle": ((1, 4, 3), 0.20695078, 4.3152199),
    "CosineEmbeddingLoss": ((), 0.47128068, 0.01549006),
    "CosineSimilarity": ((4,), 2.7620659, 0.013344834),
    "Fold": ((1, 2, 4, 5), -8.8382649, -0.38170757),
    "GaussianNLLLoss": ((), -0.20716892, -0.14179301),
    "Hardshrink": ((7,), 4.2553115, 2.9559276),
    "HingeEmbeddingLoss": ((), 0.67039288, 0.11041032),
    "KLDivLoss": ((), -2.0979174, -0.94651852),
    "LPPool2d": ((1, 2, 2, 2), 2.1294921, 0.80507554),
    "LocalResponseNorm": ((1, 5, 4), 1.4171778, 10.724728),
    "MultiLabelMarginLoss": ((), 0.43011299, 0.020011125),
    "MultiLabelSoftMarginLoss": ((), 0.48649671, 0.061061511),
    "MultiMarginLoss": ((), 0.2487476, -0.058905141),
    "PairwiseDistance": ((3,), 2.7766151, 0.48351895),
    "PixelShuffle": ((1, 6, 6), -1.110579, -0.61700579),
    "PixelUnshuffle": ((1, 9, 1, 2), -0.04923039, 8.6431462),
    "RReLU": ((7,), 3.2230726, 2.492841),
    "SoftMarginLoss": ((), 2.7014417, 0.54257771),
    "Softmax2d": ((2, 3, 2, 2), 1.6812046, 2.6775925),
    "Softmin": ((2, 3), 0.69316725, -0.072699938),
    "Softshrink": ((7,), 2.3326021, 1.9658943),
    "Tanhshrink": ((7,), 1.3277815, 1.6314514),
    "Threshold": ((7,), 6.0982563, 2.3550566),
    "TripletMarginLoss": ((), 0, 0),
    "TripletMarginWithDistanceLoss": ((), 1.0190888, 0.39912207),
    "Unfold": ((1, 12, 9), 1.1748534, 7.95594),
    "UpsamplingBilinear2d": ((1, 1, 5, 7), 0.73064945, 0.10331136),
    "UpsamplingNearest2d": ((1, 1, 6, 8), -1.0857952, 0.24750945),
    "AdaptiveAvgPool1d": ((1, 2, 2), 2.2822184, 1.6813422),
    "AdaptiveAvgPool2d": ((1, 2, 2, 2), -0.17767086, 0.099884532),
    "AdaptiveAvgPool3d": ((1, 2, 2, 2, 2), 1.1501633, -1.1879331),
    "AdaptiveMaxPool1d": ((1, 2, 2), 3.280394, 1.7145812),
    "AdaptiveMaxPool2d": ((1, 2, 2, 2), 1.3212019, 0.51795817),
    "AdaptiveMaxPool3d": ((1, 2, 2, 2, 2), -1.3376747, -0.85902962),
    "grid_sample bilinear zeros False": ((2, 3, 3, 4), 0.62950054, 0.57824173),
    "grid_sample bilinear zeros True": ((2, 3, 3, 4), 3.0280326, 2.4677067),
    "grid_sample bilinear border False": ((2, 3, 3, 4), 9.0197132, 4.980089),
    "grid_sample bilinear border True": ((2, 3, 3, 4), 7.4089356, 4.7188534),
    "grid_sample bilinear reflection False": ((2, 3, 3, 4), 5.9143876, 4.6330906),
    "grid_sample bilinear reflection True": ((2, 3, 3, 4), 1.347559, 3.2796712),
    "grid_sample nearest zeros False": ((2, 3, 3, 4), 0.7135136, 1.1235706),
    "grid_sample nearest zeros True": ((2, 3, 3, 4), 2.3749654, 2.4117779),
    "grid_sample nearest border False": ((2, 3, 3, 4), 9.3192764, 5.7388079),
    "grid_sample nearest border True": ((2, 3, 3, 4), 4.889702, 4.2946723),
    "grid_sample nearest reflection False": ((2, 3, 3, 4), 10.488175, 5.7595988),
    "grid_sample nearest reflection True": ((2, 3, 3, 4), -4.1169941, 3.174266),
    "grid_sample bicubic zeros False": ((2, 3, 3, 4), 0.39131107, 0.27814378),
    "grid_sample bicubic zeros True": ((2, 3, 3, 4), 3.5983402, 3.0823613),
    "grid_sample bicubic border False": ((2, 3, 3, 4), 9.0854204, 5.3125517),
    "grid_sample bicubic border True": ((2, 3, 3, 4), 7.7201535, 5.3270214),
    "grid_sample bicubic reflection False": ((2, 3, 3, 4), 6.0319124, 5.337285),
    "grid_sample bicubic reflection True": ((2, 3, 3, 4), 0.79239517, 4.2825001),
    "grid_sample volumes": ((1, 2, 2, 3, 4), 0.10211721, -0.11587953),
    "embedding padding": ((2, 2, 4), 1.1591083, 3.7222523),
    "embedding norm": ((2, 2, 4), 0.670242, 3.9268681),
    "embedding norm 1": ((3, 4), -0.68319757, -0.86347723),
    "embedding frequency": ((3, 2, 4), -3.5740008, 2.741749),
    "Embedding pretrained": ((2, 4), 0.48735996, 0.96932969),
    "cross_entropy ignored": ((), 1.1381318, -0.053318604),
    "cross_entropy smooth": ((), 1.1574579, -0.044209589),
    "cross_entropy probabilities": ((), 1.9045979, 0.11280327),
    "nll_loss ignored": ((), -2.089586, -0.17932326),
    "NLLLoss": ((), -1.2621255, -0.10831258),
    "BCELoss": ((), 0.28995817, 0.00054119228),
    "BCEWithLogitsLoss weight": ((), 0.28995814, 0.00054119342),
    "poisson_nll_loss": ((), 3.2937695, 1.0737578),
    "PoissonNLLLoss": ((), 0.74383287, 0.67951865),
    "softplus threshold": ((2, 5), 2.2620272, 3.0659041),
    "relu inplace": ((2, 5), 2.4683503, 3.2742434),
    "softmax by names": ((2, 5), -0.21683419, 0.12473983),
    "avg_pool2d divisor": ((1, 2, 3, 4), 1.5556648, 1.2806368),
    "avg_pool2d without padding": ((1, 2, 3, 4), -0.16857443, 1.0137422),
    "AvgPool3d alone": ((2, 2, 2, 2), 0.40397883, 0.45597213),
    "max_pool1d by names": ((1, 2, 3), 1.6022583, 1.3583342),
    "max_pool2d alone": ((2, 3, 3), 3.6990552, 1.7241578),
    "max_pool2d places": ((1, 2, 3, 3), 10.50798, -33.212499),
    "MaxPool3d places": ((2, 2, 2, 2), -81.221858, 118.24397),
    "adaptive_max_pool2d places": ((2, 3, 3, 4), -49.688716, 157.76805),
    "AdaptiveMaxPool1d places": ((2, 3), 3.8569218, 2.6003119),
    "max_unpool1d": ((1, 2, 6), 0.93989625, 3.0321995),
    "max_unpool2d": ((2, 3, 5, 6), 2.8182254, 18.117014),
    "MaxUnpool2d": ((3, 4, 6), 3.8853515, 5.0326539),
    "max_unpool3d": ((1, 2, 4, 4, 4), 0.39910048, 7.2466351),
    "fractional_max_pool2d": ((2, 3, 4, 3), 4.6895298, 1.7406396),
    "fractional_max_pool3d": ((1, 2, 3, 4, 4), -3.0320986, 2.8997389),
    "FractionalMaxPool2d places": ((1, 2, 3, 4), 24.648505, -25.128893),
    "conv1d alone": ((4, 8), 29.110662, 17.546741),
    "conv2d alone": ((4, 3, 5), -9.2058414, 3.9222948),
    "conv3d alone": ((3, 2, 3, 3), 9.4169623, 0.18216931),
    "conv_transpose1d alone": ((2, 11), -12.656506, -12.309784),
    "conv_transpose3d alone": ((1, 3, 3, 4), -11.118481, -14.334679),
    "Conv2d circular alone": ((3, 4, 5), -8.927428, 13.069751),
    "ConvTranspose2d size": ((1, 3, 8, 9), -6.513601, -2.3273422),
    "InstanceNorm1d alone": ((2, 5), 0.36298565, 1.3407388),
    "InstanceNorm2d running": ((2, 2, 3, 4), 7.3467092, 28.594688),
    "Upsample size": ((1, 2, 6), 5.8808166, 4.6105957),
    "interpolate recomputed": ((1, 2, 6), 6.9037377, 6.2840875),
    "LSTM alone": ((5, 2), -1.1635703, 0.51737798),
    "LSTM alone from a state": ((1, 2), 5.0877433, -1.4880164),
    "GRU alone": ((1, 2), 0.78492246, -1.0138774),
    "RNN alone": ((5, 2), -0.98983259, 0.058768808),
    "MultiheadAttention": ((3, 2, 4), 11.165592, 32.302711),
    "MultiheadAttention weights": ((2, 3, 5), 0.51494593, -1.6672297),
    "MultiheadAttention without weights": ((3, 2, 4), 11.165592, 32.30272),
    "MultiheadAttention of heads": ((2, 2, 3, 5), -0.31516263, -2.8170449),
    "MultiheadAttention padded": ((2, 3, 4), -18.234633, -0.87585839),
    "MultiheadAttention masked": ((2, 3, 5), 0.32144973, -1.7276106),
    "MultiheadAttention by heads masked": ((3, 2, 4), 16.972138, 21.030272),
    "MultiheadAttention biased": ((3, 2, 4), 11.886983, 29.720014),
    "MultiheadAttention alone": ((3, 4), 3.1939002, -0.20196874),
    "MultiheadAttention of widths": ((2, 3, 4), 6.8444231, 7.4934988),
    "MultiheadAttention with more keys": ((3, 2, 4), 13.265008, 16.604112),
    "TransformerEncoderLayer": ((2, 5, 4), 2.2505122, -0.57118939),
    "embedding_bag without": ((2, 4), 5.4470742, 3.7655682),
    "embedding_bag max without": ((2, 4), 3.0831521, 2.0482111),
    "embedding_bag ends": ((2, 4), 5.4470742, 3.7655682),
    "embedding_bag in order": ((2, 4), 5.6415917, 0.69470078),
    "mse_loss weight": ((), 0.07783246, -0.19989343),
    "l1_loss weight": ((), 0.25313827, -0.27722112),
    "huber_loss weight": ((), 0.019309016, -0.049590436),
    "scaled_dot_product_attention gqa": ((1, 4, 3, 2), 2.3751701, 6.570036),
    "upsample by size": ((1, 2, 4, 5), 8.0675189, -0.76758722),
    "alpha_dropout": ((2, 3), 3.2561086, 2.4921752),
}


def main() -> None:
    """Print the numbers of torch."""
    import torch

    for name, call in CALLS.items():
        inputs = Inputs(
            lambda x: torch.tensor(x, requires_grad=True), lambda x: torch.tensor(x)
        )
        y = call(torch.nn.functional, torch.nn, inputs)
        places = np.cos(np.arange(y.numel()) * 0.37 + 0.1).reshape(tuple(y.shape))
        (y.double() * torch.tensor(places)).sum().backward()
        slope = checksum(inputs.first.grad.numpy())
        value = checksum(y.detach().numpy())
        print(f"    {name!r}: ({tuple(y.shape)}, {value:.8g}, {slope:.8g}),")


if __name__ == "__main__":
    main()
