"""Samples of the ops of ops.special, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Sample, samples, unary_samples
from treadle.ops.special import Dawsn, SpecialFunction


@samples(SpecialFunction)
def gamma_family_samples(cls: Any) -> list[Sample]:
    return unary_samples(cls(), 0.6, 6.0)


@samples(Dawsn)
def dawsn_samples(cls: Any) -> list[Sample]:
    return unary_samples(cls(), -3, 3)
