"""Samples of the ops of ops.select, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import bool_, int32
from treadle.base.errors import DTypeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.select import Select


@samples(Select)
def select_samples(cls: Any) -> list[Sample]:
    c, x = Input((2, 3), bool_), Input((2, 3))
    return [
        Sample(cls(), (c, x, x)),
        Sample(cls(), (Input((3,), bool_), x, Input(()))),
        Sample(cls(), (Input((7, 1), bool_), Input((5,)), Input((7, 5)))),
        Sample(cls(), (Input((0, 2), bool_), Input((2,), int32), Input((), int32))),
    ]


@mistakes(Select)
def select_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: cls()(x, x, x), DTypeError, "condition is bool")]
