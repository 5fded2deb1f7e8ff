"""Losses of classification: how unlikely a model holds the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, is_inexact
from treadle.base.errors import ArgumentError, ShapeError, TreadleError
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, carried_wide
from treadle.ops.distance import reduced
from treadle.ops.elementary import exp
from treadle.ops.flow import stop_gradient
from treadle.ops.labels import (
    OfLabels,
    classes_of,
    hot_at,
    is_label,
    known_labels,
    labels_of,
    over_labels,
)
from treadle.ops.pick import one_hot, pick, take
from treadle.ops.power import log
from treadle.ops.rearrange import expand_dims, moveaxis, squeeze
from treadle.ops.reduce import sum
from treadle.ops.select import where
from treadle.ops.softmax import log_softmax, softmax, sparsemax
from treadle.ops.statistics import LogSumExp

__all__ = ["cross_entropy", "nll_loss", "sparsemax_loss", "unlikelihood"]


def _at(x: Array, labels: Array, axis: int) -> Array:
    """The element of x that each label names along `axis`."""
    places = np.expand_dims(known_labels(labels, x.shape[axis]), axis)
    return np.take_along_axis(x, places, axis).squeeze(axis)


def _by_class(weight: Any, x: Tensor, axis: int) -> Tensor:
    """A number for each class, shaped to broadcast with x."""
    node = astype(functions.unname(as_float(weight)), x.type.dtype)
    classes = x.type.shape[axis]
    if node.type.shape != (classes,):
        raise ShapeError(f"weight {node.type} for {classes} classes")
    return node.reshape((classes,) + (1,) * (x.type.ndim - 1 - axis))


def _of_labels(
    x: Tensor, labels: Tensor, axis: int, weight: Any, values: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Losses multiplied by the weights of their labels, and these (None: all 1)."""
    if weight is None:
        return values, None
    weights = take(_by_class(weight, x, axis).reshape(-1), labels)
    return values * weights, weights


def _mean(
    values: Tensor,
    kept: Tensor | None,
    weights: Tensor | None,
    reduction: str,
    name: str,
) -> Tensor:
    """`reduced`, over the labels that count and by their weights."""
    if kept is not None:
        values = where(kept, values, 0)
        weights = where(kept, 1.0 if weights is None else weights, 0.0)
    return reduced(values, reduction, name, weights)


@op()
class CrossEntropy(OfLabels):
    """-log softmax(scores)[label] along `axis`, finite wherever the scores are."""

    def numpy(self, x: Any, labels: Any) -> Array:
        shifted = x - x.max(self.axis, keepdims=True)
        total = np.log(np.exp(shifted).sum(self.axis))
        return np.subtract(total, _at(shifted, labels, self.axis))

    def expand(self, x: Tensor, labels: Tensor) -> Tensor:
        top = stop_gradient(x.max(self.axis, keepdims=True))
        total = squeeze(log(exp(x - top).sum(self.axis, keepdims=True)), self.axis)
        # The label's score is taken before it is shifted: no row of these is kept.
        score = pick(x, labels, self.axis, counted=True)
        return total - (score - squeeze(top, self.axis))

    def vjp(self, g: Any, y: Any, x: Tensor, labels: Tensor) -> Cotangents:
        slope = softmax(x, self.axis) - hot_at(labels, x, self.axis)
        return expand_dims(g, self.axis) * slope, None


@provide
@recorded
def cross_entropy(
    logits: Any,
    target: Any,
    weight: Any = None,
    *,
    axis: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: Any = 0.0,
) -> Tensor:
    """-log softmax(logits)[label], for logits (n, classes, ...) and labels (n, ...).

    A target of the logits' shape and a float type holds probabilities t: the loss is
    -sum t log softmax(logits). `weight` has a number for each class; the mean is over
    the labels that are not `ignore_index`, by their weights. Label smoothing e takes
    (1 - e) of the loss and e of its mean over all classes (Szegedy et al. 2016).

    >>> f"{float(td.cross_entropy([[0.0, 0.0]], [1])):.4f}"
    '0.6931'
    >>> float(td.cross_entropy([[1e4, -1e4]], [1]))
    20000.0
    """
    try:
        x, place = classes_of(logits, axis)
        plain = isinstance(label_smoothing, (int, float))
        if plain and not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"label_smoothing is from 0 to 1, got {label_smoothing}"
            )
        t, kept = labels_of(target, ignore_index, x, place)
        named, x = x, functions.unname(x)
        if is_inexact(t.type.dtype):
            values = _soft(x, t, place, weight, label_smoothing)
            values = over_labels(values, named, place)
            return reduced(values, reduction, "cross_entropy")
        values, weights = _of_labels(x, t, place, weight, CrossEntropy(place)(x, t))
    except TreadleError as error:
        raise error.located("cross_entropy") from None
    if not (plain and label_smoothing == 0):
        even = -log_softmax(x, place)
        if weight is not None:
            even = even * _by_class(weight, x, place)
        values = values + (even.mean(place) - values) * label_smoothing
    values = _mean(values, kept, weights, reduction, "cross_entropy")
    return over_labels(values, named, place)


def _soft(x: Tensor, t: Tensor, axis: int, weight: Any, smoothing: Any) -> Tensor:
    dtype = x.type.dtype
    if t.type.shape != x.type.shape:
        raise ShapeError(
            f"logits {x.type} with probabilities {t.type}",
            hint="labels are integers; probabilities have the shape of the logits",
        )
    x = astype(x, accumulator(dtype))
    t = astype(t, x.type.dtype)
    mixed = t + (1.0 / max(x.type.shape[axis], 1) - t) * smoothing
    scores = log_softmax(x, axis)
    # A class ruled out by a logit of -inf costs nothing where its probability is 0.
    scores = where(functions.isfinite(scores) | (mixed != 0), scores, 0)
    if weight is not None:
        scores = scores * _by_class(weight, x, axis)
    return astype(-sum(mixed * scores, axis), dtype)


@op(linear=True)
class PickLabel(OfLabels):
    """scores[label] along `axis`."""

    def numpy(self, *arrays: Any) -> Array:
        return _at(arrays[0], arrays[1], self.axis)

    def expand(self, *xs: Tensor) -> Tensor:
        return pick(xs[0], xs[1], self.axis, counted=True)

    def vjp(self, g: Any, y: Any, x: Tensor, labels: Tensor) -> Cotangents:
        hot = is_label(labels, x, self.axis)
        return where(hot, expand_dims(g, self.axis), 0), None


@provide
@recorded
def nll_loss(
    prediction: Any,
    target: Any,
    weight: Any = None,
    *,
    axis: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[label] for log-probabilities x (n, classes, ...) and labels (n, ...).

    `weight` has a number for each class; the mean is by them.

    >>> float(td.nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    try:
        x, place = classes_of(prediction, axis)
        labels, kept = labels_of(target, ignore_index, x, place)
        named, x = x, functions.unname(x)
        losses = -PickLabel(place)(x, labels)
        values, weights = _of_labels(x, labels, place, weight, losses)
    except TreadleError as error:
        raise error.located("nll_loss") from None
    values = _mean(values, kept, weights, reduction, "nll_loss")
    return over_labels(values, named, place)


@op()
class Unlikelihood(OfLabels):
    """-log(1 - softmax(scores)[label]) along `axis`, from the other classes alone."""

    def numpy(self, x: Any, labels: Any) -> Array:
        places = np.expand_dims(known_labels(labels, x.shape[self.axis]), self.axis)
        others = x.copy()
        np.put_along_axis(others, places, -np.inf, self.axis)
        total = LogSumExp((self.axis,)).numpy
        return np.subtract(total(x), total(others))

    def expand(self, x: Tensor, labels: Tensor) -> Tensor:
        others = where(is_label(labels, x, self.axis), -np.inf, x)
        whole: Tensor = functions.logsumexp(x, self.axis)
        return whole - functions.logsumexp(others, self.axis)


@carried_wide
def unlikelihood(
    logits: Any, target: Any, axis: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """-log(1 - softmax(logits)[label]): what makes a label unlikely.

    Finite where the label is all but certain. Welleck et al., Neural text generation
    with unlikelihood training, 2020.

    >>> float(td.unlikelihood([[1e4, -1e4]], [0]))
    20000.0
    """
    x, place = classes_of(logits, axis)
    try:
        labels, _ = labels_of(target, None, x, place)
    except TreadleError as error:
        raise error.located("unlikelihood") from None
    values = Unlikelihood(place)(functions.unname(x), labels)
    return reduced(over_labels(values, x, place), reduction, "unlikelihood")


@op()
class SparsemaxLoss(OfLabels):
    """(|x - hot|² - |x - p|²) / 2 along `axis`, where p = sparsemax(x)."""

    def numpy(self, x: Any, labels: Any) -> Array:
        z = x - x.max(self.axis, keepdims=True)
        # Of all prefixes of the ordered scores, the support has the largest threshold.
        ordered = -np.sort(-z, self.axis)
        steps = np.arange(1, z.shape[self.axis] + 1, dtype=z.dtype)
        k = steps.reshape((-1,) + (1,) * (z.ndim - 1 - self.axis))
        tau = (np.cumsum(ordered, self.axis) - 1) / k
        p = np.maximum(z - tau.max(self.axis, keepdims=True), 0)
        conjugate = np.sum(p * z - p * p / 2, self.axis)
        return np.subtract(conjugate + z.dtype.type(0.5), _at(z, labels, self.axis))

    def expand(self, x: Tensor, labels: Tensor) -> Tensor:
        z = x - functions.stop_gradient(x.max(self.axis, keepdims=True))
        p = sparsemax(z, self.axis)
        score = pick(z, labels, self.axis, counted=True)
        return sum(p * z - p * p * 0.5, self.axis) + 0.5 - score

    def vjp(self, g: Any, y: Any, x: Tensor, labels: Tensor) -> Cotangents:
        slope = sparsemax(x, self.axis) - hot_at(labels, x, self.axis)
        return expand_dims(g, self.axis) * slope, None


def _shared(labels: Tensor, x: Tensor, axis: int) -> Tensor:
    """Probabilities, or the even ones of several labels in the last dimension."""
    t, shape = labels.type, x.type.shape
    if is_inexact(t.dtype) and t.shape == shape:
        return astype(labels, x.type.dtype)
    rest = (*shape[:axis], *shape[axis + 1 :])
    if is_inexact(t.dtype) or t.shape[:-1] != rest or not t.shape[-1]:
        raise ShapeError(
            f"scores {x.type} with labels {t}",
            hint="labels have the scores' shape without its class dimension, several "
            "one more behind; probabilities have the scores' shape",
        )
    hot = one_hot(labels, shape[axis], x.type.dtype).max(t.ndim - 1)
    return moveaxis(hot / hot.sum(-1, keepdims=True), -1, axis)


def _far(x: Tensor, t: Tensor, axis: int) -> Tensor:
    """(|x - t|² - |x - p|²) / 2 along `axis`, where p = sparsemax(x)."""
    z = x - stop_gradient(x.max(axis, keepdims=True))
    p = sparsemax(z, axis)
    return sum(p * z - p * p * 0.5 + t * t * 0.5 - t * z, axis)


@carried_wide
def sparsemax_loss(
    logits: Any, target: Any, axis: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """(|x - hot|² - |x - p|²) / 2, where p = sparsemax(x) and hot is 1 at the label.

    Its derivative is p - hot; it is 0 where the label leads by 1. Several labels, in
    one more dimension behind, share the 1 of `hot`; floats of the logits' shape stand
    for it. Martins and Astudillo, From softmax to sparsemax, 2016.

    >>> float(td.sparsemax_loss([[3.0, 0.0]], [0])), float(
    ...     td.sparsemax_loss([[3.0, 0.0]], [1]))
    (0.0, 3.0)
    """
    x, place = classes_of(logits, axis)
    try:
        labels, _ = labels_of(target, None, x, place)
        several = is_inexact(labels.type.dtype) or labels.type.ndim == x.type.ndim
        plain = functions.unname(x)
        if several:
            values = _far(plain, _shared(labels, plain, place), place)
        else:
            values = SparsemaxLoss(place)(plain, labels)
    except TreadleError as error:
        raise error.located("sparsemax_loss") from None
    return reduced(over_labels(values, x, place), reduction, "sparsemax_loss")
