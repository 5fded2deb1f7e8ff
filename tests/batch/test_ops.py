"""Every op, done as rows with all derivatives, is what it is by itself."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import derived_rows
from tests.cases import each
from tests.ops.samples import Sample
from tests.ops.test_contract import OPS, collected
from tests.ops.test_rows import NONE
from treadle.runtime.rows import counts

TOLERANCE = 1e-9  # of the largest value
TIMES = 16  # with less to do some do not pay as rows
FEW = 6  # of what is compiled one by one: more than the four that rows begin at
# Of each op the first sample and the last one, all inputs of which are rows.
CASES = [
    pytest.param(sample, id=f"{name}-{k}")
    for name, cls in OPS.items()
    if name not in NONE
    for k, sample in enumerate(collected(cls))
    if k in (0, len(collected(cls)) - 1)
]
# Ops that are no kernels: their rows are done by NumPy, one graph as any other.
WITHOUT_KERNELS = {
    "CTC", "Care", "Cholesky", "Cofactors", "Complement", "Dare", "Dawsn",
    "Determinant", "DiscreteLyapunov", "Eigh", "Inverse", "LGamma", "Lyapunov",
    "MatrixExp", "NextAfter", "Polygamma", "PseudoInverse", "QR", "SVD", "SlogDet",
    "Solve", "Sylvester", "TriangularSolve",
}  # fmt: skip


@each("sample", CASES)
def test_rows_of_an_op_are_what_each_is(sample: Sample) -> None:
    every = [True] * len(sample.inputs)
    times = FEW if sample.op.name in WITHOUT_KERNELS else TIMES
    with td.options(dtype="float64"):
        try:
            with td.options(engine="reference", autobatch=False):
                want = derived_rows(sample, every, n=times)
        except td.TreadleError as error:
            pytest.skip(f"it has no derivative: {error}")
        if not want:
            pytest.skip("nothing of it is in double precision")
        before = counts.runs
        with td.options(arena="poison"):
            got = derived_rows(sample, every, n=times)
    if all(y.size for y in want):  # nothing is done for what is empty
        assert (counts.runs > before) == (sample.op.name not in WITHOUT_KERNELS)
    finite = [np.abs(y[np.isfinite(y)]).max(initial=1.0) for y in want]
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE * max(finite))


@pytest.mark.parametrize("n", [6, 8])
def test_a_gradient_with_a_loop_from_outside_is_no_rows(n: int) -> None:
    """Where the loop of the values is written out, and the one back is not."""
    sample = collected(OPS["CTC"])[3]
    every = [True] * len(sample.inputs)
    with td.options(dtype="float64"):
        with td.options(engine="reference", autobatch=False):
            want = derived_rows(sample, every, n=n)
        before = counts.runs
        got = derived_rows(sample, every, n=n)
    assert counts.runs == before
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE)
