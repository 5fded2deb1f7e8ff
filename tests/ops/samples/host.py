"""Samples of the ops of ops.host, and calls that they refuse."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import float64
from treadle.base.errors import ArgumentError, GradientError, RunError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input
from treadle.graph.operators import functions
from treadle.ops.host import Callback, Host, callback, py_function


@samples(Host)
def host_samples(cls: Any) -> list[Sample]:
    t = Type((2, 3), float64)

    def both(x: Array, y: Array) -> tuple[Array, Array]:
        return x * y, np.cumsum(x)

    op = cls(both, "both", (float64,) * 2, (t, Type((6,), float64)))
    return [Sample(op, (Input((2, 3), float64),) * 2, differentiable=())]


@mistakes(Host)
def host_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0, 2.0])
    return [
        Mistake(
            lambda: py_function(lambda x: x[:1], label="cut")(x).numpy(),
            RunError,
            "returned float32[1] where float32[2] was declared",
        ),
        Mistake(
            lambda: py_function(lambda x: 1 // 0, label="bad")(x).numpy(),
            RunError,
            "raised ZeroDivisionError",
        ),
        Mistake(
            lambda: functions.pullback(
                [py_function(np.sort)(x)], [as_tensor([1.0, 1.0])], [x]
            ),
            GradientError,
            "host_gradient",
        ),
    ]


@samples(Callback)
def callback_samples(cls: Any) -> list[Sample]:
    op = cls(lambda *xs: None, "told", (float64,) * 2)
    inputs = Input((2, 3), float64), Input((4,), float64)
    return [Sample(op, inputs, (0,))]


@mistakes(Callback)
def callback_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0, 2.0])
    fail, no = functools.partial(int, "no number"), cast(Any, x)
    return [
        Mistake(lambda: callback(lambda x: fail(), x).numpy(), RunError, "raised"),
        Mistake(lambda: callback(no, x), ArgumentError, "a function"),
    ]
