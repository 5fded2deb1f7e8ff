"""Samples of the ops of ops.recurrent, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.recurrent import Cell, GruCell, LstmCell


@mistakes(Cell)
def cell_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((2, 3), np.float32))
    wrong = [x] * (cls.arity or 1)
    return [Mistake(lambda: cls()(*wrong), ShapeError, "gates of state")]


@samples(LstmCell)
def lstm_cell_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((2, 12)), Input((2, 3)))),
        Sample(cls(), (Input((4,)), Input((1,)))),
        Sample(cls(), (Input((0, 8)), Input((0, 2)))),
    ]


@samples(GruCell)
def gru_cell_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(), (Input((2, 9)), Input((2, 9)), Input((2, 3)))),
        Sample(cls(), (Input((3,)), Input((3,)), Input((1,)))),
    ]
