"""Samples of the ops of ops.fourier, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import complex64, float32
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.fourier import AlongOne, Fourier, InverseRealFourier, RealFourier


@mistakes(AlongOne)
def along_one_mistakes(cls: Any) -> list[Mistake]:
    sample = samples_of(cls)[0]
    number = as_tensor(np.ones((), sample.inputs[0].dtype))
    return [Mistake(lambda: sample.op(number), AxisError, "out of range")]


@samples(Fourier)
def fourier_samples(cls: Any) -> list[Sample]:
    # Derivatives of complex numbers are checked by tests/ops/test_fft.py.
    return [
        Sample(cls(0), (Input((4,), complex64),), ()),
        Sample(cls(1, True, "ortho"), (Input((2, 5), complex64),), ()),
        Sample(cls(0, False, "forward"), (Input((3, 2), complex64),), ()),
        Sample(cls(1), (Input((0, 3), complex64),), ()),
    ]


@samples(RealFourier)
def real_fourier_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0), (Input((4,), float32),), ()),
        Sample(cls(1, "ortho"), (Input((2, 5), float32),), ()),
        Sample(cls(0, "forward"), (Input((1, 2), float32),), ()),
        Sample(cls(1), (Input((0, 3), float32),), ()),
    ]


@samples(InverseRealFourier)
def inverse_real_fourier_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0, 4), (Input((3,), complex64),), ()),
        Sample(cls(1, 5, "ortho"), (Input((2, 3), complex64),), ()),
        Sample(cls(0, 1, "forward"), (Input((1, 2), complex64),), ()),
        Sample(cls(1, 3), (Input((0, 2), complex64),), ()),
    ]


@mistakes(InverseRealFourier)
def inverse_real_fourier_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones(3, np.complex64))
    return [Mistake(lambda: cls(0, 8)(x), ShapeError, "8 real numbers have 5")]
