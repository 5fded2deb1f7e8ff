"""Distances of values: losses of regression, distances, similarities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator
from treadle.base.errors import ArgumentError, ShapeError, TreadleError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, astype, carried_wide, operands
from treadle.ops.normalization import normalize
from treadle.ops.norms import norm
from treadle.ops.power import log, squared_modulus
from treadle.ops.reduce import sum
from treadle.ops.rounding import abs
from treadle.ops.select import maximum, minimum, where

__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "huber_loss",
    "kl_div",
    "l1_distance",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "squared_distance",
    "triplet_margin_loss",
]


def reduced(
    values: Tensor, reduction: str, name: str, counts: Tensor | None = None
) -> Tensor:
    """The mean (of as many as `counts` sums to), the sum or the values themselves.

    A mean of nothing that counts is 0.
    """
    plain = reduction in ("sum", "mean") and counts is None
    if reduction == "none" or (plain and not values.type.shape):
        return values
    if reduction == "sum":
        return values.sum()
    if reduction != "mean":
        raise ArgumentError(
            f'reduction is "mean", "sum" or "none", not {reduction!r}'
        ).located(name)
    if counts is None:
        return values.mean()
    wide = accumulator(values.type.dtype)
    total = astype(counts, wide).sum()
    share = astype(values, wide).sum() / where(total > 0, total, 1)
    return astype(share, values.type.dtype)


def pair(x: Any, target: Any, name: str) -> tuple[Tensor, Tensor]:
    """A prediction and a target of its shape, or a scalar one, in one float type."""
    a, b = operands(as_float(x), target)
    try:
        a, b = align([a, b])
        if b.type.shape and a.type.shape != b.type.shape:
            raise ShapeError(
                f"prediction {a.type} with target {b.type}",
                hint="they do not broadcast: reshape one of them",
            )
    except TreadleError as error:
        raise error.located(name) from None
    return a, b


def _weighted(values: Tensor, weight: Any, reduction: str, name: str) -> Tensor:
    """`reduced` values by the weights of the elements, if any; the mean is by them."""
    if weight is None:
        return reduced(values, reduction, name)
    weights = as_tensor(weight)
    if weights.shape != values.shape:
        message = f"weights {weights.type} of values {values.type}"
        raise ShapeError(message).located(name)
    return reduced(values * weights, reduction, name, weights)


@recorded
@carried_wide
def mse_loss(
    prediction: Any, target: Any, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """(prediction - target)², or |prediction - target|² of complex numbers; `weight`
    has a number for each element, and the mean is by them.

    >>> float(td.mse_loss([1.0, 3.0], [1.0, 1.0]))
    2.0
    """
    a, b = pair(prediction, target, "mse_loss")
    return _weighted(squared_modulus(a - b), weight, reduction, "mse_loss")


@recorded
@carried_wide
def l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", weight: Any = None
) -> Tensor:
    """|prediction - target|, by weights as `mse_loss`.

    >>> float(td.l1_loss([1.0, 3.0], [1.0, 1.0]))
    1.0
    """
    a, b = pair(prediction, target, "l1_loss")
    return _weighted(abs(a - b), weight, reduction, "l1_loss")


@recorded
@carried_wide
def huber_loss(
    prediction: Any,
    target: Any,
    reduction: str = "mean",
    delta: Any = 1.0,
    weight: Any = None,
) -> Tensor:
    """d²/2 where d = |prediction - target| is at most delta, else delta (d - delta/2).

    `weight` multiplies the elements; the mean is of these products, as torch's. Huber,
    Robust estimation of a location parameter, 1964.

    >>> float(td.huber_loss([3.0], [0.0]))
    2.5
    """
    a, b = pair(prediction, target, "huber_loss")
    size = abs(a - b)
    near = minimum(size, delta)
    values = near * near * 0.5 + (size - near) * delta
    values = values if weight is None else values * weight
    return reduced(values, reduction, "huber_loss")


@recorded
@carried_wide
def smooth_l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", beta: Any = 1.0
) -> Tensor:
    """The Huber loss with delta = beta, divided by beta; |d| where beta is 0.

    Girshick, Fast R-CNN, 2015.

    >>> float(td.smooth_l1_loss([3.0], [0.0], beta=2.0))
    2.0
    """
    if isinstance(beta, (int, float)) and beta == 0:
        return l1_loss(prediction, target, reduction)
    return huber_loss(prediction, target, reduction, beta) / beta


@carried_wide
def poisson_nll_loss(
    x: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """e^x - target x for a log-rate x, or x - target log x for a rate.

    The negative log-likelihood of counts, without log(target!) unless `full`.

    >>> float(td.poisson_nll_loss([0.0], [2.0]))
    1.0
    """
    a, b = pair(x, target, "poisson_nll_loss")
    if log_input:
        values = functions.exp(a) - b * a
    else:
        values = a - b * log(a + 1e-8)
    if full:
        values = values + functions.lgamma(b + 1.0)
    return reduced(values, reduction, "poisson_nll_loss")


@recorded
@carried_wide
def kl_div(
    prediction: Any, target: Any, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """p (log p - log q) of a prediction log q and a target p, 0 where p is: the terms
    of the divergence of q from p.

    "sum" is the divergence, "batchmean" its mean over the first dimension.
    `log_target` says that the target is log p.

    >>> f"{float(td.kl_div(td.log([0.5, 0.5]), [1.0, 0.0], reduction='sum')):.4f}"
    '0.6931'
    """
    a, b = pair(prediction, target, "kl_div")
    if log_target:
        mass = functions.exp(b)
        # log p of -inf is kept from gradients, which would be 0 times it.
        least = float(np.finfo(b.type.dtype).min)
        values = where(mass == 0, 0, mass * (maximum(b, least) - a))
    else:
        values = b * (log(where(b == 0, 1, b)) - where(b == 0, 0, a))
    if reduction == "batchmean":
        rows = values.type.shape[0] if values.type.shape else 1
        return values.sum() / max(rows, 1)
    return reduced(values, reduction, "kl_div")


@carried_wide
def squared_distance(x: Any, y: Any, axis: Any = None) -> Tensor:
    """The sum of (x - y)², or |x - y|², over `axis` or over all; x and y broadcast.

    >>> float(td.squared_distance([1.0, 3.0], [1.0, 1.0]))
    4.0
    """
    a, b = operands(as_float(x), y)
    return sum(squared_modulus(a - b), axis)


@carried_wide
def l1_distance(x: Any, y: Any, axis: Any = None) -> Tensor:
    """The sum of |x - y| over `axis`, or over all; x and y broadcast.

    >>> float(td.l1_distance([1.0, 3.0], [1.0, 1.0]))
    2.0
    """
    a, b = operands(as_float(x), y)
    return sum(abs(a - b), axis)


@recorded
@carried_wide
def cosine_similarity(x: Any, y: Any, axis: Any = -1, eps: Any = 1e-8) -> Tensor:
    """The cosine of the angle between x and y along `axis`: x·y / (|x| |y|).

    Norms below `eps` count as `eps`, so a zero is at right angles to everything.

    >>> f"{float(td.cosine_similarity([1.0, 0.0], [3.0, 4.0])):.4f}"
    '0.6000'
    """
    a, b = pair(x, y, "cosine_similarity")
    return sum(normalize(a, axis, eps) * normalize(b, axis, eps), axis)


@carried_wide
def cosine_embedding_loss(
    x: Any, y: Any, target: Any, margin: Any = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x, y) for targets above 0, max(0, cos(x, y) - margin) for others.

    >>> float(td.cosine_embedding_loss([[1.0, 0.0]], [[0.0, 1.0]], [1]))
    1.0
    """
    name = "cosine_embedding_loss"
    cosine, alike = pair(cosine_similarity(x, y), target, name)
    values = where(alike > 0, 1.0 - cosine, maximum(cosine - margin, 0))
    return reduced(values, reduction, name)


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
        far = minimum(far, d(p, n))
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

    Balntas et al., Learning local feature descriptors with triplets, 2016.

    >>> f"{float(td.triplet_margin_loss([[0.0]], [[2.0]], [[1.0]])):.3f}"
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
