"""Samples of the ops of ops.dropout, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.graph.leaves import constant_node
from treadle.graph.op import Input
from treadle.ops.dropout import Dropout, dropout


@samples(Dropout)
def dropout_samples(cls: Any) -> list[Sample]:
    p, draw = np.array(0.4, np.float32), np.array([7, 3], np.uint64)
    return [
        Sample(cls((2, 3)), (Input((2, 3)), p, draw), (0,)),
        Sample(cls((7, 1)), (Input((7, 5)), p, draw), (0,)),
        Sample(cls((1, 4)), (Input((3, 1, 4)), p, draw), (0,)),
        Sample(cls(()), (Input(()), p, draw), (0,)),
        Sample(cls((0, 2)), (Input((0, 2)), p, draw), (0,)),
    ]


@mistakes(Dropout)
def dropout_mistakes(cls: Any) -> list[Mistake]:
    x = constant_node(np.ones(3, np.float32))
    p = constant_node(np.array(0.5, np.float32))
    draw = constant_node(np.array([7, 3], np.uint64))
    return [
        Mistake(lambda: cls((3,))(x, p, x), DTypeError, "uint64[2]"),
        Mistake(lambda: cls((3,))(x, x, draw), ShapeError, "is a scalar"),
        Mistake(lambda: cls((2,))(x, p, draw), ShapeError, "do not broadcast"),
        Mistake(lambda: cls((3,))(draw, p, draw), DTypeError, "float operands"),
        Mistake(lambda: dropout(x, 1.5), ArgumentError, "from 0 to 1, got 1.5"),
        Mistake(lambda: dropout(x, -0.1), ArgumentError, "from 0 to 1, got -0.1"),
    ]
