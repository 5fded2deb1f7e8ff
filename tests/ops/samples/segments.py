"""Samples of the ops of ops.segments, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import DTypeError, RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.segments import SegmentSum


@samples(SegmentSum)
def segment_sum_samples(cls: Any) -> list[Sample]:
    starts = np.array([0, 2, 2, 5])
    return [
        Sample(cls(), (starts, Input((5, 3)))),
        Sample(cls(), (starts[1:], Input((6, 2, 17)))),
        Sample(cls(), (starts, Input((5,)))),
        Sample(cls(), (np.zeros(4, np.int64), Input((0, 2)))),
    ]


@mistakes(SegmentSum)
def segment_sum_mistakes(cls: Any) -> list[Mistake]:
    x, far = as_tensor([1.0]), as_tensor([0, 7])
    falls = as_tensor([1, 0])
    return [
        Mistake(lambda: cls()(x, x), DTypeError, "are integers"),
        Mistake(lambda: cls()(far, as_tensor(1.0)), ShapeError, "no rows"),
        Mistake(lambda: cls()(far, x).numpy(), RunError, "start 7 is out"),
        Mistake(lambda: cls()(falls, x).numpy(), RunError, "starts of rows fall"),
    ]
