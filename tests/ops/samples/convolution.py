"""Samples of the ops of ops.convolution, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.convolution import (
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    conv1d,
    conv2d,
)


@samples(Conv)
def conv_samples(cls: Any) -> list[Sample]:
    small = Input((1, 1, 3)), Input((1, 1, 2))
    plane = Input((2, 2, 4, 5)), Input((4, 1, 2, 3))
    return [
        Sample(cls((1,), ((0, 0),), (1,)), small),
        Sample(cls((2, 1), ((1, 0), (2, 1)), (1, 2), 2), plane),
        Sample(
            cls((1, 1, 2), ((0, 0), (1, 1), (0, 0)), (1, 1, 1)),
            (Input((2, 2, 2, 2, 3)), Input((1, 2, 2, 1, 2))),
        ),
        Sample(cls((1,), ((0, 0),), (1,)), (Input((0, 2, 3)), Input((3, 2, 2)))),
    ]


@mistakes(Conv)
def conv_mistakes(cls: Any) -> list[Mistake]:
    x, w = as_tensor(np.ones((1, 2, 3))), as_tensor(np.ones((1, 1, 2)))
    slide = cls((1,), ((0, 0),), (1,))
    return [
        Mistake(lambda: slide(x, w), ShapeError, "do not meet"),
        Mistake(lambda: conv1d(x, np.ones((1, 2, 4))), ShapeError, "wider"),
        Mistake(lambda: conv2d(x, w), ShapeError, "takes x"),
        Mistake(lambda: conv1d(x, w, padding="full"), ArgumentError, "padding"),
    ]


@samples(ConvInputGradient)
def conv_input_gradient_samples(cls: Any) -> list[Sample]:
    plane = Input((2, 4, 2, 4)), Input((4, 1, 2, 3))
    return [
        Sample(cls((3,), (1,), ((0, 0),), (1,)), (Input((1, 1, 2)), Input((1, 1, 2)))),
        Sample(cls((4, 5), (2, 1), ((1, 0), (2, 1)), (1, 2), 2), plane),
    ]


@mistakes(ConvInputGradient)
def conv_input_gradient_mistakes(cls: Any) -> list[Mistake]:
    g, w = as_tensor(np.ones((1, 2, 3))), as_tensor(np.ones((2, 1, 2)))
    back = cls((5,), (1,), ((0, 0),), (1,))
    return [
        Mistake(lambda: back(g, w), ShapeError, "of extents"),
        Mistake(lambda: back(g, g), ShapeError, "no result"),
    ]


@samples(ConvWeightGradient)
def conv_weight_gradient_samples(cls: Any) -> list[Sample]:
    plane = Input((2, 2, 4, 5)), Input((2, 4, 2, 4))
    return [
        Sample(cls((2,), (1,), ((0, 0),), (1,)), (Input((1, 1, 3)), Input((1, 1, 2)))),
        Sample(cls((2, 3), (2, 1), ((1, 0), (2, 1)), (1, 2), 2), plane),
    ]


@mistakes(ConvWeightGradient)
def conv_weight_gradient_mistakes(cls: Any) -> list[Mistake]:
    x, g = as_tensor(np.ones((1, 2, 3))), as_tensor(np.ones((1, 2, 3)))
    back = cls((2,), (1,), ((0, 0),), (1,))
    return [Mistake(lambda: back(x, g), ShapeError, "no convolution")]
