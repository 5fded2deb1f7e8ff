"""Samples of the ops of ops.gather, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.gather import Index, Unindex


@samples(Index)
def index_samples(cls: Any) -> list[Sample]:
    i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
    return [
        Sample(cls((0,)), (Input((3, 2)), i)),
        Sample(cls((1,), 1), (Input((7, 5)), np.array([[4, 4, 0]]))),
        Sample(cls((0, 2)), (Input((3, 2, 4)), i, j)),
        Sample(cls((1, 2), 1), (Input((2, 3, 4)), i, i)),
        Sample(cls((0,)), (Input((3,)), np.array(1))),
        Sample(cls((0,)), (Input((3, 2)), np.zeros((0,), np.int64))),
    ]


@mistakes(Index)
def index_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0, 2.0])
    far = as_tensor(np.array([5]))
    return [
        Mistake(lambda: cls((0,))(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls((0, 1))(x, far), ShapeError, "1 index arrays"),
        Mistake(lambda: cls((0,))(x, far).numpy(), RunError, "index 5 is out"),
    ]


@samples(Unindex)
def unindex_samples(cls: Any) -> list[Sample]:
    i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
    return [
        Sample(cls((3, 2), (0,)), (Input((4, 2)), i)),
        Sample(cls((3, 2, 4), (0, 2)), (Input((2, 4, 2)), i, j)),
        Sample(cls((2, 3, 4), (1, 2), 1), (Input((2, 4)), i, i)),
        Sample(cls((3, 2), (0,)), (Input((0, 2)), np.zeros((0,), np.int64))),
    ]


@mistakes(Unindex)
def unindex_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    put = cls((3,), (0,))
    return [
        Mistake(lambda: put(x, x), DTypeError, "are integers"),
        Mistake(lambda: put(as_tensor(1.0), far), ShapeError, "do not fit"),
        Mistake(lambda: put(x, far).numpy(), RunError, "index 5 is out"),
    ]
