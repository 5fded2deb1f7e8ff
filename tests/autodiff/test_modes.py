"""Forward mode meets reverse mode for every op: <J v, w> = <v, J^T w>."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.ops.test_contract import CASES, _differentiable, arrays_of
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType
from treadle.graph.leaves import constant_node
from treadle.graph.op import Sample
from treadle.graph.operators import functions
from treadle.ops.families import outputs_of


@pytest.mark.parametrize("sample", CASES)
def test_the_two_modes_meet(sample: Sample) -> None:
    arrays = arrays_of(sample, wide=True)
    wanted = _differentiable(sample, arrays)
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
    left = sum(float(functions.sum(a * w)) for a, w in zip(along, weights, strict=True))
    right = sum(
        float(functions.sum(b * t)) for b, t in zip(back, tangents, strict=True)
    )
    assert abs(left - right) <= 1e-11 * max(1.0, abs(left), abs(right))
