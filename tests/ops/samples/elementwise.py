"""Samples of the ops of ops.elementwise, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Sample, binary_samples, samples
from treadle.base.dtypes import int32
from treadle.graph.op import Input
from treadle.ops.elementwise import Conj, Modulo

_TOP, _BOTTOM = Input(low=1.1, high=1.9), Input(low=2.2, high=3.8)


@samples(Conj)
def conj_samples(cls: Any) -> list[Sample]:
    return [Sample(cls(), (Input((2, 3)),))]


@samples(Modulo)
def modulo_samples(cls: Any) -> list[Sample]:
    samples = binary_samples(cls(), _TOP, _BOTTOM)
    whole = binary_samples(cls(), Input(low=-9, high=9), Input(low=1, high=4), (int32,))
    return samples + whole
