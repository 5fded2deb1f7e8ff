"""Samples of the ops of ops.window, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.window import Fold, Unfold, fold, unfold


@samples(Unfold)
def unfold_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((2,), (1,), ((0, 0),), (1,)), (Input((2, 1, 3)),)),
        Sample(cls((2, 3), (2, 1), ((1, 0), (2, 1)), (1, 2)), (Input((1, 2, 4, 5)),)),
        Sample(cls((2,), (1,), ((0, 0),), (1,)), (Input((0, 1, 3)),)),
    ]


@mistakes(Unfold)
def unfold_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 1, 3)))
    return [
        Mistake(lambda: unfold(x, 4), ShapeError, "wider"),
        Mistake(lambda: unfold(x, 2, stride=0), ArgumentError, "stride"),
        Mistake(lambda: unfold(x, (2, 2)), ArgumentError, "integer or 1"),
    ]


@samples(Fold)
def fold_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((3,), (2,), (1,), ((0, 0),), (1,)), (Input((2, 2, 2)),)),
        Sample(
            cls((4, 5), (2, 3), (2, 1), ((1, 0), (2, 1)), (1, 2)),
            (Input((1, 12, 8)),),
        ),
    ]


@mistakes(Fold)
def fold_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor(np.ones((1, 2, 3)))
    return [Mistake(lambda: fold(x, (3,), 2), ShapeError, "columns")]
