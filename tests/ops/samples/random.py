"""Samples of the ops of ops.random, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import bfloat16, float16, float32, float64, int64
from treadle.base.errors import DTypeError
from treadle.graph.leaves import as_tensor
from treadle.ops.random import Random


@samples(Random)
def random_samples(cls: Any) -> list[Sample]:
    draw = np.array([7, 3], np.uint64)
    return [
        Sample(cls((2, 3), float32), (draw,)),
        Sample(cls((), float32), (draw,)),
        Sample(cls((5,), float64), (draw,)),
        Sample(cls((0, 2), float32), (draw,)),
        Sample(cls((7,), float16), (draw,)),
        Sample(cls((5,), float32), (np.array([[7, 3], [7, 4]], np.uint64),)),
        Sample(cls((3, 3), bfloat16), (draw,)),
    ]


@mistakes(Random)
def random_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [
        Mistake(lambda: cls((2,), float32)(x), DTypeError, "uint64[2]"),
        Mistake(lambda: cls((2,), int64), DTypeError, "are floats"),
    ]
