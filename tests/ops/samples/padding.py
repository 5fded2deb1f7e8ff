"""Samples of the ops of ops.padding, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Mistake, Sample, mistakes, samples
from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Input
from treadle.ops.padding import Pad, pad


@samples(Pad)
def pad_samples(cls: Any) -> list[Sample]:
    value = np.array(0.5, np.float32)
    return [
        Sample(cls(((1, 2), (0, 1))), (Input((2, 3)), value)),
        Sample(cls(((0, 0),)), (Input((3,)), value)),
        Sample(cls(((2, 0),)), (Input((0,)), value)),
        Sample(cls(()), (Input(()), value)),
    ]


@mistakes(Pad)
def pad_mistakes(cls: Any) -> list[Mistake]:
    x = as_tensor([1.0])
    return [
        Mistake(lambda: pad(x, ((1, -1),)), ArgumentError, "negative"),
        Mistake(lambda: pad(x, ((1, 1), (1, 1))), ShapeError, "2 widths for 1"),
        Mistake(lambda: pad(x, 1, mode="wavy"), ArgumentError, "wavy"),
        Mistake(lambda: pad(x, -1, mode="edge"), ArgumentError, "no border"),
        Mistake(lambda: pad(x, ((1, 2, 3),)), ArgumentError, "widths are"),
    ]
