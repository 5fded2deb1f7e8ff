"""Every op of the registry on every engine: one joins by a row and its name below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.engines.gpus import GPUS
from tests.numerics import assert_close
from tests.ops.samples import Sample
from tests.ops.test_contract import (
    CASES,
    OPS,
    arrays_of,
    collected,
    differentiable,
    objective,
    results,
)
from treadle.base.options import current
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.graph.op import Input
from treadle.graph.tensor import Tensor
from treadle.ops.families import Elementwise, Opaque

ENGINES: dict[str, dict[str, Any]] = {
    "native-poison": {"engine": "native", "arena": "poison"},
    "native-guard": {"engine": "native", "arena": "guard"},
    "native-unfused": {"engine": "native", "optimize": False},
    "device": {"engine": "device"},
    "opencl": {"engine": "opencl"},
    "webgpu": {"engine": "webgpu"},
}
SAMPLES = {name: found for name, cls in OPS.items() if (found := collected(cls))}
WIDE = {
    name: found
    for name, samples in SAMPLES.items()
    if (found := [x for x in samples if x.differentiable != ()])
}


def check(sample: Sample, arrays: list[Any]) -> None:
    """The engine's results are the op's NumPy meaning, by its class."""
    check_all([sample], [arrays])


def check_all(samples: Sequence[Sample], operands: Sequence[list[Any]]) -> None:
    """The engine's results of samples, in one program, are their NumPy meanings."""
    roots: list[Tensor] = []
    wants: list[tuple[int, Any, str, int]] = []
    for k, (sample, arrays) in enumerate(zip(samples, operands, strict=True)):
        y = sample.op(*[constant_node(a) for a in arrays])
        want = compute(sample.op, y.type, arrays)
        roots += results(y)
        terms = max([a.size for a in arrays], default=1)
        each = want if isinstance(want, tuple) else (want,)
        wants += [(k, w, sample.op.traits.tolerance, terms) for w in each]
    for x, (k, w, tolerance, terms) in zip(td.evaluate(roots), wants, strict=True):
        if current().engine == "webgpu" and w.dtype.kind == "f":
            x = np.where(np.isfinite(w), x, w)  # WGSL may take them to be nowhere
        try:
            assert_close(x, w, tolerance, terms)
        except AssertionError as error:
            error.add_note(f"sample {k}: {samples[k].op!r}")
            raise


@pytest.mark.parametrize("engine", ["native-poison", "native-guard", "device", *GPUS])
@pytest.mark.parametrize("name", SAMPLES)
def test_an_op_means_the_same(name: str, engine: str) -> None:
    with td.options(**ENGINES[engine]):
        check_all(SAMPLES[name], [arrays_of(x) for x in SAMPLES[name]])


SLOPES = {
    name: found
    for name, samples in SAMPLES.items()
    if (found := [x for x in samples if differentiable(x, arrays_of(x))])
}


def slopes(name: str) -> list[Tensor]:
    """The gradients of all samples of an op, in the dtypes of its operands."""
    every: list[Tensor] = []
    for sample in SLOPES[name]:
        arrays = arrays_of(sample)
        xs = [constant_node(a) for a in arrays]
        total = objective(sample, xs, "float32")
        wanted = [xs[k] for k in differentiable(sample, arrays)]
        every += td.grad(total, wanted, unused="zero")
    return every


@pytest.mark.parametrize("engine", GPUS)
@pytest.mark.parametrize("name", SLOPES)
def test_a_gradient_means_the_same(name: str, engine: str) -> None:
    with td.options(engine="reference"):
        wants = td.evaluate(slopes(name))
    with td.options(**ENGINES[engine]):
        found = td.evaluate(slopes(name))
    terms = max(a.size for x in SLOPES[name] for a in arrays_of(x))
    for x, want in zip(found, wants, strict=True):
        # An element may be what is left of a sum of terms as large as the largest.
        scale = np.abs(want).max(initial=1)
        # WGSL rounds fused products twice, float64 of an LSTM's loop included.
        more = 32 if engine == "webgpu" else 8
        assert_close(x / scale, want / scale, "R", more * terms)


@pytest.mark.parametrize("name", WIDE)
def test_an_op_means_the_same_in_float64(name: str) -> None:
    with td.options(**ENGINES["native-unfused"]):
        check_all(WIDE[name], [arrays_of(x, wide=True) for x in WIDE[name]])


COMPARING = ("ArgMax", "FloorDivide", "IsNan", "Less", "Maximum", "SearchSorted")


@pytest.mark.parametrize("engine", GPUS)
@pytest.mark.parametrize("name", COMPARING)
def test_float64_is_compared_on_devices(name: str, engine: str) -> None:
    with td.options(**ENGINES[engine]):
        check_all(WIDE[name], [arrays_of(x, wide=True) for x in WIDE[name]])


@each("sample", CASES)
def test_operands_may_be_views(sample: Sample) -> None:
    """Each sample is a program of its own here, in memory that is as it was."""
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
