"""Samples of the ops of ops.scatter, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.scatter import IndexFold, IndexSet


@samples(IndexSet)
def index_set_samples(cls: Any) -> list[Sample]:
    i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
    return [
        Sample(cls((0,)), (Input((3, 2)), Input((4, 2)), i)),
        Sample(cls((0, 2)), (Input((3, 2, 4)), Input((2, 4, 2)), i, j)),
        Sample(cls((1, 2), 1), (Input((2, 3, 4)), Input((2, 4)), i, i)),
        Sample(cls((0,)), (Input((3,)), Input(()), np.array(1))),
    ]


@mistakes(IndexSet)
def index_set_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    put = cls((0,))
    return [
        Mistake(lambda: put(x, far, far), DTypeError, "dtypes"),
        Mistake(lambda: put(x, as_tensor(1.0), far), ShapeError, "do not fit"),
        Mistake(lambda: put(x, x, far).numpy(), RunError, "index 5 is out"),
    ]


@samples(IndexFold)
def index_fold_samples(cls: Any) -> list[Sample]:
    i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
    far = Input((4, 2), apart=0.05)
    near = Input((3, 2), low=-1.9, high=2.1, apart=0.05)
    zeros = np.array([[0.0, 1.5], [2.0, 0.5], [1.0, -2.0], [3.0, 2.0]], np.float32)
    return [
        Sample(cls((0,), 0, "multiply"), (Input((3, 2)), far, i)),
        Sample(
            cls((0,), 0, "multiply"),
            (Input((3, 2)), zeros, i),
            second_order=False,
        ),
        Sample(
            cls((0, 2), 0, "multiply"),
            (Input((3, 2, 4)), Input((2, 4, 2), apart=0.05), i, j),
        ),
        Sample(cls((0,), 0, "max"), (near, far, i)),
        Sample(cls((0,), 0, "min"), (near, far, i)),
    ]


@mistakes(IndexFold)
def index_fold_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    put = cls((0,), 0, "max")
    return [
        Mistake(lambda: cls((0,), 0, "or")(x, x, far), ArgumentError, "none of"),
        Mistake(lambda: put(x, as_tensor(1.0), far), ShapeError, "do not fit"),
        Mistake(lambda: put(x, x, far).numpy(), RunError, "index 5 is out"),
    ]
