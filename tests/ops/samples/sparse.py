"""Samples of the ops of ops.sparse, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.sparse import CSRDots, CSRMatMul


@samples(CSRMatMul)
def csrmat_mul_samples(cls: Any) -> list[Sample]:
    columns, starts = np.array([0, 2, 1, 2, 0]), np.array([0, 2, 2, 5])
    none = np.zeros((0,), np.int64)
    return [
        Sample(cls(3), (Input((5,)), columns, starts, Input((3, 2)))),
        Sample(cls(4, True), (Input((5,)), columns, starts, Input((3, 2)))),
        Sample(cls(3), (Input((5,)), columns, starts, Input((3,)))),
        Sample(cls(2), (Input((0,)), none, np.zeros(4, np.int64), Input((2, 1)))),
        Sample(cls(3), (Input((5,)), columns, starts[:3], Input((3, 17)))),
        Sample(cls(3, True), (Input((5,)), columns, starts[1:], Input((2, 17)))),
    ]


@mistakes(CSRMatMul)
def csrmat_mul_mistakes(cls: Any) -> list[Mistake]:
    x, k, starts = as_tensor([1.0]), as_tensor([0]), as_tensor([0, 1])
    far = as_tensor([7])
    op = cls(1)
    return [
        Mistake(lambda: op(x, x, starts, x), DTypeError, "are integers"),
        Mistake(lambda: op(x, starts, starts, x), ShapeError, "hint: a matrix"),
        Mistake(lambda: cls(2)(x, k, starts, x), ShapeError, "of 2 columns"),
        Mistake(lambda: op(x, far, starts, x).numpy(), RunError, "7 is out"),
    ]


@samples(CSRDots)
def csrdots_samples(cls: Any) -> list[Sample]:
    columns, starts = np.array([0, 2, 1, 2, 0]), np.array([0, 2, 2, 5])
    some_rows = np.array([1, 2, 4])
    return [
        Sample(cls(), (columns, starts, Input((3, 2)), Input((3, 2)))),
        Sample(cls(), (columns, some_rows, Input((2, 17)), Input((4, 17)))),
        Sample(cls(), (columns, starts, Input((3,)), Input((3,)))),
    ]


@mistakes(CSRDots)
def csrdots_mistakes(cls: Any) -> list[Mistake]:
    x, k, starts = as_tensor([1.0]), as_tensor([0]), as_tensor([0, 1])
    far = as_tensor([7])
    return [
        Mistake(lambda: cls()(x, starts, x, x), DTypeError, "are integers"),
        Mistake(lambda: cls()(k, starts, x, x[None]), ShapeError, "1 rows do not"),
        Mistake(lambda: cls()(far, starts, x, x).numpy(), RunError, "7 is out"),
    ]
