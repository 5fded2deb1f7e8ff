"""The gradient of a composite is derived once, and is the same when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.ops.samples import Sample, samples_of
from treadle.autodiff import reverse
from treadle.autodiff.reverse import tidied
from treadle.base.types import TupleType
from treadle.graph.leaves import as_tensor, literal_node
from treadle.graph.op import Op, registry
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.families import Composite, Output
from treadle.rewrite.simplify import tidy


def composites() -> list[Sample]:
    kinds = [k for k in registry.whole().values() if k.vjp is Composite.vjp]
    return [s for kind in kinds for s in samples_of(kind)]


def drawn(sample: Sample, seed: int) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [
        as_tensor(
            rng.uniform(x.low, x.high, x.shape).astype(x.dtype)
            if hasattr(x, "low")
            else x
        )
        for x in sample.inputs
    ]


def derived(op: Op, xs: list[Tensor], skip: int | None = None) -> list[Tensor]:
    """What an op's gradient comes to, for cotangents of its own results."""
    y = op(*xs)
    if isinstance(y.type, TupleType):
        parts = [Output(k)(y) for k in range(len(y.type))]
        g: Any = tuple(None if k == skip else p * p for k, p in enumerate(parts))
    else:
        g = y * y
    return [c for c in op.vjp(g, y, *xs) if c is not None]


def shape_of(outputs: list[Tensor], leaves: list[Tensor]) -> list[Any]:
    """A graph above its leaves: ops, types, operands and outputs by number."""
    known = {x.serial for x in leaves}
    nodes = reach(outputs, lambda n: n.serial in known)
    number = {n.serial: k for k, n in enumerate(nodes)}
    below = [
        () if n.serial in known else tuple(number[x.serial] for x in n.inputs)
        for n in nodes
    ]
    ops = [n.op if n.op.family != "control" else type(n.op) for n in nodes]
    types = [n.type for n in nodes]
    return [ops, types, below, [number[y.serial] for y in outputs]]


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    known: dict[Any, Any] = {}
    monkeypatch.setattr(reverse, "_pulled", known)
    return known


@pytest.mark.parametrize("sample", composites(), ids=lambda s: repr(s.op)[:40])
def test_what_is_kept_gives_the_graph_that_is_derived(
    sample: Sample, afresh: dict[Any, Any]
) -> None:
    shapes = []
    for seed in range(4):
        xs = drawn(sample, seed)
        shapes.append(shape_of(derived(sample.op, xs), xs))
    assert shapes[1:] == shapes[:1] * 3


def count(afresh: dict[Any, Any]) -> int:
    return sum(isinstance(x, reverse._Pulled) for x in afresh.values())


def test_a_cell_is_derived_once_for_all_steps(
    afresh: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expanded = []
    original = registry["LstmCell"].expand  # type: ignore[attr-defined]

    def noting(self: Any, *xs: Tensor) -> Any:
        expanded.append(self)
        return original(self, *xs)

    monkeypatch.setattr(registry["LstmCell"], "expand", noting)
    cell = td.nn.LSTMCell(3, 3)
    h = c = td.zeros((2, 3))
    for _ in range(30):
        h, c = cell(td.ones((2, 3)), (h, c))
    gradients = td.grad((h * h).sum(), list(cell.parameters()))
    assert all(np.isfinite(g.numpy()).all() for g in gradients)
    assert count(afresh) <= 2 and len(expanded) < 8


def test_operands_that_are_the_same_are_told_from_others(
    afresh: dict[Any, Any],
) -> None:
    rng = np.random.default_rng(0)
    op = registry["GruCell"]()
    a, b = (as_tensor(rng.standard_normal((2, 9), np.float32)) for _ in range(2))
    h = as_tensor(rng.standard_normal((2, 3), np.float32))
    apart, same = [], []
    for _ in range(3):
        apart.append(shape_of(derived(op, [a, b, h]), [a, b, h]))
        same.append(shape_of(derived(op, [a, a, h]), [a, a, h]))
    assert apart[1:] == apart[:1] * 2 and same[1:] == same[:1] * 2
    assert len(apart[0][-1]) == 3 and len(same[0][-1]) == 2 and count(afresh) == 2


def test_a_result_without_a_cotangent_is_told_from_one_with(
    afresh: dict[Any, Any],
) -> None:
    op = registry["LstmCell"]()
    xs = drawn(samples_of(type(op))[0], 0)
    for skip in (None, 0, 1):
        shapes = [shape_of(derived(op, xs, skip), xs) for _ in range(3)]
        assert shapes[1:] == shapes[:1] * 2
    assert count(afresh) == 3


def test_numbers_among_the_operands_are_part_of_what_is_kept(
    afresh: dict[Any, Any],
) -> None:
    x = td.constant(np.float32([-1.0, 2.0]))
    op = registry["Normalize"]((0,))
    for eps in (0.5, 0.5, 0.5, 0.25, 0.25, 0.25):
        (g, *_) = derived(op, [x, literal_node(eps, x.type.dtype)])
        want = td.grad((op(x, as_tensor(np.float32(eps))) ** 3 / 3).sum(), [x])[0]
        np.testing.assert_allclose(g.numpy(), want.numpy(), rtol=1e-5)
    assert count(afresh) >= 2


def test_what_is_kept_is_tidied_once_where_that_is_asked_for(
    afresh: dict[Any, Any],
) -> None:
    op = registry["LstmCell"]()
    xs = drawn(samples_of(type(op))[0], 0)
    seen: list[int] = []

    def counted(roots: Sequence[Tensor]) -> list[Tensor]:
        seen.append(len(roots))
        return tidy(roots)

    plain = [derived(op, xs) for _ in range(3)]
    with tidied(counted):
        found = [derived(op, xs) for _ in range(4)]
    assert seen == [2]
    names = [{type(x.op).__name__ for x in reach(ys)} for ys in found]
    assert "Unslice" in names[0] and "Concat" not in names[0]  # as it is derived
    for own in names[1:]:
        assert "Unslice" not in own and "Concat" in own
    assert [shape_of(ys, xs) for ys in plain] == [shape_of(derived(op, xs), xs)] * 3
    for ys in found[1:]:
        for y, want in zip(ys, plain[0], strict=True):
            assert (y.numpy() == want.numpy()).all()
