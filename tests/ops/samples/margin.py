"""Samples of the ops of ops.margin, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Sample, binary_samples, samples
from treadle.graph.op import Input
from treadle.ops.margin import BinaryCrossEntropy, LogisticLoss


@samples(BinaryCrossEntropy)
def binary_cross_entropy_samples(cls: Any) -> list[Sample]:
    inside = Input(low=0.1, high=0.9)
    certain = np.array([0, 1, 0, 1], np.float32)
    return [
        *binary_samples(cls(), inside, inside),
        Sample(cls(), (certain, np.array([0, 0, 1, 1], np.float32)), ()),
    ]


@samples(LogisticLoss)
def logistic_loss_samples(cls: Any) -> list[Sample]:
    far = np.array([-1e4, -30, 30, 1e4], np.float32)
    return [
        *binary_samples(cls(), Input(low=-4, high=4), Input(low=0.1, high=0.9)),
        *[Sample(cls(), (far, np.full(4, t, np.float32)), ()) for t in (0, 1)],
    ]
