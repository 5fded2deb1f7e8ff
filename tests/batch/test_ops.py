"""Every op, done several times in one graph with all derivatives, is what it is by
itself."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import derived_rows
from tests.ops.test_contract import OPS, samples_of
from tests.ops.test_rows import NONE
from treadle.graph.op import Sample

TOLERANCE = 1e-9  # of the largest value
TIMES = 8  # no more run as rows of 64
# Of each op the first sample and the last one, all inputs of which are rows.
CASES = [
    pytest.param(sample, id=f"{name}-{k}")
    for name, cls in OPS.items()
    if name not in NONE
    for k, sample in enumerate(samples_of(cls))
    if k in (0, len(samples_of(cls)) - 1)
]


@pytest.mark.parametrize("sample", CASES)
def test_many_of_an_op_are_what_one_is(sample: Sample) -> None:
    every = [True] * len(sample.inputs)
    with td.options(dtype="float64"):
        try:
            with td.options(engine="reference", autobatch=False):
                want = derived_rows(sample, every, n=TIMES)
        except td.TreadleError as error:
            pytest.skip(f"it has no derivative: {error}")
        if not want:
            pytest.skip("nothing of it is in double precision")
        with td.options(arena="poison"):
            got = derived_rows(sample, every, n=TIMES)
    finite = [np.abs(y[np.isfinite(y)]).max(initial=1.0) for y in want]
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE * max(finite))
