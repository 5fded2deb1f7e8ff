"""Samples of the ops of ops.recurrence, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.recurrence import LinearRecurrence


@samples(LinearRecurrence)
def linear_recurrence_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0), (Input((4, 3)), Input((4, 3)))),
        Sample(cls(1, True), (Input((2, 5)), Input((2, 5)))),
        Sample(cls(0), (Input((1,)), Input((1,)))),
        Sample(cls(1), (Input((2, 0)), Input((2, 0)))),
    ]


@mistakes(LinearRecurrence)
def linear_recurrence_mistakes(cls: Any) -> list[Mistake]:
    x, y = as_tensor([1.0]), as_tensor([1.0, 2.0])
    named = as_tensor([1.0], axes=("n",))
    return [
        Mistake(lambda: cls(1)(x, x), AxisError, "out of range"),
        Mistake(lambda: cls(0)(x, y), ShapeError, "differ in shape"),
        Mistake(lambda: cls(0)(named, x), AxisError, "differ in axis names"),
    ]
