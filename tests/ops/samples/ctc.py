"""Samples of the ops of ops.ctc, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.ctc import CTC


@samples(CTC)
def ctc_samples(cls: Any) -> list[Sample]:
    x = Input((5, 3, 4), low=-3.0, high=-0.5)
    labels = np.array([[1, 2], [3, 3], [2, 1]])
    steps, counts = np.array([5, 4, 3]), np.array([2, 2, 1])
    none = np.zeros((2, 0), np.int64)
    return [
        Sample(cls(), (x, labels, steps, counts)),
        Sample(cls(3), (x, labels % 3, steps, counts), (0,), False),
        Sample(
            cls(),
            (Input((2, 2, 3)), none, np.array([2, 1]), np.zeros(2, np.int64)),
        ),
        Sample(
            cls(),
            (Input((1, 1, 3)), np.array([[1, 2]]), np.array([1]), np.array([2])),
            (),
        ),
    ]


@mistakes(CTC)
def ctc_mistakes(cls: Any) -> list[Mistake]:
    x, labels = as_tensor(np.zeros((2, 1, 3))), as_tensor([[1]])
    one, far, below = as_tensor([1]), as_tensor([[5]]), as_tensor([[-1]])
    op = cls()
    return [
        Mistake(lambda: op(labels, labels, one, one), DTypeError, "float log"),
        Mistake(lambda: op(x, x, one, one), DTypeError, "are integers"),
        Mistake(lambda: op(x, one, one, one), ShapeError, "with labels"),
        Mistake(lambda: op(x, labels, far, one), ShapeError, "a length for"),
        Mistake(lambda: cls(3)(x, labels, one, one), ShapeError, "blank is 3"),
        Mistake(lambda: op(x, far, one, one).numpy(), RunError, "out of range"),
        Mistake(lambda: op(x, below, one, one).numpy(), RunError, "out of range"),
    ]
