"""Samples of the ops of ops.einsum, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.einsum import Diagonal


@samples(Diagonal)
def diagonal_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((3, 3)),)),
        Sample(cls(1), (Input((2, 3, 4)),)),
        Sample(cls(-2), (Input((4, 3)),)),
        Sample(cls(5), (Input((2, 3)),)),
        Sample(cls(), (Input((0, 3)),)),
    ]


@mistakes(Diagonal)
def diagonal_mistakes(cls: Any) -> list[Mistake]:
    vector = as_tensor([1.0])
    return [Mistake(lambda: cls()(vector), ShapeError, "no diagonal")]
