"""Samples of the ops of ops.factor, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.matrices import hermitian_samples, of_square, positive, well
from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import complex64
from treadle.base.errors import RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input
from treadle.ops.factor import QR, Cholesky, Complement


@samples(Cholesky)
def cholesky_samples(cls: Any) -> list[Sample]:
    return hermitian_samples(cls(), positive)


@mistakes(Cholesky)
def cholesky_mistakes(cls: Any) -> list[Mistake]:
    bad = as_tensor(-np.eye(2, dtype=np.float32))
    return [
        of_square(cls),
        Mistake(lambda: cls()(bad).numpy(), RunError, "not positive definite"),
    ]


@samples(QR)
def qr_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (well(3, 3),)),
        Sample(cls(), (well(2, 4, 2),), None, False),
        Sample(cls(), (well(2, 4),)),
        Sample(cls(), (Input((2, 0, 3)),), ()),
        Sample(cls(), (well(2, 3, 2, dtype=complex64),), ()),
    ]


@samples(Complement)
def complement_samples(cls: Any) -> list[Sample]:
    def columns(*shape: int, dtype: Any = np.float32) -> Array:
        return np.linalg.qr(well(*shape, dtype=dtype))[0]

    # Without derivatives here: those are of bases, whatever turns them.
    return [
        Sample(cls(), (columns(4, 2),), ()),
        Sample(cls(), (columns(2, 3, 1),), ()),
        Sample(cls(), (columns(3, 3),), ()),
        Sample(cls(), (columns(2, 3, 2, dtype=complex64),), ()),
    ]


@mistakes(Complement)
def complement_mistakes(cls: Any) -> list[Mistake]:
    wide = as_tensor(np.ones((2, 3), np.float32))
    return [Mistake(lambda: cls()(wide), ShapeError, "not independent")]
