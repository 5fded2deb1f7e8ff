"""The confusion matrix: counts of examples by their class and the one predicted."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.notebook import table

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
