"""Samples of the ops of ops.normalization, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Input
from treadle.ops.normalization import RunningStatistics, Scaled


@samples(Scaled)
def scaled_samples(cls: Any) -> list[Sample]:
    eps = np.array(0.01, np.float32)
    return [
        Sample(cls((1,)), (Input((2, 3)), eps)),
        Sample(cls((0, 1)), (Input((7, 5)), eps)),
        Sample(cls((1, 2)), (Input((2, 3, 4)), eps)),
        Sample(cls((0,)), (Input((1,), low=1), eps)),
        Sample(cls((1,)), (Input((0, 3)), eps)),
    ]


@mistakes(Scaled)
def scaled_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    eps = constant_node(np.array(0.01, np.float32))
    return [
        Mistake(lambda: cls((1,))(x, eps), AxisError, "out of range"),
        Mistake(lambda: cls((0,))(x, x), ShapeError, "epsilon is a scalar"),
        Mistake(lambda: cls(())(x, eps), AxisError, "at least one axis"),
    ]


@samples(RunningStatistics)
def running_samples(cls: Any) -> list[Sample]:
    count, one = np.array(3, np.int64), Input(())
    return [
        Sample(cls((0,)), (Input((4, 3)), one, one, count, Input((3,)), Input((3,)))),
        Sample(
            cls((0, 2)), (Input((2, 3, 5)), one, one, count, Input((3,)), Input((3,)))
        ),
        Sample(cls((0,)), (Input((1, 2)), one, one, count, Input((2,)), Input((2,)))),
    ]


@mistakes(RunningStatistics)
def running_mistakes(cls: Any) -> list[Mistake]:
    x, count = as_tensor([[1.0, 2.0]]), constant_node(np.array(0, np.int64))
    one, number = as_tensor([1.0]), as_tensor(1.0)
    numbers = number, number, count
    return [
        Mistake(lambda: cls((0,))(x, *numbers, one, one), ShapeError, "2 statistics"),
        Mistake(
            lambda: cls((1,))(x, one, *numbers[1:], one, one), ShapeError, "1 stat"
        ),
    ]
