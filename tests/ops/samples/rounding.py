"""Samples of the ops of ops.rounding, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import (
    Mistake,
    Sample,
    mistakes,
    samples,
    samples_of,
    unary_samples,
)
from treadle.base.dtypes import complex64
from treadle.base.errors import ArgumentError
from treadle.graph.op import Input
from treadle.ops.rounding import Abs, Rounding, round


@samples(Abs)
def abs_samples(cls: Any) -> list[Sample]:
    return [*samples_of(cls, after=Abs), Sample(cls(), (Input((2, 3), complex64),))]


@samples(Rounding)
def rounding_samples(cls: Any) -> list[Sample]:
    return [
        *unary_samples(cls(False), apart=0.05),
        Sample(cls(True), (Input((5,), low=-3, high=3),), differentiable=()),
    ]


@mistakes(Rounding)
def rounding_mistakes(cls: Any) -> list[Mistake]:
    says = "straight_through"
    return [Mistake(lambda: round([1.0], gradient="none"), ArgumentError, says)]
