"""Samples of the ops of ops.flow, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArityError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.flow import ClipGradient, Logged, Passing, Print, ScaleGradient


@samples(Passing)
def passing_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((2, 3)), Input((4,))), (0,)),
        Sample(cls(), (Input(()), Input((0,)), Input((2, 1))), (0,)),
    ]


@mistakes(Passing)
def passing_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(1.0)
    return [Mistake(lambda: cls()(x), ArityError, "handed on after")]


@samples(ScaleGradient)
def scale_gradient_samples(cls: Any) -> list[Sample]:
    one = np.array(1.0, np.float32)
    return [
        Sample(cls(), (Input((2, 3)), one), (0,)),
        Sample(cls(), (Input((4,)), Input(())), ()),
    ]


@samples(ClipGradient)
def clip_gradient_samples(cls: Any) -> list[Sample]:
    wide = np.array(100.0, np.float32)
    return [
        Sample(cls(), (Input((2, 3)), wide), (0,)),
        Sample(cls(), (Input((4,)), Input((), low=0.1, high=0.2)), ()),
    ]


@samples(Logged)
def logged_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls("a value"), (Input((2, 3)),)),
        Sample(cls("nothing"), (Input((0, 3)),)),
    ]


@samples(Print)
def print_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls("a value"), (Input((2, 3)),)),
        Sample(cls(""), (Input((0, 3)),)),
    ]
