"""Metrics: how well predictions fit, summed over batches, and what they confuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.notebook import table

LATER = 32  # numbers that are not looked at yet


class Metric:
    """Sums in float64 that batches are taken into, and a number made of them."""

    name = "metric"
    size = 2

    def __init__(self) -> None:
        self.sums = np.zeros(self.size)

    def reset(self) -> None:
        """Forget all batches."""
        self.sums = np.zeros(self.size)

    def update(self, target: Any, prediction: Any, weight: Any = None) -> None:
        """Take a batch in; `weight` has one number an example."""
        raise NotImplementedError

    def result(self) -> float:
        """The metric of what was taken in; not a number before that."""
        return float(self.sums[0] / self.sums[1]) if self.sums[1] else math.nan


class Mean(Metric):
    """The mean of numbers with their weights; numbers that runs are yet to write are
    looked at some time later.

    >>> mean = Mean("loss")
    >>> mean.add(1.0, 3); mean.add(5.0, 1); mean.result()
    2.0
    """

    def __init__(self, name: str) -> None:
        self._sums = np.zeros(self.size)
        self._later: list[tuple[Any, float]] = []
        self.name = name

    @property
    def sums(self) -> Array:
        """The sum of all numbers times their weights, and that of the weights."""
        self._look(len(self._later))
        return self._sums

    @sums.setter
    def sums(self, sums: Array) -> None:
        self._sums, self._later = sums, []

    def _look(self, count: int) -> None:
        for _ in range(count):
            value, weight = self._later[0]
            self._sums += float(value) * weight, weight
            del self._later[0]  # a run that has failed tells it each time

    def add(self, value: Any, weight: float = 1.0) -> None:
        """Take one number in."""
        self._later.append((value, weight))
        if len(self._later) > LATER:
            self._look(LATER // 2)

    def update(self, target: Any, prediction: Any, weight: Any = None) -> None:
        raise NotImplementedError("numbers are added")


class MeanMetric(Metric):
    """The mean over all examples of what a function gives for each element.

    >>> error = MeanMetric(lambda t, p: abs(t - p), "error")
    >>> error.update([1.0, 2.0], [1.0, 4.0]); error.result()
    1.0
    """

    def __init__(self, function: Callable[[Array, Array], Any], name: str) -> None:
        super().__init__()
        self.function, self.name = function, name

    def update(self, target: Any, prediction: Any, weight: Any = None) -> None:
        values = np.asarray(
            self.function(np.asarray(whole(target)), np.asarray(whole(prediction))),
            np.float64,
        )
        if weight is not None:
            weights = _wide(weight, values)
            self.sums += float((values * weights).sum()), float(weights.sum())
        else:
            self.sums += float(values.sum()), values.size


# Functions by name, so that metrics pickle.
def _correct(t: Array, p: Array) -> Array:
    return _classes(t, p) == p.argmax(-1)


def _agrees(threshold: float, t: Array, p: Array) -> Array:
    return (p > threshold) == _like(t, p).astype(bool)


def _squared_error(t: Array, p: Array) -> Array:
    return (p - _like(t, p)) ** 2.0


def _absolute_error(t: Array, p: Array) -> Array:
    return np.abs(p - _like(t, p))


def _wide(weight: Any, values: Array) -> Array:
    """The weights of examples, for each of their values."""
    wide = np.asarray(weight, np.float64)
    wide = wide.reshape(wide.shape + (1,) * (values.ndim - wide.ndim))
    return np.broadcast_to(wide, values.shape)


def _classes(t: Array, p: Array) -> Array:
    """Labels from labels, or from one probability for each class."""
    if t.shape == p.shape and p.ndim:
        return t.argmax(-1)
    if t.shape != p.shape[:-1]:
        raise ShapeError(
            f"labels {list(t.shape)} do not go with predictions {list(p.shape)}",
            hint="accuracy takes one score for each class along the last dimension",
        )
    return t


class Accuracy(MeanMetric):
    """The share of examples whose class has the greatest score.

    >>> accuracy = Accuracy()
    >>> accuracy.update([1, 0], [[0.2, 0.8], [0.3, 0.7]]); accuracy.result()
    0.5
    """

    def __init__(self, name: str = "accuracy") -> None:
        super().__init__(_correct, name)


class BinaryAccuracy(MeanMetric):
    """The share of elements that lie on the target's side of a threshold.

    >>> accuracy = BinaryAccuracy()
    >>> accuracy.update([1, 0, 0], [0.8, 0.7, 0.1]); round(accuracy.result(), 3)
    0.667
    """

    def __init__(self, threshold: float = 0.5, name: str = "binary_accuracy") -> None:
        super().__init__(partial(_agrees, threshold), name)


class TopKAccuracy(MeanMetric):
    """The share of examples whose class is among the k with the greatest scores.

    >>> accuracy = TopKAccuracy(2)
    >>> accuracy.update([1, 0], [[0.1, 0.3, 0.6], [0.1, 0.3, 0.6]]); accuracy.result()
    0.5
    """

    def __init__(self, k: int = 5, name: str = "top_k_accuracy") -> None:
        def among(t: Array, p: Array) -> Array:
            labels = _classes(t, p)[..., None]
            score = np.take_along_axis(p, labels, -1)
            return (p > score).sum(-1) < k

        super().__init__(among, name)


def _like(t: Array, p: Array) -> Array:
    """Targets in the shape of the predictions; never (n,) against (n, 1) as (n, n)."""
    return t.reshape(p.shape) if t.shape != p.shape and t.size == p.size else t


class MeanSquaredError(MeanMetric):
    """The mean of (prediction - target)²."""

    def __init__(self, name: str = "mse") -> None:
        super().__init__(_squared_error, name)


class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean of (prediction - target)²."""

    def __init__(self, name: str = "rmse") -> None:
        super().__init__(name)

    def result(self) -> float:
        return math.sqrt(super().result())


class MeanAbsoluteError(MeanMetric):
    """The mean of |prediction - target|."""

    def __init__(self, name: str = "mae") -> None:
        super().__init__(_absolute_error, name)


class Precision(Metric):
    """The precision: the share of target 1 among predictions above the threshold."""

    name = "precision"
    size = 3  # true positives, false positives, false negatives

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.threshold, self.name = threshold, name or type(self).name

    def update(self, target: Any, prediction: Any, weight: Any = None) -> None:
        p = np.asarray(prediction)
        t, positive = _like(np.asarray(target), p) > 0, p > self.threshold
        one = _wide(np.ones(()) if weight is None else weight, p)
        cases = (t, positive), (~t, positive), (t, ~positive)
        self.sums += [one[a & b].sum() for a, b in cases]

    def result(self) -> float:
        true, false, _ = self.sums
        return float(true / (true + false)) if true + false else 0.0


class Recall(Precision):
    """The recall: the share of predictions above the threshold among target 1."""

    name = "recall"

    def result(self) -> float:
        true, _, missed = self.sums
        return float(true / (true + missed)) if true + missed else 0.0


class F1(Precision):
    """The harmonic mean of precision and recall.

    >>> f1 = F1()
    >>> f1.update([1, 0, 1], [0.9, 0.8, 0.7]); f1.result()
    0.8
    """

    name = "f1"

    def result(self) -> float:
        true, false, missed = self.sums
        below = 2 * true + false + missed
        return float(2 * true / below) if below else 0.0


METRICS: dict[str, Callable[[], Metric]] = {
    "accuracy": Accuracy,
    "binary_accuracy": BinaryAccuracy,
    "f1": F1,
    "mae": MeanAbsoluteError,
    "mse": MeanSquaredError,
    "precision": Precision,
    "recall": Recall,
    "rmse": RootMeanSquaredError,
    "top_k_accuracy": TopKAccuracy,
}


def metric(chosen: Any) -> Metric:
    """A metric from one, its name, or a function of target and prediction.

    >>> metric("mae").name
    'mae'
    """
    if isinstance(chosen, Metric):
        return chosen
    if isinstance(chosen, str):
        if chosen not in METRICS:
            raise ArgumentError(
                f"there is no metric {chosen!r}", hint=f"metrics: {', '.join(METRICS)}"
            )
        return METRICS[chosen]()
    if callable(chosen):
        return MeanMetric(chosen, getattr(chosen, "__name__", "metric"))
    raise ArgumentError(f"a metric is a name or a function, not {chosen!r}")


DRAWN = 30  # classes of a matrix; of more, the pairs most often confused are listed


def confusion_matrix(
    target: Any, prediction: Any, classes: int | None = None, threshold: float = 0.5
) -> np.ndarray[Any, Any]:
    """Counts [true class, predicted class] of examples.

    `prediction` has a score for each class in its last axis, or one score an example
    that is above `threshold` for class 1, or classes. `target` has classes. Raises
    ShapeError where they do not belong together, ArgumentError for what is no class.

    >>> confusion_matrix([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]).tolist()
    [[1, 0], [1, 1]]
    """
    labels, scores = np.asarray(whole(target)), np.asarray(whole(prediction))
    wide = scores.ndim == labels.ndim + 1 and scores.shape[-1] > 1
    if wide:
        chosen, least = scores.argmax(-1), scores.shape[-1]
    elif scores.dtype.kind == "f":
        chosen, least = (scores > threshold).astype(np.int64), 2
    else:
        chosen, least = scores, 0
    chosen, labels = chosen.reshape(-1), labels.reshape(-1)
    if len(chosen) != len(labels):
        raise ShapeError(
            f"{list(np.shape(target))} targets and {list(scores.shape)} predictions"
        )
    if labels.dtype.kind == "f" and (labels != np.rint(labels)).any():
        raise ArgumentError("a confusion matrix is of classes, these are fractions")
    labels, chosen = labels.astype(np.int64), chosen.astype(np.int64)
    most = int(max(labels.max(initial=0), chosen.max(initial=0))) + 1
    count = max(most, least) if classes is None else classes
    if count < most or min(labels.min(initial=0), chosen.min(initial=0)) < 0:
        raise ArgumentError(f"there are classes 0 to {count - 1}, got {most - 1}")
    counts = np.zeros((count, count), np.int64)
    np.add.at(counts, (labels, chosen), 1)
    return counts


class Confusion:
    """A confusion matrix with the names of its classes, as notebooks show it.

    >>> Confusion(np.array([[3, 1], [0, 4]]), ["cat", "dog"]).rows()[0]
    ('cat', '4', '100.0%', '75.0%')
    """

    def __init__(
        self, counts: np.ndarray[Any, Any], names: Sequence[str] | None = None
    ) -> None:
        self.counts = counts
        self.names = [str(k) for k in range(len(counts))] if names is None else names
        if len(self.names) != len(counts):
            raise ArgumentError(f"{len(counts)} classes have {len(self.names)} names")

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Of each class its name, its examples, its precision and its recall."""
        right, true = self.counts.diagonal(), self.counts.sum(1)
        taken = self.counts.sum(0)
        return [
            (str(name), f"{true[k]:,}", _share(right[k], taken[k]),
             _share(right[k], true[k]))
            for k, name in enumerate(self.names)
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        """The matrix, each row shaded by its shares, and the classes one by one."""
        head = ("class", "examples", "precision", "recall")
        classes = table(self.rows(), head, right=[1, 2, 3])
        if len(self.names) > DRAWN:
            return self._pairs() + classes
        cells = [f"<th>{escape(str(name))}</th>" for name in self.names]
        lines = [f"<tr><th>true \\ predicted</th>{''.join(cells)}<th></th></tr>"]
        for k, row in enumerate(self.counts):
            total = row.sum() or 1
            shown = "".join(_cell(n, n / total, j == k) for j, n in enumerate(row))
            name = escape(str(self.names[k]))
            lines.append(f"<tr><th>{name}</th>{shown}<td>{row.sum():,}</td></tr>")
        return f'<table class="confusion">{"".join(lines)}</table>{classes}'

    def _pairs(self) -> str:
        """The pairs of classes that are confused most often."""
        wrong = self.counts - np.diag(self.counts.diagonal())
        order = np.argsort(wrong, axis=None)[::-1][:DRAWN]
        rows = [
            (self.names[i], self.names[j], f"{wrong[i, j]:,}")
            for i, j in (divmod(int(k), len(wrong)) for k in order)
            if wrong[i, j]
        ]
        return table(rows, ("true", "predicted", "examples"), right=[2])


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _cell(count: int, share: float, right: bool) -> str:
    """A count on a ground that tells its share of the row, green where it is right."""
    color = "46, 160, 67" if right else "218, 54, 51"
    style = f"background: rgba({color}, {0.75 * share:.3f}); text-align: right"
    return f'<td style="{style}" title="{share:.1%}">{count:,}</td>'
