"""Samples of the ops of ops.pool, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.errors import ShapeError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.operators import functions
from treadle.ops.pool import (
    MaxPool,
    MaxPoolGradient,
    MaxPoolPositions,
    SumPool,
    SumPoolGradient,
    fields_of,
)


@samples(MaxPool)
def max_pool_samples(cls: Any) -> list[Sample]:
    apart = 0.01
    return [
        Sample(cls((2,), (2,), ((0, 0),), (1,)), (Input((2, 1, 5), apart=apart),)),
        Sample(
            cls((2, 3), (2, 1), ((1, 0), (1, 1)), (1, 2)),
            (Input((2, 2, 3, 5), apart=apart),),
        ),
        Sample(
            cls((2, 1, 2), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1)),
            (Input((1, 1, 2, 3, 3), apart=apart),),
        ),
        Sample(cls((2,), (1,), ((0, 0),), (1,)), (Input((0, 1, 3)),)),
    ]


@mistakes(MaxPool)
def max_pool_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 1, 3)))
    return [
        Mistake(lambda: functions.max_pool1d(x, 4), ShapeError, "wider"),
        Mistake(lambda: functions.max_pool2d([1.0], 2), ShapeError, "of 2 dim"),
        Mistake(
            lambda: functions.max_pool1d(x, 2, padding=2),
            ShapeError,
            "only padding",
        ),
    ]


@samples(MaxPoolPositions)
def max_pool_positions_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(*fields_of(s.op)), s.inputs) for s in samples_of(MaxPool)]


@mistakes(MaxPoolPositions)
def max_pool_positions_mistakes(cls: Any) -> list[Mistake]:
    flat = as_tensor([1.0])
    pool = cls((2,), (1,), ((0, 0),), (1,))
    return [Mistake(lambda: pool(flat), ShapeError, "of 1 dimensions")]


@samples(MaxPoolGradient)
def max_pool_gradient_samples(cls: Any) -> list[Sample]:
    samples = []
    for s in samples_of(MaxPool):
        shape = s.op.infer(Type(s.inputs[0].shape, s.inputs[0].dtype))
        assert isinstance(shape, Type)
        samples.append(
            Sample(cls(*fields_of(s.op)), (*s.inputs, Input(shape.shape)), (0, 1))
        )
    return samples


@mistakes(MaxPoolGradient)
def max_pool_gradient_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 1, 3)))
    pool = cls((2,), (1,), ((0, 0),), (1,))
    return [Mistake(lambda: pool(x, x), ShapeError, "is not of")]


@samples(SumPool)
def sum_pool_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(*fields_of(s.op)), s.inputs) for s in samples_of(MaxPool)]


@mistakes(SumPool)
def sum_pool_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 1, 3)))
    return [
        Mistake(lambda: functions.sum_pool(x, 4), ShapeError, "wider"),
        Mistake(lambda: functions.sum_pool([1.0], 4), ShapeError, "n, c"),
    ]


@samples(SumPoolGradient)
def sum_pool_gradient_samples(cls: Any) -> list[Sample]:
    samples = []
    for s in samples_of(MaxPool):
        x = s.inputs[0]
        shape = s.op.infer(Type(x.shape, x.dtype))
        assert isinstance(shape, Type)
        back = cls(x.shape[2:], *fields_of(s.op))
        samples.append(Sample(back, (Input(shape.shape),)))
    return samples


@mistakes(SumPoolGradient)
def sum_pool_gradient_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 1, 3)))
    back = cls((3,), (2,), (1,), ((0, 0),), (1,))
    return [Mistake(lambda: back(x), ShapeError, "is not of")]
