"""Samples of the ops of ops.order, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.dtypes import float32, int32
from treadle.base.errors import ArgumentError, AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.order import Ordering, SearchSorted, TopK, searchsorted, top_k


@samples(Ordering)
def ordering_samples(cls: Any) -> list[Sample]:
    tied = np.array([[2.0, np.nan, 1.0, 2.0]], np.float32)
    return [
        Sample(cls(0, False), (Input((5, 3), float32, apart=0.01),)),
        Sample(cls(1, True), (Input((2, 7), float32, apart=0.01),)),
        Sample(cls(1, True), (Input((3, 6), int32, -2, 2),)),
        Sample(cls(1, True), (tied,), ()),
        Sample(cls(0, False), (Input((0, 3)),)),
    ]


@mistakes(Ordering)
def ordering_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: cls(1, False)(x), AxisError, "out of range")]


@samples(TopK)
def top_k_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls(2, 1), (Input((3, 5), apart=0.01),)),
        Sample(cls(1, 0), (Input((4,), apart=0.01),)),
        Sample(cls(0, 0), (Input((4,), apart=0.01),)),
        Sample(cls(2, 0, False), (Input((4, 2), apart=0.01),)),
    ]


@mistakes(TopK)
def top_k_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [Mistake(lambda: top_k(x, 2), ArgumentError, "k is 2")]


@samples(SearchSorted)
def search_sorted_samples(cls: Any) -> list[Sample]:
    row = np.array([-1.0, 0.0, 0.0, 1.5, np.nan], np.float32)
    values = np.array([[0.0, -2.0, 9.0], [1.5, np.nan, np.inf]], np.float32)
    return [
        Sample(cls(), (row, values)),
        Sample(cls(True), (row, values)),
        Sample(cls(), (np.arange(5, dtype=np.int32), Input((3,), int32, -1, 6))),
        Sample(cls(), (row[:0], Input(()))),
    ]


@mistakes(SearchSorted)
def search_sorted_mistakes(cls: Any) -> list[Mistake]:
    x, grid = as_tensor([1.0]), as_tensor([[1.0]])
    return [
        Mistake(lambda: searchsorted(grid, x), ShapeError, "is a vector"),
        Mistake(lambda: searchsorted(x, x, side="up"), ArgumentError, "'up'"),
    ]
