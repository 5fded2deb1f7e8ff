"""Samples of the ops of ops.custom, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples, samples_of
from treadle.base.dtypes import float64
from treadle.base.errors import ShapeError
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.graph.tensor import Tensor
from treadle.ops.custom import Custom


@samples(Custom)
def custom_samples(cls: Any) -> list[Sample]:
    t = Type((2, 3), float64)

    def pulled(g: Tensor, y: Tensor, x: Tensor) -> list[Tensor]:
        return [g * x]

    body = trace(pulled, [t, t, t], "pulled").body
    inputs = (Input((2, 3), float64), Input((2, 3), float64))
    # What these are derivatives of is not the first operand.
    return [Sample(cls(body, 1, 1, (0,)), inputs, differentiable=())]


@mistakes(Custom)
def custom_mistakes(cls: Any) -> list[Mistake]:
    op, x = samples_of(cls)[0].op, as_tensor(1.0)
    return [Mistake(lambda: op(x, x), ShapeError, "operand 0")]
