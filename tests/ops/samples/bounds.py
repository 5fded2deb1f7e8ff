"""Samples of the ops of ops.bounds, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import float64
from treadle.base.errors import RunError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.bounds import InRange, Outcome


@samples(InRange)
def in_range_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(3), (np.array([[2, 0, 3]]),)),
        Sample(cls(0, "length"), (np.array(0, np.int32),)),
        Sample(cls(2), (np.zeros((0,), np.int64),)),
    ]


@mistakes(InRange)
def in_range_mistakes(cls: Any) -> list[Mistake]:
    far, below = as_tensor(np.array([4])), as_tensor(np.array([-1]))
    return [
        Mistake(lambda: cls(3, "start")(far).numpy(), RunError, "start 4 is not"),
        Mistake(lambda: cls(3)(below).numpy(), RunError, "from 0 to 3"),
    ]


@samples(Outcome)
def outcome_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(0), (Input((5,), apart=0.01),)),
        Sample(cls(1), (Input((3, 4, 2), float64, apart=0.01),)),
        Sample(cls(1), (np.array([[-np.inf, 2.0], [np.inf, -np.inf]]),)),
        Sample(cls(1), (Input((0, 3)),)),
    ]


@mistakes(Outcome)
def outcome_mistakes(cls: Any) -> list[Mistake]:
    empty = as_tensor(np.zeros((2, 0)))
    none, nan = as_tensor([-np.inf, -np.inf]), as_tensor([0.0, np.nan])
    return [
        Mistake(lambda: cls(1)(empty), ShapeError, "no outcome along axis 1"),
        Mistake(lambda: cls(0)(none).numpy(), RunError, "no outcome is possible"),
        Mistake(lambda: cls(0)(nan).numpy(), RunError, "no outcome is possible"),
    ]
