"""Samples of the ops of ops.extrema, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import bool_, int32
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.extrema import Extremum, Position, Prod, Truth


@samples(Extremum)
def extremum_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((1,), False), (Input((2, 3), apart=0.01),)),
        Sample(cls((0, 1), False), (Input((7, 5), apart=0.01),)),
        Sample(cls((0,), True), (Input((2, 3, 4), apart=0.01),)),
        Sample(cls((), False), (Input((3,), apart=0.01),)),
        Sample(cls((1,), False), (Input((0, 3), apart=0.01),)),
        Sample(cls((0,), False), (Input((5, 2), int32, -9, 9),)),
    ]


@mistakes(Extremum)
def extremum_mistakes(cls: Any) -> list[Mistake]:
    empty = as_tensor(np.zeros((0, 3), np.float32))
    return [Mistake(lambda: cls((0,), False)(empty), ArgumentError, "of nothing")]


@samples(Prod)
def prod_samples(cls: Any) -> list[Sample]:
    with_zeros = np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 1.5]], np.float32)
    return [
        Sample(cls((1,)), (Input((2, 3)),)),
        Sample(cls((0, 2), True), (Input((2, 3, 2)),)),
        Sample(cls((1,)), (with_zeros,)),
        Sample(cls((1,)), (Input((0, 3)),)),
        Sample(cls((0,)), (Input((4,), int32, 1, 4),)),
    ]


@samples(Truth)
def truth_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((1,), False), (Input((2, 3), bool_),)),
        Sample(cls((0, 1), True), (Input((2, 3), bool_),)),
        Sample(cls((0,), False), (Input((0, 3), bool_),)),
    ]


@samples(Position)
def position_samples(cls: Any) -> list[Sample]:
    tied = np.array([[1.0, 1.0], [np.nan, 2.0]], np.float32)
    return [
        Sample(cls(1, False), (Input((2, 3)),)),
        Sample(cls(0, True), (Input((7, 5), int32, -3, 3),)),
        Sample(cls(1, False), (tied,)),
    ]


@mistakes(Position)
def position_mistakes(cls: Any) -> list[Mistake]:
    empty = as_tensor(np.zeros((0, 3), np.float32))
    return [Mistake(lambda: cls(0, False)(empty), ArgumentError, "in nothing")]
