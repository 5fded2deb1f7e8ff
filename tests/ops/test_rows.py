"""Every op done for rows: the values and the gradients of each row by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.numerics import assert_close
from tests.ops.samples import Sample, samples_of
from tests.ops.sampling import drawn
from tests.ops.test_contract import OPS, collected
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, Leaf, constant_node
from treadle.graph.meaning import compute
from treadle.graph.op import Input, Op, registry
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.families import outputs_of

# Ops without a rule, and why.
NONE = {
    "AllGather": "ranks may have other numbers of rows",
    "AllReduce": "ranks may have other numbers of rows",
    "AllToAll": "ranks may have other numbers of rows",
    "Exchange": "ranks may have other numbers of rows",
    "FromRoot": "ranks may have other numbers of rows",
    "ReduceScatter": "ranks may have other numbers of rows",
    "ToRoot": "ranks may have other numbers of rows",
    "After": "its effects are done once",
    "Callback": "what it tells is of one value",
    "Host": "a function of the host takes one value",
    "HostEffect": "a function of the host takes one value",
    "Debug": "what it tells is of one value",
    "DebugGradient": "what it tells is of one value",
    "Print": "what it tells is of one value",
}


def choices(sample: Sample) -> list[tuple[bool, ...]]:
    """All inputs with rows, and each one alone."""
    k = len(sample.inputs)
    alone = [tuple(i == j for i in range(k)) for j in range(k)] if k > 1 else []
    return [(True,) * k, *alone]


def varied(sample: Sample, k: int, r: int) -> Any:
    """Input k of a sample for row r: other numbers of the same kind."""
    x = sample.inputs[k]
    if isinstance(x, Input):
        return np.array(drawn(x, k + 100 * r))
    x = np.asarray(x)
    if x.dtype == np.uint64:
        return x + np.array([0, r], np.uint64)
    if x.dtype.kind in "fc":
        return x * x.dtype.type(1 + r / 8)
    if x.dtype.kind == "b":
        return x ^ bool(r % 2)
    found = np.roll(x.reshape(-1), r).reshape(x.shape)
    rising = type(sample.op).__name__ in RISING
    return np.sort(found) if rising else found


def rows_of(sample: Sample, given: Any, n: int) -> tuple[list[Any], list[list[Any]]]:
    """The operands, those in `given` stacked, and those of each row."""
    each = [
        [varied(sample, k, r if g else 0) for k, g in enumerate(given)]
        for r in range(n)
    ]
    stacked = [
        np.stack([row[k] for row in each]) if g else each[0][k]
        for k, g in enumerate(given)
    ]
    return stacked, each


# Ops that take positions which do not fall.
RISING = ("SearchSorted", "CSRMatMul", "CSRDots", "SegmentSum")
CASES = [
    pytest.param(sample, given, id=f"{name}-{k}-{''.join('01'[g] for g in given)}")
    for name, cls in OPS.items()
    if name not in NONE
    for k, sample in enumerate(collected(cls))
    for given in choices(sample)
]


def results(y: Tensor) -> tuple[Tensor, ...]:
    return outputs_of(y) if isinstance(y.type, TupleType) else (y,)


def batch(sample: Sample, given: Any, arrays: list[Any]) -> tuple[list[Tensor], Tensor]:
    """Arguments for stacked operands, and the op done for the rows of them."""
    types = [constant_node(np.array(a)).type for a in arrays]
    xs = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
    y = sample.op.rows(given, *xs)
    assert y is not None, f"{sample.op.name} has no rule for rows {given}"
    return xs, y


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", sorted({case.values[0].op.name for case in CASES}))
def test_rows_are_the_op_on_each_row(name: str, n: int) -> None:
    cases = [case.values for case in CASES if case.values[0].op.name == name]
    natives: list[Tensor] = []  # one program for all cases
    wanted: list[Any] = []
    for sample, given in cases:
        stacked, each = rows_of(sample, given, n)
        xs, y = batch(sample, given, stacked)
        types = [Type(np.shape(a), a.dtype) for a in each[0]]
        one = sample.op.infer(*types)
        wants = [compute(sample.op, one, row) for row in each]
        if not isinstance(one, TupleType):
            wants = [(w,) for w in wants]
        want = [np.stack(parts) for parts in zip(*wants, strict=True)]
        terms = max([np.size(a) for a in each[0]], default=1)
        with np.errstate(all="ignore"):
            found = Body("rows", xs, results(y)).numpy(stacked)
        _compare(sample, given, found, want, terms)
        if n > 1 or all(given):  # one row of some inputs compiles what many rows do
            leaves = [constant_node(np.array(a)) for a in stacked]
            natives += results(sample.op.rows(given, *leaves))
            wanted.append((sample, given, want, terms))
    with np.errstate(all="ignore"):
        values = iter(td.evaluate(natives))
    for sample, given, want, terms in wanted:
        _compare(sample, given, [next(values) for _ in want], want, terms)


def _compare(sample: Sample, given: Any, found: Any, want: Any, terms: int) -> None:
    """The results of an op for rows are those wanted."""
    for y, w in zip(found, want, strict=True):
        try:
            assert_close(np.asarray(y), w, sample.op.traits.tolerance, terms)
        except AssertionError as error:
            error.add_note(f"{sample.op!r}, rows {given}")
            raise


def differentiable(sample: Sample, arrays: list[Any]) -> list[int]:
    if not type(sample.op).traits.differentiable:
        return []
    inexact = [k for k, a in enumerate(arrays) if is_inexact(a.dtype)]
    if sample.differentiable is None:
        return inexact
    return [k for k in inexact if k in sample.differentiable]


def slopes(
    ys: tuple[Tensor, ...], xs: list[Tensor], wanted: list[int], weights: list[Any]
) -> list[Tensor]:
    """Gradients of the sum of the inexact results with these weights."""
    total: Tensor = td.constant(0.0, "float64")
    for y, w in zip(ys, weights, strict=True):
        if is_inexact(y.type.dtype):
            total = total + functions.sum(functions.astype(y, "float64") * w)
    found: list[Tensor] = td.grad(total, [xs[k] for k in wanted], unused="zero")
    return found


@each("sample, given", CASES)
def test_gradients_are_those_of_each_row(sample: Sample, given: Any) -> None:
    n = 3
    stacked, each = rows_of(sample, given, n)
    wanted = differentiable(sample, each[0])
    if not wanted or any(a.dtype.itemsize < 4 for a in each[0]):
        pytest.skip("nothing to differentiate")
    xs, y = batch(sample, given, stacked)
    rng = np.random.default_rng(9)
    weights = [rng.uniform(0.5, 1.5, z.type.shape) for z in results(y)]
    got = Body("slopes", xs, slopes(results(y), xs, wanted, weights)).numpy(stacked)
    types = [constant_node(np.array(a)).type for a in each[0]]
    sums: list[list[Any]] = []
    for r, row in enumerate(each):
        own = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
        parts = slopes(results(sample.op(*own)), own, wanted, [w[r] for w in weights])
        sums.append(list(Body("slopes", own, parts).numpy(row)))
    for place, k in enumerate(wanted):
        parts_of = [row[place] for row in sums]
        want = np.stack(parts_of) if given[k] else np.sum(parts_of, 0)
        want = want.astype(got[place].dtype)
        assert_close(got[place], want, "R", 64 * n)


def test_ops_without_a_rule_are_few() -> None:
    silent = {name for name, cls in registry.whole().items() if cls.rows is Op.rows}
    leaves = {name for name, cls in registry.whole().items() if issubclass(cls, Leaf)}
    # A version is one for all rows; derivatives are written out before, or run apart.
    told = {"After", "Callback", "Host", "HostEffect"}
    assert silent == leaves | told | {"Update", "Derivative", "TapeGradient"}
    for name in NONE:
        sample = samples_of(OPS[name])[0]
        given = (True,) * len(sample.inputs)
        xs = [constant_node(np.array(a)) for a in rows_of(sample, given, 2)[0]]
        assert sample.op.rows(given, *xs) is None
