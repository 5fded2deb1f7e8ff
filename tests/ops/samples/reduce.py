"""Samples of the ops of ops.reduce, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, AxisError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.reduce import Median, Sum, median, sum


@samples(Sum)
def sum_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((0,)), (Input((2, 3)),)),
        Sample(cls((0, 1)), (Input((7, 5)),)),
        Sample(cls((1,), True), (Input((2, 3, 4)),)),
        Sample(cls(()), (Input((3,)),)),
        Sample(cls((0,)), (Input((0, 3)),)),
        Sample(cls((0, 2)), (Input((33, 1, 31)),), second_order=False),
    ]


@mistakes(Sum)
def sum_mistakes(cls: Any) -> list[Mistake]:
    return [Mistake(lambda: sum([1.0], 1), AxisError, "out of range")]


@samples(Median)
def median_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(1), (Input((2, 3), apart=0.01),)),
        Sample(cls(0, True), (Input((4, 5), apart=0.01),)),
        Sample(cls(0), (Input((1,), apart=0.01),)),
    ]


@mistakes(Median)
def median_mistakes(cls: Any) -> list[Mistake]:
    empty = as_tensor(np.zeros((0, 3), np.float32))
    return [
        Mistake(lambda: median(empty, 0), ArgumentError, "of nothing"),
        Mistake(lambda: median([[1.0]], (0, 1)), ArgumentError, "one axis"),
    ]
