"""Samples of the ops of ops.softmax, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.softmax import AlongAxis, ConstrainedSoftmax


@samples(AlongAxis)
def along_axis_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(1), (Input((2, 3), low=-3, high=3, apart=0.02),)),
        Sample(cls(0), (Input((7, 5), low=-3, high=3, apart=0.02),)),
        Sample(cls(2), (Input((2, 1, 33), low=-3, high=3, apart=0.02),), None, False),
        Sample(cls(0), (Input((1,)),)),
    ]


@mistakes(AlongAxis)
def along_axis_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: cls(3)(x), Exception, "out of range")]


@samples(ConstrainedSoftmax)
def constrained_softmax_samples(cls: Any) -> list[Sample]:
    bounds = np.array([[0.5, 0.4, 0.6], [0.2, 0.9, 0.3]], np.float32)
    few = np.array([0.25, 0.5], np.float32)
    return [
        Sample(cls(1), (Input((2, 3), apart=0.05), bounds)),
        Sample(cls(0), (Input((3, 2), apart=0.05), bounds.T + np.float32(0.05))),
        Sample(cls(0), (Input((2,)), few)),
        Sample(cls(1), (Input((0, 3)), Input((0, 3)))),
    ]


@mistakes(ConstrainedSoftmax)
def constrained_softmax_mistakes(cls: Any) -> list[Mistake]:
    x, y = as_tensor([1.0, 2.0]), as_tensor([1.0])
    named = as_tensor([1.0, 2.0], axes=("c",))
    return [
        Mistake(lambda: cls()(x, y), ShapeError, "with bounds"),
        Mistake(lambda: cls()(x, named), AxisError, "differ in axis names"),
        Mistake(lambda: cls(1)(x, x), AxisError, "out of range"),
    ]
