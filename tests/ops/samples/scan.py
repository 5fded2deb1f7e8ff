"""Samples of the ops of ops.scan, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import int32
from treadle.base.errors import AxisError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.scan import CumulativeLogSumExp, CumulativeMax, Running


def off_infinity(samples: list[Sample]) -> list[Sample]:
    """Exclusive samples without a gradient check: at -inf there is no difference."""
    return [
        Sample(s.op, s.inputs, () if getattr(s.op, "exclusive", False) else None)
        for s in samples
    ]


@samples(Running)
def running_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0, False, False), (Input((4, 3), apart=0.01),)),
        Sample(cls(1, True, False), (Input((2, 5), apart=0.01),)),
        Sample(cls(0, False, True), (Input((4,), apart=0.01),)),
        Sample(cls(1, True, True), (Input((2, 3, 2), apart=0.01),)),
        Sample(cls(0, False, False), (Input((0, 3)),)),
    ]


@mistakes(Running)
def running_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: cls(1, False, False)(x), AxisError, "out of range")]


@samples(CumulativeLogSumExp)
def cumulative_log_sum_exp_samples(cls: Any) -> list[Sample]:
    return off_infinity(samples_of(cls, after=CumulativeLogSumExp))


@samples(CumulativeMax)
def cumulative_max_samples(cls: Any) -> list[Sample]:
    counts = Sample(cls(1, True, True), (Input((2, 4), int32, -9, 9),))
    return [*off_infinity(samples_of(cls, after=CumulativeMax)), counts]
