"""Samples of the ops of ops.normalization, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Input
from treadle.ops.normalization import Scaled


@samples(Scaled)
def scaled_samples(cls: Any) -> list[Sample]:
    eps = np.array(0.01, np.float32)
    return [
        Sample(cls((1,)), (Input((2, 3)), eps)),
        Sample(cls((0, 1)), (Input((7, 5)), eps)),
        Sample(cls((1, 2)), (Input((2, 3, 4)), eps)),
        Sample(cls((0,)), (Input((1,), low=1), eps)),
        Sample(cls((1,)), (Input((0, 3)), eps)),
    ]


@mistakes(Scaled)
def scaled_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    eps = constant_node(np.array(0.01, np.float32))
    return [
        Mistake(lambda: cls((1,))(x, eps), AxisError, "out of range"),
        Mistake(lambda: cls((0,))(x, x), ShapeError, "epsilon is a scalar"),
        Mistake(lambda: cls(())(x, eps), AxisError, "at least one axis"),
    ]
