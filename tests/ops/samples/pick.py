"""Samples of the ops of ops.pick, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import as_dtype
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.pick import OneHot, PutAlong, TakeAlong, one_hot


@samples(TakeAlong)
def take_along_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(1), (Input((2, 3)), np.array([[2], [-3]]))),
        Sample(cls(0), (Input((3, 2)), np.array([[2, 0], [0, 0], [1, 1], [2, 2]]))),
        Sample(cls(0), (Input((3,)), np.zeros((0,), np.int64))),
        Sample(cls(1, True), (Input((2, 3)), np.array([[2], [0]]))),
    ]


@mistakes(TakeAlong)
def take_along_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    below = as_tensor(np.array([-1]))
    return [
        Mistake(lambda: cls(0, True)(x, below).numpy(), RunError, "label -1 is"),
        Mistake(lambda: cls(0)(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls(0)(as_tensor([[1.0]]), far), ShapeError, "but along"),
        Mistake(lambda: cls(0)(x, far).numpy(), RunError, "index 5 is out"),
    ]


@samples(PutAlong)
def put_along_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(1, 3), (Input((2, 1)), np.array([[2], [-3]]))),
        Sample(cls(0, 4), (Input((3, 2)), np.array([[2, 0], [3, 0], [1, 1]]))),
        Sample(cls(0, 2), (Input((0,)), np.zeros((0,), np.int64))),
        Sample(cls(1, 3, True), (Input((2, 1)), np.array([[2], [0]]))),
    ]


@mistakes(PutAlong)
def put_along_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor(np.array([5]))
    two, below = as_tensor([1.0, 2.0]), as_tensor(np.array([-1]))
    return [
        Mistake(lambda: cls(0, 3, True)(x, below).numpy(), RunError, "label -1 is out"),
        Mistake(lambda: cls(0, 3)(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls(0, 3)(two, far), ShapeError, "do not fit"),
        Mistake(lambda: cls(0, 3)(x, far).numpy(), RunError, "index 5 is out"),
    ]


@samples(OneHot)
def one_hot_samples(cls: Any) -> list[Sample]:
    f = as_dtype("float32")
    return [
        Sample(cls(3, f), (np.array([2, 0]),)),
        Sample(cls(4, as_dtype(bool)), (np.array([[1], [3]]),)),
        Sample(cls(2, f), (np.array(1),)),
        Sample(cls(2, f), (np.zeros((0,), np.int64),)),
    ]


@mistakes(OneHot)
def one_hot_mistakes(cls: Any) -> list[Mistake]:
    far = as_tensor(np.array([5]))
    return [Mistake(lambda: one_hot(far, 3).numpy(), RunError, "label 5 is out")]
