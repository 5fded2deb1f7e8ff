"""Samples of the ops of ops.contract, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.contract import Contract, matmul


@samples(Contract)
def contract_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls("ij,jk->ik"), (Input((2, 3)), Input((3, 4)))),
        Sample(cls("ij,jk->ki"), (Input((33, 7)), Input((7, 31)))),
        Sample(cls("bij,bjk->bik"), (Input((2, 3, 1)), Input((2, 1, 5)))),
        Sample(cls("i,j->ij"), (Input((3,)), Input((2,)))),
        Sample(cls("ij,ij->"), (Input((2, 3)), Input((2, 3)))),
        Sample(cls("ij,jk->ik"), (Input((2, 0)), Input((0, 4)))),
    ]


@mistakes(Contract)
def contract_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([[1.0, 2.0]])
    named = as_tensor([[1.0, 2.0]], axes=("a", "b"))
    square = as_tensor(np.eye(2), axes=("a", "b"))
    return [
        Mistake(lambda: cls("ij,jk->ik")(x, x), ShapeError, "do not meet"),
        Mistake(lambda: matmul(x, x), ShapeError, "do not meet"),
        Mistake(lambda: matmul(x, 1.0), ShapeError, "scalar"),
        Mistake(lambda: matmul(named, x), AxisError, "has none"),
        Mistake(lambda: matmul(named, named), AxisError, "sums the last"),
        Mistake(lambda: cls("ij,kj->ik")(named, named), AxisError, "twice"),
        Mistake(lambda: cls("ij,jk->ik")(square, square), AxisError, "and axis"),
    ]
