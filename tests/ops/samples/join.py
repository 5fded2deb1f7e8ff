"""Samples of the ops of ops.join, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArityError, AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.join import Concat, concat, split, stack


@samples(Concat)
def concat_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0), (Input((2, 3)), Input((4, 3)))),
        Sample(cls(1), (Input((2, 3)), Input((2, 1)), Input((2, 2)))),
        Sample(cls(0), (Input((0, 3)), Input((1, 3)))),
        Sample(cls(0), (Input((3,)),)),
        Sample(cls(1), tuple(Input((3, n)) for n in (2, 1, 3, 1, 0, 2, 1, 4, 2))),
    ]


@mistakes(Concat)
def concat_mistakes(cls: Any) -> list[Mistake]:
    x, y = as_tensor([[1.0, 2.0]]), as_tensor([[1.0]])
    named = as_tensor([[1.0, 2.0]], axes=("a", "b"))
    return [
        Mistake(lambda: concat([x, y], 0), ShapeError, "does not join"),
        Mistake(lambda: concat([]), ArityError, "nothing"),
        Mistake(lambda: concat([x], 2), AxisError, "out of range"),
        Mistake(lambda: concat([x, named]), AxisError, "names differ"),
        Mistake(lambda: split(x, [1, 2], 1), ShapeError, "add up"),
        Mistake(lambda: split(x, 3, 1), ShapeError, "equal parts"),
        Mistake(lambda: stack([x, y]), ShapeError, "item 1 has shape"),
    ]
