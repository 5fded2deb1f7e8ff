"""Samples of the ops of ops.labels, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.operators import functions
from treadle.ops.labels import OfLabels


@samples(OfLabels)
def of_labels_samples(cls: Any) -> list[Sample]:
    wide = Input((3, 2, 4), low=-3, high=3)
    return [
        Sample(cls(1), (Input((2, 3)), np.array([2, 0]))),
        Sample(cls(1), (wide, np.array([[0, 1, 1, 0], [1] * 4, [0] * 4]))),
        Sample(cls(0), (Input((5,), low=-3, high=3), np.array(4))),
        Sample(cls(1), (Input((0, 3)), np.zeros((0,), np.int64))),
    ]


@mistakes(OfLabels)
def of_labels_mistakes(cls: Any) -> list[Mistake]:
    x, labels = as_tensor([[1.0, 2.0]]), as_tensor(np.array([1]))
    far, below = as_tensor(np.array([5])), as_tensor(np.array([-1]))
    none = as_tensor(np.zeros((1, 0), np.float32))
    named = functions.name_axes(x, "n", "c")
    other = functions.name_axes(labels, "b")
    return [
        Mistake(lambda: cls(1)(x, x), DTypeError, "labels are integers"),
        Mistake(lambda: cls(1)(far, far), DTypeError, "float scores"),
        Mistake(lambda: cls(0)(x, labels), ShapeError, "scores float32"),
        Mistake(lambda: cls(1)(none, labels), ShapeError, "no classes"),
        Mistake(lambda: cls(1)(named, other), AxisError, "axis 'n' and axis 'b'"),
        Mistake(lambda: cls(1)(x, far).numpy(), RunError, "label 5 is"),
        Mistake(lambda: cls(1)(x, below).numpy(), RunError, "for 2 classes"),
    ]
