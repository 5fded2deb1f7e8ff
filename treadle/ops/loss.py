"""Losses of classification: how unlikely a model holds the labels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from treadle.base.dtypes import is_inexact, kind
from treadle.base.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    RunError,
    ShapeError,
    TreadleError,
)
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import as_tensor, integer_node
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op, refuse_axes
from treadle.graph.operators import functions, provide
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.compare import not_equal
from treadle.ops.distance import reduced
from treadle.ops.elementary import exp
from treadle.ops.families import Composite
from treadle.ops.flow import stop_gradient
from treadle.ops.logarithm import log
from treadle.ops.pick import one_hot, pick, take
from treadle.ops.rearrange import expand_dims, moveaxis, squeeze
from treadle.ops.reduce import sum
from treadle.ops.select import where
from treadle.ops.softmax import log_softmax, softmax, sparsemax

__all__ = ["cross_entropy", "nll_loss", "sparsemax_loss", "unlikelihood"]


def known_labels(labels: Array, classes: int) -> Array:
    """The labels; one that names no class is a RunError."""
    bad = (labels < 0) | (labels >= classes)
    if bad.any():
        raise RunError(
            f"label {labels[bad].flat[0]} is out of range for {classes} classes",
            hint="labels are 0 .. classes - 1; leave some out with ignore_index=",
        )
    return labels.astype(np.intp)


@functools.lru_cache(maxsize=1024)
def _labeled(axis: int, x: Type, labels: Type) -> Type:
    """The type of what labels choose among scores with classes along `axis`."""
    if kind(x.dtype) != "float":
        raise DTypeError(f"takes float scores, not {x.dtype.name}")
    if kind(labels.dtype) != "integer":
        raise DTypeError(
            f"labels are integers, not {labels.dtype.name}",
            hint="probabilities have the shape of the logits and a float type",
        )
    place = resolve_axis(axis, x)
    if labels.shape != (*x.shape[:place], *x.shape[place + 1 :]):
        raise ShapeError(
            f"scores {x} with labels {labels}",
            hint="labels have the scores' shape without its class dimension",
        )
    return Type(labels.shape, x.dtype)


class OfLabels(Composite):
    """A loss of scores with classes along `axis`, one for each integer label."""

    __slots__ = ()
    arity = 2
    axis: int
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        refuse_axes(self, *types)
        return _labeled(self.axis, *types)

    @classmethod
    def samples(cls) -> list[Sample]:
        made: Any = cls
        wide = Input((3, 2, 4), low=-3, high=3)
        return [
            Sample(made(1), (Input((2, 3)), np.array([2, 0]))),
            Sample(made(1), (wide, np.array([[0, 1, 1, 0], [1] * 4, [0] * 4]))),
            Sample(made(0), (Input((5,), low=-3, high=3), np.array(4))),
            Sample(made(1), (Input((0, 3)), np.zeros((0,), np.int64))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        made: Any = cls
        x, labels = as_tensor([[1.0, 2.0]]), as_tensor(np.array([1]))
        far, below = as_tensor(np.array([5])), as_tensor(np.array([-1]))
        named = functions.name_axes(x, "n", "c")
        return [
            *super().mistakes(),
            Mistake(lambda: made(1)(x, x), DTypeError, "labels are integers"),
            Mistake(lambda: made(1)(far, far), DTypeError, "float scores"),
            Mistake(lambda: made(0)(x, labels), ShapeError, "scores float32"),
            Mistake(lambda: made(1)(named, labels), AxisError, "named axes"),
            Mistake(lambda: made(1)(x, far).numpy(), RunError, "label 5 is"),
            Mistake(lambda: made(1)(x, below).numpy(), RunError, "for 2 classes"),
        ]


def _at(x: Array, labels: Array, axis: int) -> Array:
    """The element of x that each label names along `axis`."""
    places = np.expand_dims(known_labels(labels, x.shape[axis]), axis)
    return np.take_along_axis(x, places, axis).squeeze(axis)


def hot_at(labels: Tensor, x: Tensor, axis: int) -> Tensor:
    """1 at the label along `axis`, 0 elsewhere, shaped as x."""
    return moveaxis(one_hot(labels, x.type.shape[axis], x.type.dtype), -1, axis)


def classes_of(scores: Any, axis: Any) -> tuple[Tensor, int]:
    """The node and its dimension of classes: 1 if there are two, unless one is named.

    Labels have no axis names, so those of the scores are dropped once used.
    """
    x = as_float(scores)
    if not x.type.ndim:
        raise ShapeError(f"scores {x.type} have no dimension of classes")
    place = min(1, x.type.ndim - 1) if axis is None else resolve_axis(axis, x.type)
    plain: Tensor = functions.unname(x)
    return plain, place


def labels_of(target: Any, ignore: int | None) -> tuple[Tensor, Tensor | None]:
    """The labels, 0 for those left out, and which of them count (None: all)."""
    if type(target) is int and ignore is None:
        return integer_node(target), None
    empty = isinstance(target, (list, tuple)) and not len(target)
    labels = functions.unname(as_tensor(target, "int64" if empty else None))
    if ignore is None or kind(labels.type.dtype) != "integer":
        return labels, None
    kept = not_equal(labels, ignore)
    return where(kept, labels, 0), kept


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
    own = take(_by_class(weight, x, axis).reshape(-1), labels)
    return values * own, own


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

    axis: int = 1

    def numpy(self, *arrays: Any) -> Array:
        x, labels = arrays
        shifted = x - x.max(self.axis, keepdims=True)
        total = np.log(np.exp(shifted).sum(self.axis))
        return np.subtract(total, _at(shifted, labels, self.axis))

    def expand(self, *xs: Tensor) -> Tensor:
        x, labels = xs
        top = stop_gradient(x.max(self.axis, keepdims=True))
        total = squeeze(log(exp(x - top).sum(self.axis, keepdims=True)), self.axis)
        # The label's score is taken before it is shifted: no row of these is kept.
        own = pick(x, labels, self.axis, counted=True)
        return total - (own - squeeze(top, self.axis))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, labels = xs
        slope = softmax(x, self.axis) - hot_at(labels, x, self.axis)
        return expand_dims(g, self.axis) * slope, None


@provide
def cross_entropy(
    logits: Any,
    target: Any,
    axis: Any = None,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: Any = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """-log softmax(logits)[label], for logits (n, classes, ...) and labels (n, ...).

    A target of the logits' shape and a float type holds probabilities t: the loss is
    -sum t log softmax(logits). `weight` has a number for each class; the mean is over
    the labels that are not `ignore_index`, by their weights. Label smoothing e takes
    (1 - e) of the loss and e of its mean over all classes (Szegedy et al. 2016).

    >>> import treadle as td
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
        t, kept = labels_of(target, ignore_index)
        if is_inexact(t.type.dtype):
            values = _soft(x, t, place, weight, label_smoothing)
            return reduced(values, reduction, "cross_entropy")
        values, own = _of_labels(x, t, place, weight, CrossEntropy(place)(x, t))
    except TreadleError as error:
        raise error.located("cross_entropy") from None
    if not (plain and label_smoothing == 0):
        even = -log_softmax(x, place)
        if weight is not None:
            even = even * _by_class(weight, x, place)
        values = values + (even.mean(place) - values) * label_smoothing
    return _mean(values, kept, own, reduction, "cross_entropy")


def _soft(x: Tensor, t: Tensor, axis: int, weight: Any, smoothing: Any) -> Tensor:
    if t.type.shape != x.type.shape:
        raise ShapeError(
            f"logits {x.type} with probabilities {t.type}",
            hint="labels are integers; probabilities have the shape of the logits",
        )
    t = astype(t, x.type.dtype)
    mixed = t + (1.0 / max(x.type.shape[axis], 1) - t) * smoothing
    scores = log_softmax(x, axis)
    # A class ruled out by a logit of -inf costs nothing where its probability is 0.
    scores = where(functions.isfinite(scores) | (mixed != 0), scores, 0)
    if weight is not None:
        scores = scores * _by_class(weight, x, axis)
    return -sum(mixed * scores, axis)


@op(linear=True)
class PickLabel(OfLabels):
    """scores[label] along `axis`."""

    axis: int = 1

    def numpy(self, *arrays: Any) -> Array:
        return _at(arrays[0], arrays[1], self.axis)

    def expand(self, *xs: Tensor) -> Tensor:
        return pick(xs[0], xs[1], self.axis, counted=True)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, labels = xs
        return expand_dims(g, self.axis) * hot_at(labels, x, self.axis), None


@provide
def nll_loss(
    log_probabilities: Any,
    target: Any,
    axis: Any = None,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-x[label] for log-probabilities x (n, classes, ...) and labels (n, ...).

    >>> import treadle as td
    >>> float(td.nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    try:
        x, place = classes_of(log_probabilities, axis)
        labels, kept = labels_of(target, ignore_index)
        found = -PickLabel(place)(x, labels)
        values, own = _of_labels(x, labels, place, weight, found)
    except TreadleError as error:
        raise error.located("nll_loss") from None
    return _mean(values, kept, own, reduction, "nll_loss")


@op()
class Unlikelihood(OfLabels):
    """-log(1 - softmax(scores)[label]) along `axis`, from the other classes alone."""

    axis: int = 1

    def numpy(self, *arrays: Any) -> Array:
        x, labels = arrays
        places = np.expand_dims(known_labels(labels, x.shape[self.axis]), self.axis)
        others = x.copy()
        np.put_along_axis(others, places, -np.inf, self.axis)
        whole = np.logaddexp.reduce(x, self.axis)
        return np.subtract(whole, np.logaddexp.reduce(others, self.axis))

    def expand(self, *xs: Tensor) -> Tensor:
        x, labels = xs
        others = where(hot_at(labels, x, self.axis) > 0, -np.inf, x)
        whole: Tensor = functions.logsumexp(x, self.axis)
        return whole - functions.logsumexp(others, self.axis)


def unlikelihood(
    logits: Any, target: Any, axis: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """-log(1 - softmax(logits)[label]): what makes a label unlikely.

    Finite where the label is all but certain. Welleck et al., Neural text generation
    with unlikelihood training, 2020.

    >>> import treadle as td
    >>> float(td.unlikelihood([[1e4, -1e4]], [0]))
    20000.0
    """
    x, place = classes_of(logits, axis)
    values = Unlikelihood(place)(x, labels_of(target, None)[0])
    return reduced(values, reduction, "unlikelihood")


@op()
class SparsemaxLoss(OfLabels):
    """(|x - hot|² - |x - p|²) / 2 along `axis`, where p = sparsemax(x)."""

    axis: int = 1

    def numpy(self, *arrays: Any) -> Array:
        x, labels = arrays
        z = x - x.max(self.axis, keepdims=True)
        # Of all prefixes of the ordered scores, the support has the largest threshold.
        ordered = -np.sort(-z, self.axis)
        steps = np.arange(1, z.shape[self.axis] + 1, dtype=z.dtype)
        k = steps.reshape((-1,) + (1,) * (z.ndim - 1 - self.axis))
        tau = (np.cumsum(ordered, self.axis) - 1) / k
        p = np.maximum(z - tau.max(self.axis, keepdims=True), 0)
        conjugate = np.sum(p * z - p * p / 2, self.axis)
        return np.subtract(conjugate + z.dtype.type(0.5), _at(z, labels, self.axis))

    def expand(self, *xs: Tensor) -> Tensor:
        x, labels = xs
        z = x - functions.stop_gradient(x.max(self.axis, keepdims=True))
        p = sparsemax(z, self.axis)
        own = pick(z, labels, self.axis, counted=True)
        return sum(p * z - p * p * 0.5, self.axis) + 0.5 - own

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, labels = xs
        slope = sparsemax(x, self.axis) - hot_at(labels, x, self.axis)
        return expand_dims(g, self.axis) * slope, None


def sparsemax_loss(
    logits: Any, target: Any, axis: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """(|x - hot|² - |x - p|²) / 2, where p = sparsemax(x) and hot is 1 at the label.

    Its derivative is p - hot; it is 0 where the label leads by 1. Martins and
    Astudillo, From softmax to sparsemax, 2016.

    >>> import treadle as td
    >>> float(td.sparsemax_loss([[3.0, 0.0]], [0])), float(
    ...     td.sparsemax_loss([[3.0, 0.0]], [1]))
    (0.0, 3.0)
    """
    x, place = classes_of(logits, axis)
    values = SparsemaxLoss(place)(x, labels_of(target, None)[0])
    return reduced(values, reduction, "sparsemax_loss")
