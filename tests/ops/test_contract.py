"""One contract for every op in the registry: a new op brings its tests with it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import treadle as td
import treadle.distributed  # its collectives are ops, too
from tests.cases import by_letter, each
from tests.numerics import assert_close, differences
from tests.ops.samples import Sample, mistakes_of, samples_of
from tests.ops.sampling import drawn
from treadle.base.dtypes import float64, is_inexact
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, Leaf, constant_node
from treadle.graph.meaning import compute
from treadle.graph.op import Op, registry
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.families import (
    Composite,
    Elementwise,
    Movement,
    Output,
    Reduction,
    outputs_of,
)

# Leaves, results and state have no samples: tests/graph and tests/runtime cover them.
SPECIAL = {Output, *(registry[x] for x in ("Update", "Derivative", "TapeGradient"))}
OPS = {
    name: cls
    for name, cls in sorted(registry.whole().items())
    if not issubclass(cls, Leaf) and cls not in SPECIAL
}


def collected(cls: type[Op]) -> list[Sample]:
    """The samples; none where making them fails, which the first test reports."""
    try:
        return samples_of(cls)
    except Exception:
        return []


FEW = 8  # elements by each of which there is a difference; of more, along a direction
CASES = [
    pytest.param(sample, id=f"{name}-{k}")
    for name, cls in OPS.items()
    for k, sample in enumerate(collected(cls))
]


def arrays_of(sample: Sample, wide: bool = False) -> list[Any]:
    arrays = [np.array(drawn(x, k)) for k, x in enumerate(sample.inputs)]
    if wide:
        arrays = [a.astype(float64) if a.dtype.kind == "f" else a for a in arrays]
    return arrays


def results(y: Tensor) -> tuple[Tensor, ...]:
    return outputs_of(y) if isinstance(y.type, TupleType) else (y,)


@each("name", by_letter(OPS))
def test_an_op_is_complete(name: str) -> None:
    cls = OPS[name]
    samples = samples_of(cls)
    assert samples, "an op needs samples"
    assert mistakes_of(cls), "an op needs wrong applications that are refused"
    assert cls.traits.tolerance in ("E", "U", "R"), "an op needs a tolerance class"
    assert cls.numpy is not Op.numpy, "an op needs its NumPy meaning"
    assert cls.__doc__ and not cls.__doc__.startswith(f"{name}("), "needs a sentence"
    if cls.traits.differentiable:
        assert cls.vjp is not Op.vjp, "an op needs a gradient, or says it has none"
    if issubclass(cls, Elementwise) and not cls.traits.primitive:
        assert cls.scalar is not Elementwise.scalar, "not a primitive: needs `scalar`"


@each("name", by_letter(OPS))
def test_mistakes_are_refused_with_a_sentence(name: str) -> None:
    for mistake in mistakes_of(OPS[name]):
        with pytest.raises(mistake.error) as caught:
            mistake.call()
        assert mistake.says in str(caught.value)
        assert isinstance(caught.value, TreadleError)


@each("sample", CASES)
def test_inferred_type_is_the_type_of_the_value(sample: Sample) -> None:
    arrays = arrays_of(sample)
    y = sample.op(*[constant_node(a) for a in arrays])
    with np.errstate(all="ignore"):
        value = sample.op.numpy(*arrays)
    values = value if isinstance(y.type, TupleType) else (value,)
    types = y.type if isinstance(y.type, TupleType) else (y.type,)
    assert len(values) == len(types)
    for v, t in zip(values, types, strict=True):
        assert np.shape(v) == t.shape
        half = t.dtype.itemsize == 2 and is_inexact(t.dtype)
        assert half or np.asarray(v).dtype == t.dtype
    assert hash(sample.op) == hash(sample.op) and sample.op == sample.op


def _rule(sample: Sample, xs: list[Tensor]) -> Any:
    """The op by its family's own rule, or None where the family has none."""
    op = sample.op
    if isinstance(op, Composite):
        return op.expand(*xs)
    if isinstance(op, Elementwise) and type(op).scalar is not Elementwise.scalar:
        return op.scalar(*xs)
    return None


@each("sample", CASES)
def test_the_familys_rule_means_the_same(sample: Sample) -> None:
    arrays = arrays_of(sample)
    xs = [constant_node(a) for a in arrays]
    y = sample.op(*xs)
    want = compute(sample.op, y.type, arrays)
    tolerance = sample.op.traits.tolerance
    terms = max([a.size for a in arrays], default=1)
    if isinstance(sample.op, Movement):
        i = tuple(np.indices(y.type.shape))
        index = sample.op.index(i, xs[0].type)
        full = [np.broadcast_to(k, y.type.shape) for k in index]
        got = arrays[0][tuple(full)] if arrays[0].size and full else want
        assert_close(got.reshape(y.type.shape), want, "E")
    elif isinstance(sample.op, Reduction):
        assert_close(_folded(sample, arrays[0], y.type.dtype), want, tolerance, terms)
    else:
        rule = _rule(sample, xs)
        if rule is None:
            pytest.skip("a primitive: its NumPy meaning is its rule")
        wants = want if isinstance(want, tuple) else (want,)
        rules = rule if isinstance(rule, tuple) else (rule,)
        for r, w in zip(rules, wants, strict=True):
            assert_close(r.numpy(), w, tolerance, terms)


def _folded(sample: Sample, x: Any, dtype: Any) -> Any:
    op: Any = sample.op
    moved = np.moveaxis(x, op.axes, range(len(op.axes)))
    count = int(np.prod([x.shape[k] for k in op.axes], dtype=int))
    rows = moved.reshape((count, *moved.shape[len(op.axes) :]))
    identity = op.identity(x.dtype)
    start = (
        list(rows)
        if identity is None
        else [np.full(rows.shape[1:], identity, dtype=x.dtype), *rows]
    )
    folded = functools.reduce(lambda a, b: np.asarray(op.combine(a, b)), start)
    if op.keepdims:
        folded = np.expand_dims(folded, op.axes)
    return np.asarray(folded, dtype=dtype)


def differentiable(sample: Sample, arrays: list[Any]) -> list[int]:
    if not type(sample.op).traits.differentiable:
        return []
    inexact = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    if sample.differentiable is None:
        return inexact
    return [k for k in inexact if k in sample.differentiable]


def _objective(sample: Sample, arrays: list[Any]) -> tuple[list[Tensor], Tensor]:
    """Arguments in float64 and a scalar of the op's results with random weights."""
    xs = [Tensor(Argument(k), (), constant_node(a).type) for k, a in enumerate(arrays)]
    return xs, objective(sample, xs, "float64")


def objective(sample: Sample, xs: list[Tensor], dtype: str) -> Tensor:
    """A scalar of the results of an op on some tensors, with random weights."""
    rng = np.random.default_rng(5)
    total: Tensor = td.constant(0.0, dtype)
    for y in results(sample.op(*xs)):
        if not is_inexact(y.type.dtype):
            continue
        weights = rng.uniform(0.5, 1.5, y.type.shape) * rng.choice(
            [-1, 1], y.type.shape
        )
        whole = functions.astype(y, dtype)
        total = total + functions.sum(whole * weights.astype(dtype))
    return total


@each("sample", CASES)
def test_gradient_is_the_limit_of_differences(sample: Sample) -> None:
    arrays = arrays_of(sample, wide=True)
    wanted = differentiable(sample, arrays)
    if not wanted:
        pytest.skip("nothing to differentiate")
    xs, total = _objective(sample, arrays)
    value = Body("value", xs, [total])
    gradient = td.grad(total, [xs[k] for k in wanted], unused="zero")
    slopes = Body("slopes", xs, gradient)
    _compare(value, slopes, arrays, wanted)
    if not sample.second_order:
        return
    rng = np.random.default_rng(6)
    bent: Tensor = td.constant(0.0, "float64")
    for g in gradient:
        bent = bent + functions.sum(g * rng.uniform(0.5, 1.5, g.type.shape))
    second = td.grad(bent, [xs[k] for k in wanted], unused="zero")
    _compare(Body("bent", xs, [bent]), Body("second", xs, second), arrays, wanted)


def _compare(value: Body, slopes: Body, arrays: list[Any], wanted: list[int]) -> None:
    got = slopes.numpy(arrays)
    for g, k in zip(got, wanted, strict=True):
        assert g.shape == arrays[k].shape and g.dtype == arrays[k].dtype

        def along(x: Any, k: int = k) -> float:
            return float(value.numpy([*arrays[:k], x, *arrays[k + 1 :]])[0])

        if arrays[k].size <= FEW:
            want = differences(along, arrays[k])
            np.testing.assert_allclose(g, want, rtol=1e-6, atol=1e-7)
            continue
        rng = np.random.default_rng(k)
        direction = rng.standard_normal(arrays[k].shape)
        line = differences(lambda t: along(arrays[k] + t * direction), np.zeros(()))
        np.testing.assert_allclose(np.sum(g * direction), line, rtol=1e-6, atol=1e-7)


@each("sample", CASES)
def test_views_and_repeated_inputs_change_nothing(sample: Sample) -> None:
    arrays = arrays_of(sample)
    y = sample.op(*[constant_node(a) for a in arrays])
    want = compute(sample.op, y.type, arrays)
    views = [np.asarray(a.T.copy()).T for a in arrays]
    frozen = [v.copy() for v in views]
    got = compute(sample.op, y.type, views)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for g, w in pairs:
        assert_close(g, w, "E" if sample.op.traits.tolerance == "E" else "R", 64)
    for v, f in zip(views, frozen, strict=True):
        assert np.array_equal(v, f, equal_nan=v.dtype.kind in "fcV"), "an input changed"
