"""Samples of the ops of ops.call, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import float32
from treadle.base.errors import ShapeError, TreadleError
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.call import Call


@samples(Call)
def call_samples(cls: Any) -> list[Sample]:
    def cell(x: Tensor, w: Tensor) -> list[Tensor]:
        return [x * w, functions.sin(x) + w]

    types = [Type((2, 3), float32), Type((3,), float32)]
    body = trace(cell, types, "cell").body
    # The gradient test runs in float64, so it needs a body of that type.
    wide = trace(cell, [t.with_dtype(np.dtype("float64")) for t in types], "cell")
    float64 = np.dtype("float64")
    return [
        Sample(cls(body), (Input((2, 3)), Input((3,))), differentiable=()),
        Sample(cls(wide.body), (Input((2, 3), float64), Input((3,), float64))),
    ]


@mistakes(Call)
def call_mistakes(cls: Any) -> list[Mistake]:
    call = samples_of(cls)[0].op
    x = as_tensor([1.0])
    return [
        Mistake(lambda: call(x), TreadleError, "takes 2 operands"),
        Mistake(lambda: call(x, x), ShapeError, "operand 0 of cell"),
    ]
