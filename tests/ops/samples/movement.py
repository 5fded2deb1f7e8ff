"""Samples of the ops of ops.movement, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.movement import (
    BroadcastTo,
    PermuteDims,
    Reshape,
    broadcast_to,
    permute_dims,
    reshape,
)


@samples(Reshape)
def reshape_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((3, 2)), (Input((2, 3)),)),
        Sample(cls((6,)), (Input((2, 3)),)),
        Sample(cls(()), (Input((1, 1)),)),
        Sample(cls((5, 0)), (Input((0, 3)),)),
    ]


@mistakes(Reshape)
def reshape_mistakes(cls: Any) -> list[Mistake]:
    return [
        Mistake(lambda: reshape([1.0, 2.0], (3,)), ShapeError, "do not fill"),
        Mistake(lambda: reshape([1.0, 2.0], (-1, -1)), ShapeError, "one -1"),
    ]


@samples(PermuteDims)
def permute_dims_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((1, 0)), (Input((2, 3)),)),
        Sample(cls((2, 0, 1)), (Input((2, 3, 4)),)),
        Sample(cls(()), (Input(()),)),
        Sample(cls((0, 2, 1)), (Input((0, 1, 5)),)),
    ]


@mistakes(PermuteDims)
def permute_dims_mistakes(cls: Any) -> list[Mistake]:
    return [
        Mistake(lambda: permute_dims([1.0], (1,)), AxisError, "out of range"),
        Mistake(lambda: cls((0, 0))(as_tensor([[1.0]])), AxisError, "permutation"),
    ]


@samples(BroadcastTo)
def broadcast_to_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((2, 3)), (Input((3,)),)),
        Sample(cls((4, 2, 3)), (Input((2, 1)),)),
        Sample(cls((5,)), (Input(()),)),
        Sample(cls((0, 3)), (Input((1, 3)),)),
    ]


@mistakes(BroadcastTo)
def broadcast_to_mistakes(cls: Any) -> list[Mistake]:
    return [Mistake(lambda: broadcast_to([1.0, 2.0], (3,)), ShapeError, "broadcast")]
