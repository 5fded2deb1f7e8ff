"""Samples of the ops of ops.slice, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.slice import SetSlice, Slice, Unslice


@samples(Slice)
def slice_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((0, 1), (2, 3), (1, 1)), (Input((2, 3)),)),
        Sample(cls((6, 0), (-1, 5), (-2, 3)), (Input((7, 5)),)),
        Sample(cls((2,), (2,), (1,)), (Input((4,)),)),
        Sample(cls((), (), ()), (Input(()),)),
        Sample(cls((0, 0), (0, 3), (1, 2)), (Input((0, 3)),)),
    ]


@mistakes(Slice)
def slice_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0, 2.0])
    return [
        Mistake(lambda: cls((0,), (3,), (1,))(x), ShapeError, "leaves"),
        Mistake(lambda: cls((), (), ())(x), ShapeError, "0 slices"),
    ]


@samples(Unslice)
def unslice_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((3, 4), (0, 1), (2, 4), (1, 1)), (Input((2, 3)),)),
        Sample(cls((7, 5), (6, 0), (-1, 5), (-2, 3)), (Input((4, 2)),)),
        Sample(cls((3,), (1,), (1,), (1,)), (Input((0,)),)),
        Sample(cls((), (), (), ()), (Input(()),)),
    ]


@mistakes(Unslice)
def unslice_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0, 2.0])
    put = cls((3,), (0,), (3,), (1,))
    return [Mistake(lambda: put(x), ShapeError, "does not fill")]


@samples(SetSlice)
def set_slice_samples(cls: Any) -> list[Sample]:
    return [
        Sample(cls((0, 1), (2, 3), (1, 1)), (Input((2, 3)), Input((2, 2)))),
        Sample(cls((6, 0), (-1, 5), (-2, 3)), (Input((7, 5)), Input((4, 2)))),
        Sample(cls((2,), (2,), (1,)), (Input((4,)), Input((0,)))),
        Sample(cls((), (), ()), (Input(()), Input(()))),
    ]


@mistakes(SetSlice)
def set_slice_mistakes(cls: Any) -> list[Mistake]:
    x, e = as_tensor([1.0, 2.0]), as_tensor([1.0])
    put = cls((0,), (2,), (1,))
    return [Mistake(lambda: put(x, e), ShapeError, "does not fill")]
