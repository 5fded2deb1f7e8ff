"""Samples of the ops of ops.cast, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import bool_, complex64, float16, float32, float64, int32
from treadle.base.errors import DTypeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.cast import Cast, astype


@samples(Cast)
def cast_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(float64), (Input((2, 3), float32),)),
        Sample(cls(float32), (Input((7,), float64),), differentiable=()),
        Sample(cls(float16), (Input((3, 1)),), differentiable=()),
        Sample(cls(int32), (Input((), low=-9, high=9),)),
        Sample(cls(float32), (Input((0, 2), int32),)),
        Sample(cls(bool_), (Input((4,), int32),)),
        Sample(cls(float32), (Input((4,), bool_),)),
        Sample(cls(complex64), (Input((2,)),), differentiable=()),
    ]


@mistakes(Cast)
def cast_mistakes(cls: Any) -> list[Mistake]:
    z = as_tensor(np.zeros(2, np.complex64))
    return [
        Mistake(lambda: astype(z, "float32"), DTypeError, "does not convert"),
        Mistake(lambda: astype(1.0, "text"), DTypeError, "not an element type"),
    ]
