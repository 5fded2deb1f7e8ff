"""Samples of the ops of ops.statistics, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Sample, samples, samples_of
from treadle.base.dtypes import complex64
from treadle.graph.op import Input
from treadle.ops.statistics import Folded, LogSumExp, Var


@samples(Folded)
def folded_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((1,), False), (Input((2, 3)),)),
        Sample(cls((0, 1), False), (Input((7, 5)),)),
        Sample(cls((0, 2), True), (Input((2, 3, 4)),)),
        Sample(cls((), False), (Input((3,)),)),
    ]


@samples(Var)
def var_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((1,)), (Input((2, 3)),)),
        Sample(cls((0, 1), True), (Input((7, 5)),)),
        Sample(cls((0,), False, 1), (Input((4, 2)),)),
        Sample(cls((0,), False, 2), (Input((1, 2)),), ()),
        Sample(cls((0,)), (Input((4, 2), complex64),), ()),
    ]


@samples(LogSumExp)
def log_sum_exp_samples(cls: Any) -> list[Sample]:
    gone = np.array([[-np.inf, 1.0], [-np.inf, -np.inf]], np.float32)
    return [
        *samples_of(cls, after=LogSumExp),
        Sample(cls((1,)), (gone,), ()),
        Sample(cls((0,)), (Input((0, 3)),), ()),
        Sample(cls((1,)), (Input((3, 4), complex64),), ()),
    ]
