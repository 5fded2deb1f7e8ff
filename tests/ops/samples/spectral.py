"""Samples of the ops of ops.spectral, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.samples.matrices import hermitian_samples, of_square, well
from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import complex64
from treadle.graph.op import Input
from treadle.ops.spectral import SVD, Eig, Eigh


@samples(Eigh)
def eigh_samples(cls: Any) -> list[Sample]:
    return hermitian_samples(cls(), well)


@mistakes(Eigh)
def eigh_mistakes(cls: Any) -> list[Mistake]:
    return [of_square(cls)]


@samples(SVD)
def svd_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (well(3, 3),)),
        Sample(cls(), (well(2, 4, 2),), None, False),
        Sample(cls(), (well(2, 4),)),
        Sample(cls(), (Input((2, 0, 3)),), ()),
        Sample(cls(), (well(2, 3, 2, dtype=complex64),), ()),
    ]


@samples(Eig)
def eig_samples(cls: Any) -> list[Sample]:
    # Derivatives of complex results are checked by tests/ops/test_linalg.py.
    return [
        Sample(cls(), (well(3, 3),), ()),
        Sample(cls(), (well(2, 1, 2, 2),), ()),
        Sample(cls(), (Input((2, 1, 1), low=0.5, high=2.0),), ()),
        Sample(cls(), (Input((0, 0)),), ()),
        Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
    ]


@mistakes(Eig)
def eig_mistakes(cls: Any) -> list[Mistake]:
    return [of_square(cls)]
