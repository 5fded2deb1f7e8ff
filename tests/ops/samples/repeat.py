"""Samples of the ops of ops.repeat, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, AxisError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.repeat import Flip, Roll, flip, roll


@samples(Flip)
def flip_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((0,)), (Input((4, 3)),)),
        Sample(cls((0, 2)), (Input((2, 3, 4)),)),
        Sample(cls((0,)), (Input((0, 3)),)),
    ]


@mistakes(Flip)
def flip_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: flip(x, 1), AxisError, "out of range")]


@samples(Roll)
def roll_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(1, 0), (Input((4, 3)),)),
        Sample(cls(-2, 1), (Input((2, 5)),)),
        Sample(cls(1, 0), (Input((0, 3)),)),
    ]


@mistakes(Roll)
def roll_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [
        Mistake(lambda: roll(x, 1, 1), AxisError, "out of range"),
        Mistake(lambda: roll(x, (1, 2), 0), ArgumentError, "2 shifts"),
    ]
