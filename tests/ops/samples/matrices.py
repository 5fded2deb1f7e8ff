"""Samples of the ops of ops.matrices, and calls that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples_of
from treadle.base.dtypes import complex64
from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input, Op
from treadle.ops.matrices import OfMatrices, adjoint_of


def hermitian_samples(op: Op, matrices: Callable[..., Array]) -> list[Sample]:
    """Samples of an op of one Hermitian matrix, or a stack of them."""
    return [
        Sample(op, (matrices(3, 3),)),
        Sample(op, (matrices(2, 1, 2, 2),), None, False),
        Sample(op, (Input((2, 1, 1), low=0.5, high=2.0),)),
        Sample(op, (Input((0, 0)),), ()),
        Sample(op, (matrices(2, 3, 3, dtype=complex64),), ()),
    ]


def of_square(cls: type[OfMatrices]) -> Mistake:
    """The mistake of matrices that are not square."""
    sample = samples_of(cls)[0]
    wide = [as_tensor(np.ones((2, 3), np.float32)) for _ in sample.inputs]
    return Mistake(lambda: sample.op(*wide), ShapeError, "not square")


def well(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Matrices for samples: far from singular, with singular values far apart."""
    rng = np.random.default_rng(seed)
    m, n = shape[-2:]
    x: Array = rng.uniform(-0.4, 0.4, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-0.4, 0.4, shape)
    x = x + np.eye(m, n) * np.arange(2.0, 2.0 + n)
    return x.astype(dtype)


def positive(*shape: int, dtype: Any = np.float32) -> Array:
    """Positive definite matrices for samples."""
    x = well(*shape, dtype=dtype)
    return (x @ adjoint_of(x)).astype(dtype)


@mistakes(OfMatrices)
def of_matrices_mistakes(cls: Any) -> list[Mistake]:
    sample = samples_of(cls)[0]
    flat = [as_tensor([1.0, 2.0]) for _ in sample.inputs]
    return [Mistake(lambda: sample.op(*flat), ShapeError, "is no matrix")]
