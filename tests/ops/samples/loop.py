"""Samples of the ops of ops.loop, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import float64
from treadle.base.errors import ShapeError, TraceError
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.loop import Scan, scan


@samples(Scan)
def scan_samples(cls: Any) -> list[Sample]:
    t, row = Type((2,), float64), Type((3,), float64)

    def step(c: Tensor, x: Tensor, w: Tensor) -> list[Tensor]:
        nxt = functions.sin(c * functions.sum(x) + w)
        return [nxt, x * functions.sum(nxt)]

    body = trace(step, [t, row, t], "step").body
    inputs = (Input((2,), float64), Input((4, 3), float64), Input((2,), float64))
    return [
        Sample(cls(body, 4, 1, 1), inputs),
        Sample(cls(body, 4, 1, 1, 0, True), inputs),
        Sample(
            cls(body, 0, 1, 1),
            (inputs[0], Input((0, 3), float64), inputs[2]),
            second_order=False,
        ),
    ]


@mistakes(Scan)
def scan_mistakes(cls: Any) -> list[Mistake]:
    op = samples_of(cls)[0].op
    x = as_tensor(np.ones(2))
    return [
        Mistake(lambda: op(x, x, x), ShapeError, "4 rows"),
        Mistake(lambda: scan(lambda c, r: (c.sum(), r), x, x), ShapeError, "carry 0"),
        Mistake(lambda: scan(lambda c, r: c, x, x), TraceError, "pair"),
    ]
