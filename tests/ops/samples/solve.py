"""Samples of the ops of ops.solve, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.matrices import of_square, well
from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import complex64
from treadle.base.errors import RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.solve import Solve, System, TriangularSolve


@mistakes(System)
def system_mistakes(cls: Any) -> list[Mistake]:
    a, b = (as_tensor(np.eye(n, dtype=np.float32)) for n in (2, 3))
    sample = samples_of(cls)[0]
    return [
        of_square(cls),
        Mistake(lambda: sample.op(a, b), ShapeError, "right-hand"),
    ]


@samples(Solve)
def solve_samples(cls: Any) -> list[Sample]:
    z = well(2, 3, 3, dtype=complex64)
    return [
        Sample(cls(), (well(3, 3), Input((3, 2)))),
        Sample(cls(), (well(2, 4, 4), Input((2, 4, 1))), None, False),
        Sample(cls(), (Input((0, 0)), Input((0, 2))), ()),
        Sample(cls(), (z, Input((2, 3, 1), complex64)), ()),
    ]


@mistakes(Solve)
def solve_mistakes(cls: Any) -> list[Mistake]:
    zero = as_tensor(np.zeros((2, 2), np.float32))
    return [Mistake(lambda: cls()(zero, zero).numpy(), RunError, "Singular matrix")]


@samples(TriangularSolve)
def triangular_solve_samples(cls: Any) -> list[Sample]:
    z = well(2, 3, 3, dtype=complex64)
    return [
        Sample(cls(), (well(3, 3), Input((3, 2)))),
        Sample(cls(True), (well(2, 4, 4), Input((2, 4, 1))), None, False),
        Sample(cls(False, True), (well(3, 3), Input((3, 1)))),
        Sample(cls(True, True), (well(3, 3), Input((3, 1))), None, False),
        Sample(cls(), (Input((0, 0)), Input((0, 2))), ()),
        Sample(cls(True), (z, Input((2, 3, 1), complex64)), ()),
    ]


@mistakes(TriangularSolve)
def triangular_solve_mistakes(cls: Any) -> list[Mistake]:
    zero = as_tensor(np.zeros((2, 2), np.float32))
    return [Mistake(lambda: cls()(zero, zero).numpy(), RunError, "Singular matrix")]
