"""Samples of the ops of ops.power, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Sample, binary_samples, samples, unary_samples
from treadle.base.dtypes import int32
from treadle.graph.op import Input
from treadle.ops.power import Pow, Sqrt


@samples(Sqrt)
def sqrt_samples(cls: Any) -> list[Sample]:
    flat = Sample(cls(True), (Input((5,), low=0.2, high=4),))
    return [*unary_samples(cls(), 0.2, 4), flat]


@samples(Pow)
def pow_samples(cls: Any) -> list[Sample]:
    base = Input(low=0.3, high=2.0)
    whole = [
        Sample(cls(), (Input((2, 3), apart=0.1), np.array(n, np.float32)), (0,))
        for n in (2.0, 3.0, -1.0)
    ]
    counts = binary_samples(cls(), Input(low=1, high=3), Input(low=0, high=3), (int32,))
    return [*binary_samples(cls(), base, Input()), *whole, *counts]
