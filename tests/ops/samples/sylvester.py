"""Samples of the ops of ops.sylvester, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.matrices import positive, well
from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import complex64
from treadle.base.errors import RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.sylvester import Equation, OfLyapunov, Riccati, Sylvester


@mistakes(Equation)
def equation_mistakes(cls: Any) -> list[Mistake]:
    sample = samples_of(cls)[0]
    wide = [as_tensor(np.ones((2, 3), np.float32)) for _ in sample.inputs]
    return [Mistake(lambda: sample.op(*wide), ShapeError, "not square")]


@samples(Sylvester)
def sylvester_samples(cls: Any) -> list[Sample]:
    z, w = well(2, 3, 3, dtype=complex64), well(2, 2, 2, dtype=complex64)
    return [
        Sample(cls(), (well(3, 3), well(3, 3, seed=1), Input((3, 3)))),
        Sample(
            cls(),
            (well(2, 3, 3), well(2, 2, 2), Input((2, 3, 2))),
            second_order=False,
        ),
        Sample(cls(), (Input((0, 0)), well(2, 2), Input((0, 2))), ()),
        Sample(cls(), (z, w, Input((2, 3, 2), complex64)), ()),
    ]


@mistakes(Sylvester)
def sylvester_mistakes(cls: Any) -> list[Mistake]:
    one = as_tensor(np.eye(2, dtype=np.float32))
    three = as_tensor(np.eye(3, dtype=np.float32))
    return [
        Mistake(lambda: cls()(one, one, three), ShapeError, "of order 2 and 2"),
        Mistake(lambda: cls()(one, -one, one).numpy(), RunError, "no unique"),
    ]


@samples(OfLyapunov)
def of_lyapunov_samples(cls: Any) -> list[Sample]:
    z = well(2, 2, 2, dtype=complex64)
    return [
        Sample(cls(), (well(3, 3), Input((3, 3)))),
        Sample(cls(), (well(2, 2, 2), Input((2, 2, 2))), None, False),
        Sample(cls(), (Input((0, 0)), Input((0, 0))), ()),
        Sample(cls(), (z, Input((2, 2, 2), complex64)), ()),
    ]


@mistakes(OfLyapunov)
def of_lyapunov_mistakes(cls: Any) -> list[Mistake]:
    one, three = (as_tensor(np.eye(n, dtype=np.float32)) for n in (2, 3))
    return [Mistake(lambda: cls()(one, three), ShapeError, "beside a of order 2")]


@samples(Riccati)
def riccati_samples(cls: Any) -> list[Sample]:
    r = np.float32(2) * np.eye(2, dtype=np.float32)
    a, q = well(3, 3) * np.float32(0.3), positive(3, 3) * np.float32(0.1)
    z = well(2, 2, 2, dtype=complex64) * np.float32(0.3)
    p = positive(2, 2, 2, dtype=complex64)
    return [
        Sample(cls(), (a, a, q, q)),
        Sample(cls(), (a, well(3, 2), q, r), None, False),
        Sample(cls(), (z, z, p, p), ()),
    ]


@mistakes(Riccati)
def riccati_mistakes(cls: Any) -> list[Mistake]:
    x, b, none = (as_tensor(np.ones((2, n), np.float32)) for n in (2, 3, 0))
    return [
        Mistake(lambda: cls()(x, b, x, x), ShapeError, "r is float32"),
        Mistake(lambda: cls()(x, none, x, none), ShapeError, "to control by"),
    ]
