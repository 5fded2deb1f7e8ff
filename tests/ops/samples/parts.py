"""Samples of the ops of ops.parts, and calls that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.sampling import Sample, binary_samples, samples, samples_of
from treadle.base.dtypes import HALF, complex64, float32, float64
from treadle.graph.op import Input
from treadle.ops.parts import Imag, NextAfter, Predicate, Real


@samples(Predicate)
def predicate_samples(cls: Any) -> list[Sample]:
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
    return [*samples_of(cls, after=Predicate), Sample(cls(), (special,))]


@samples(Real)
def real_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(), (Input((2, 3), complex64),)), Sample(cls(), (Input(),))]


@samples(Imag)
def imag_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(), (Input((2, 3), complex64),)), Sample(cls(), (Input(),))]


@samples(NextAfter)
def next_after_samples(cls: Any) -> list[Sample]:
    step = np.array([0.0, -0.0, 1.0, -1.0, np.inf, np.nan])
    edges = np.array([0.0, -0.0, np.inf, np.nan, 1.0, 1e-45], np.float32)
    return [
        *(
            Sample(s.op, s.inputs, ())
            for s in binary_samples(cls(), dtypes=(float32, float64))
        ),
        Sample(cls(), (edges, edges[::-1].copy()), ()),
        *(Sample(cls(), (step.astype(d), step[::-1].astype(d)), ()) for d in HALF),
    ]
