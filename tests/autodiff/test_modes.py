"""Forward mode meets reverse mode for every op: <J v, w> = <v, J^T w>."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of, differentiable
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.ops.families import outputs_of


@each("sample", CASES)
def test_the_two_modes_meet(sample: Sample) -> None:
    with td.options(engine="reference"):
        _meet(sample)


@each("sample", [case for case in CASES if str(case.id).endswith("-0")])
def test_the_two_modes_meet_in_machine_code(sample: Sample) -> None:
    _meet(sample)


def _meet(sample: Sample) -> None:
    arrays = arrays_of(sample, wide=True)
    wanted = differentiable(sample, arrays)
    if not wanted:
        pytest.skip("nothing to differentiate")
    nodes = [constant_node(a) for a in arrays]
    y = sample.op(*nodes)
    results = outputs_of(y) if isinstance(y.type, TupleType) else (y,)
    ys = [r for r in results if is_inexact(r.type.dtype) and r.type.dtype.kind == "f"]
    xs = [nodes[k] for k in wanted]
    rng = np.random.default_rng(3)
    tangents = [td.asarray(rng.standard_normal(x.shape)) for x in xs]
    weights = [td.asarray(rng.standard_normal(r.shape)) for r in ys]
    along = td.jvp(ys, xs, tangents, unused="zero")
    back = td.vjp(ys, xs, weights, unused="zero")
    pairs = [*zip(along, weights, strict=True), *zip(back, tangents, strict=True)]
    products = td.evaluate([functions.sum(a * b) for a, b in pairs])
    left, right = sum(products[: len(ys)]), sum(products[len(ys) :])
    assert abs(left - right) <= 1e-11 * max(1.0, abs(left), abs(right))


def _has_several(sample: Sample) -> bool:
    nodes = map(constant_node, arrays_of(sample))
    return isinstance(sample.op(*nodes).type, TupleType)


SEVERAL = [case for case in CASES if _has_several(case.values[0])]


@each("sample", SEVERAL)
def test_jacobians_go_through_ops_of_several_results(sample: Sample) -> None:
    arrays = arrays_of(sample, wide=True)
    wanted = differentiable(sample, arrays)
    if not wanted or max(a.size for a in arrays) > 16:
        pytest.skip("nothing to differentiate, or much of it")
    rng = np.random.default_rng(3)
    nodes = [constant_node(a) for a in arrays]
    x = nodes[wanted[0]]
    t = td.asarray(rng.standard_normal(x.shape))
    for y in outputs_of(sample.op(*nodes)):
        if y.type.dtype.kind != "f":
            continue
        (jacobian,) = td.jacobian(y, [x])
        along = np.tensordot(jacobian.numpy(), t.numpy(), x.type.ndim)
        straight = td.jvp(y, [x], [t], unused="zero").numpy()
        np.testing.assert_allclose(along, straight, rtol=1e-9, atol=1e-9)
        if sample.second_order:
            squares = (y * y).sum()
            product = np.tensordot(
                td.hessian(squares, x).numpy(), t.numpy(), x.type.ndim
            )
            wanted_product = td.hvp(squares, x, t).numpy()
            np.testing.assert_allclose(product, wanted_product, rtol=1e-7, atol=1e-7)
