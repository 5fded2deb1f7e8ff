"""Samples of the ops of ops.attention, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArityError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.attention import Attention


@samples(Attention)
def attention_samples(cls: Any) -> list[Sample]:
    scale = np.array(0.5, np.float32)
    q, k, v = Input((2, 3, 4)), Input((2, 5, 4)), Input((2, 5, 2))
    blind = np.array([[0, 0, 0], [-np.inf] * 3, [0, -np.inf, 1]], np.float32)
    square = (Input((3, 4)), Input((3, 4)), Input((3, 2)), scale)
    return [
        Sample(cls(), (q, k, v, scale)),
        Sample(cls(), (q, k, v, scale, Input((3, 5)))),
        Sample(cls(True), square),
        Sample(cls(), (*square, blind), (0, 1, 2)),
        Sample(cls(), (Input((1, 2)), Input((1, 2)), Input((1, 1)), scale)),
    ]


@mistakes(Attention)
def attention_mistakes(cls: Any) -> list[Mistake]:
    x, y = as_tensor(np.ones((3, 4))), as_tensor(np.ones((3, 5)))
    one, long = as_tensor(np.array(1.0)), as_tensor(np.ones((7, 7)))
    return [
        Mistake(lambda: cls()(x, y, y, one), ShapeError, "do not meet"),
        Mistake(lambda: cls()(x, x, x), ArityError, "q, k, v, scale"),
        Mistake(lambda: cls()(x, x, x, x), ShapeError, "scale is a scalar"),
        Mistake(lambda: cls()(x, x, x, one, long), ShapeError, "broadcast"),
    ]
