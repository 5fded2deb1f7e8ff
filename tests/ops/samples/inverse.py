"""Samples of the ops of ops.inverse, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.matrices import of_square, well
from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import complex64
from treadle.base.errors import RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.inverse import Inverse, MatrixExp, OfSquare, PseudoInverse


@samples(OfSquare)
def of_square_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (well(3, 3),)),
        Sample(cls(), (well(2, 1, 4, 4),), None, False),
        Sample(cls(), (Input((2, 1, 1), low=0.5, high=2.0),)),
        Sample(cls(), (Input((0, 0)),), ()),
        Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
    ]


@mistakes(OfSquare)
def of_square_mistakes(cls: Any) -> list[Mistake]:
    return [of_square(cls)]


@mistakes(Inverse)
def inverse_mistakes(cls: Any) -> list[Mistake]:
    zero = as_tensor(np.zeros((2, 2), np.float32))
    return [Mistake(lambda: cls()(zero).numpy(), RunError, "Singular matrix")]


@samples(PseudoInverse)
def pseudo_inverse_samples(cls: Any) -> list[Sample]:
    low = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]], np.float32)
    bound, several = np.float32(1e-3), np.full((2,), 1e-3, np.float32)
    return [
        Sample(cls(), (well(4, 2), bound), (0,)),
        Sample(cls(), (well(2, 3, 5), several), (0,), False),
        Sample(cls(), (low, bound), ()),
        Sample(cls(), (Input((0, 3)), bound), ()),
        Sample(cls(), (well(2, 3, 2, dtype=complex64), several), ()),
    ]


@mistakes(PseudoInverse)
def pseudo_inverse_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((2, 2), np.float32))
    far = as_tensor([1.0, 2.0])
    return [Mistake(lambda: cls()(x, far), ShapeError, "bounds are floats")]


@samples(MatrixExp)
def matrix_exp_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((3, 3)),)),
        Sample(cls(), (Input((2, 1, 2, 2)),), None, False),
        Sample(cls(), (Input((0, 0)),), ()),
        Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
    ]


@mistakes(MatrixExp)
def matrix_exp_mistakes(cls: Any) -> list[Mistake]:
    return [of_square(cls)]
