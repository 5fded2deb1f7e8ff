"""Samples of the ops of ops.while_loop, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import float64
from treadle.base.errors import GradientError, ShapeError
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.ops.families import outputs_of
from treadle.ops.while_loop import While


@samples(While)
def while_samples(cls: Any) -> list[Sample]:
    t = Type((), float64)
    test = trace(lambda x: [x < 10.0], [t], "test").body
    body = trace(lambda x: [x * 2.0 + 1.0], [t], "double").body
    return [Sample(cls(test, body, 1, 0), (np.array(1.5),), differentiable=())]


@mistakes(While)
def while_mistakes(cls: Any) -> list[Mistake]:
    op = samples_of(cls)[0].op
    x, y = as_tensor(np.ones(2)), as_tensor(np.array(1.0))
    return [
        Mistake(lambda: op(x), ShapeError, "operand 0"),
        Mistake(
            lambda: functions.pullback(
                list(outputs_of(op(y))), [as_tensor(np.array(1.0))], [y]
            ),
            GradientError,
            "max_iterations",
        ),
    ]
