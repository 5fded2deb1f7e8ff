"""Samples of the ops of ops.nearest, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import uint8, uint32
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.ops.nearest import NearestCodes, nearest_codes


@samples(NearestCodes)
def nearest_codes_samples(cls: Any) -> list[Sample]:
    rng = np.random.default_rng(7)
    small = rng.integers(0, 256, (2, 9)).astype(uint8)
    large = rng.integers(0, 1 << 32, (3, 5)).astype(uint32)
    return [
        Sample(cls(4), (small, small.T[:3])),
        Sample(cls(2), (large, large[:, 1])),
        Sample(cls(9), (small, small.T[:0])),
        Sample(cls(0), (small, small.T[:1])),
    ]


@mistakes(NearestCodes)
def nearest_codes_mistakes(cls: Any) -> list[Mistake]:
    codes = as_tensor(np.zeros((2, 3), uint8))
    query = as_tensor(np.zeros((4, 2), uint8))
    signed = [as_tensor(np.zeros((2, 2), np.int64))] * 2
    return [
        Mistake(lambda: nearest_codes(codes, query, 4), ArgumentError, "k is 4"),
        Mistake(lambda: cls(1)(codes, codes), ShapeError, "do not meet"),
        Mistake(lambda: cls(1)(*signed), DTypeError, "unsigned"),
    ]
