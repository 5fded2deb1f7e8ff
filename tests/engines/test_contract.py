"""Every op of the registry on every engine: one joins by a row and its name below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.engines.gpus import GPUS
from tests.numerics import assert_close
from tests.ops.test_contract import CASES, arrays_of, results
from treadle.base.options import current
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.graph.op import Input, Sample
from treadle.ops.families import Elementwise, Opaque

ENGINES: dict[str, dict[str, Any]] = {
    "native": {"engine": "native"},
    "native-poison": {"engine": "native", "arena": "poison"},
    "native-guard": {"engine": "native", "arena": "guard"},
    "native-unfused": {"engine": "native", "optimize": False},
    "device": {"engine": "device"},
    "opencl": {"engine": "opencl"},
    "webgpu": {"engine": "webgpu"},
}


def check(sample: Sample, arrays: list[Any]) -> None:
    """The engine's results are the op's NumPy meaning, by its class."""
    y = sample.op(*[constant_node(a) for a in arrays])
    want = compute(sample.op, y.type, arrays)
    wants = want if isinstance(want, tuple) else (want,)
    terms = max([a.size for a in arrays], default=1)
    for r, w in zip(results(y), wants, strict=True):
        x = r.numpy()
        if current().engine == "webgpu" and w.dtype.kind == "f":
            x = np.where(np.isfinite(w), x, w)  # WGSL may take them to be nowhere
        assert_close(x, w, sample.op.traits.tolerance, terms)


@pytest.mark.parametrize("engine", ["native", "native-poison", "native-guard", *GPUS])
@each("sample", CASES)
def test_an_op_means_the_same(sample: Sample, engine: str) -> None:
    with td.options(**ENGINES[engine]):
        check(sample, arrays_of(sample))


@each("sample", [x for x in CASES if str(x.id).endswith("-0")])
def test_an_op_without_kernels_means_the_same(sample: Sample) -> None:
    with td.options(**ENGINES["device"]):  # by its NumPy rule: one sample tells
        check(sample, arrays_of(sample))


@each("sample", [x for x in CASES if x.values[0].differentiable != ()])
def test_an_op_means_the_same_in_float64(sample: Sample) -> None:
    with td.options(**ENGINES["native-unfused"]):
        check(sample, arrays_of(sample, wide=True))


@each("sample", CASES)
def test_operands_may_be_views(sample: Sample) -> None:
    arrays = [np.asarray(a.T.copy()).T for a in arrays_of(sample)]
    with td.options(engine="native"):
        check(sample, arrays)


# Where a zero of padding or of a mask meets an infinity, it may make a NaN.
ZEROS = ("Attention", "ConstrainedSoftmax", "ConvInputGradient", "ConvWeightGradient")
REFUSING = ("Outcome",)  # what is no number
# Scalars have a test of their own, and what a library computes is the same everywhere.
FOLDED = [
    case
    for case in CASES
    if case.values[0].op.name not in ZEROS + REFUSING
    and str(case.id).endswith(("-0", "-1"))
    if not isinstance(case.values[0].op, (Elementwise, Opaque))
]


@each("sample", FOLDED)
def test_one_element_may_be_no_number(sample: Sample) -> None:
    arrays = arrays_of(sample)
    pairs = enumerate(zip(arrays, sample.inputs, strict=True))
    drawn = [k for k, (a, x) in pairs if isinstance(x, Input) and a.dtype.kind == "f"]
    if not drawn or not arrays[drawn[0]].size:
        pytest.skip("no element of a float operand is drawn")
    for value in (np.nan, np.inf, -np.inf):
        own = [a.copy() for a in arrays]
        own[drawn[0]].flat[own[drawn[0]].size // 2] = value
        check(sample, own)
