"""Samples of the ops of ops.lookup, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.lookup import FEW, CombineRows, Embedding, RowsToDense


@samples(Embedding)
def embedding_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((3, 2)), np.array([2, 0, 2]))),
        Sample(cls(), (Input((7, 5)), np.array([[4], [6]]))),
        Sample(cls(), (Input((3,)), np.array(1))),
        Sample(cls(), (Input((3, 2)), np.zeros((0,), np.int64))),
    ]


@mistakes(Embedding)
def embedding_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0, 2.0]), as_tensor(np.array([-1]))
    return [
        Mistake(lambda: cls()(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls()(as_tensor(1.0), far), ShapeError, "no rows"),
        Mistake(lambda: cls()(x, far).numpy(), RunError, "id -1 is out of"),
    ]


@samples(RowsToDense)
def rows_to_dense_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(3), (np.array([2, 0, 2]), Input((3, 2)))),
        Sample(cls(7), (np.array([[4], [6]]), Input((2, 1, 5)))),
        Sample(cls(3), (np.array(1), Input(()))),
        Sample(cls(3), (np.zeros((0,), np.int64), Input((0, 2)))),
    ]


@mistakes(RowsToDense)
def rows_to_dense_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    return [
        Mistake(lambda: cls(3)(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls(3)(far, as_tensor(1.0)), ShapeError, "one row"),
        Mistake(lambda: cls(3)(far, x).numpy(), RunError, "id 5 is out of"),
    ]


@samples(CombineRows)
def combine_rows_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (np.array([2, 0, 2]), Input((3, 2)))),
        Sample(cls(), (np.array([1, 1, 1]), Input((3,)))),
        Sample(cls(3), (np.zeros((0,), np.int64), Input((0, 2)))),
        Sample(cls(3), (np.array([2, 0, 2]), Input((3,)))),
        Sample(cls(FEW + 1), (np.array([2, 0, 2]), Input((3,)))),
    ]


@mistakes(CombineRows)
def combine_rows_mistakes(cls: Any) -> list[Mistake]:
    x, ids = as_tensor([1.0]), as_tensor(np.array([[5]]))
    return [
        Mistake(lambda: cls()(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls()(ids, x), ShapeError, "one row"),
        Mistake(lambda: cls()(ids, as_tensor([[1.0]])), ShapeError, "one dim"),
        Mistake(lambda: cls(5)(ids[0], x).numpy(), RunError, "id 5 is out of"),
    ]
