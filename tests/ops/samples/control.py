"""Samples of the ops of ops.control, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import float64
from treadle.base.errors import DTypeError, ShapeError, TraceError
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.operators import functions
from treadle.ops.control import Cond, cond


@samples(Cond)
def cond_samples(cls: Any) -> list[Sample]:
    t = Type((3,), float64)
    then = trace(lambda x: [x * x], [t], "then").body
    other = trace(lambda x: [functions.sin(x)], [t], "otherwise").body
    op = cls(then, other, 1)
    a, b = Input((3,), float64), Input((3,), float64)
    return [Sample(op, (np.array(flag), a, b)) for flag in (True, False)]


@mistakes(Cond)
def cond_mistakes(cls: Any) -> list[Mistake]:
    op = samples_of(cls)[0].op
    x, long = as_tensor(np.ones(3)), as_tensor(np.ones(4))
    yes = as_tensor(True)
    return [
        Mistake(lambda: op(x, x, x), DTypeError, "bool scalar"),
        Mistake(lambda: op(yes, x, long), ShapeError, "operand 0 of otherwise"),
        Mistake(lambda: cond(yes, lambda: x, lambda: long), TraceError, "same types"),
    ]
