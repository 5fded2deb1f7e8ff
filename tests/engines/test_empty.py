"""Values without elements: no kernel computes them, nor what lies beside a fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close
from tests.programs import built
from treadle.engines.native.translation.translate import claimed
from treadle.graph.traversal import pending
from treadle.program.program import Fallback
from treadle.rewrite.expand import expand

SHAPES = ((0, 64), (5, 0), (0, 0), (3, 0, 2))
FOLDS: dict[str, Callable[..., Any]] = {
    "sum": td.sum,
    "mean": td.mean,
    "prod": td.prod,
    "all": td.all,
    "std": td.std,
    "norm": td.norm,
    "logsumexp": td.logsumexp,
}
BESIDE: dict[str, Callable[[Any, Any], Any]] = {
    "subtract": lambda x, s: x - s,
    "softmax": lambda x, s: td.exp(x) / td.exp(x).sum(0) + s,
    "shifted": lambda x, s: x - td.logsumexp(x, axis=0, keepdims=True) * s,
    "moved": lambda x, s: td.permute_dims(x, range(x.ndim)[::-1]) * 2.0,
    "joined": lambda x, s: td.concat([x, x * s], 0) * 2.0,
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "evaluate": lambda f: f,
    "function": td.function,
    "rows": lambda f: lambda x: td.vmap(f)(td.stack([x, x])),
    "no rows": lambda f: lambda x: td.vmap(f)(td.zeros((0, *x.shape))),
}


def _values(fold: str, way: str, shape: tuple[int, ...], dtype: str) -> list[Any]:
    """What is folded along each axis, and what is computed beside that."""
    found: list[Any] = []
    x = td.asarray(np.zeros(shape, np.float32)).astype(dtype)
    for axis in range(len(shape)):

        def both(x: Any, axis: int = axis) -> list[Any]:
            s = FOLDS[fold](x, axis=axis, keepdims=True)
            return [s, *[f(x, s.astype(x.dtype)) for f in BESIDE.values()]]

        found += WAYS[way](both)(x)
    return [np.array(v) for v in td.evaluate(*found)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_of_nothing_and_its_neighbors(fold: str, way: str) -> None:
    for k, shape in enumerate(SHAPES):
        dtype = ("float32", "float64", "float16", "bfloat16")[k % 4]
        with td.options(engine="reference"):
            want = _values(fold, way, shape, dtype)
        with td.options(engine="native", arena="guard"):
            got = _values(fold, way, shape, dtype)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, "R", 1)


def test_computations_of_nothing() -> None:
    x = td.placeholder((0, 5))
    s = x.sum(0)
    run = td.computation([s, x - s, td.softmax(x, 0)], x)
    with td.options(arena="guard"):
        found = run(np.zeros((0, 5), np.float32))
    assert [y.shape for y in found] == [(5,), (0, 5), (0, 5)]
    assert not found[0].any()


ENGINES: tuple[dict[str, Any], ...] = (
    {"engine": "reference"},
    {"engine": "device"},
    {"arena": "guard"},
    {"arena": "guard", "optimize": False},
)


@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_attention_over_no_keys_takes_nothing(options: dict[str, Any]) -> None:
    q = td.param("q", init=np.ones((2, 3, 4), np.float32))
    k = td.param("k", init=np.ones((2, 0, 4), np.float32))
    seen = np.ones((3, 0), bool)
    attend = td.nn.AdditiveAttention(4, 4)
    with td.options(**options):
        for given in ({}, {"mask": seen}, {"causal": True}, {"dropout": td.relu}):
            y = td.attention(q, k, k, **given)
            slopes = td.grad(y.sum(), [q, k])
            assert y.shape == (2, 3, 4) and not y.numpy().any()
            assert not slopes[0].numpy().any() and slopes[1].numpy().shape == k.shape
        for mask in (None, seen[:2]):
            context, weights = attend(q[:, 0], k, mask=mask)
            assert not context.numpy().any() and weights.numpy().shape == (2, 0)


def test_no_step_computes_a_value_without_elements() -> None:
    x = td.asarray(np.zeros((0, 5), np.float32))
    s = x.mean(0)
    centered = td.tanh(x - s)
    roots = [s, centered, (centered @ td.ones((5, 3))).sum(0), td.sort(x, 1)]
    graph = expand(pending(roots), {}, {r.serial for r in roots}, claimed)
    program = built(graph)
    assert not any(isinstance(step, Fallback) for step in program.steps)
    written = [program.buffers[n] for step in program.steps for n in step.written]
    assert written and all(b.type.size for b in written)


def _examples(lengths: tuple[int, ...]) -> list[Any]:
    """A loss over examples, its gradients, and what an update leaves."""
    rng = np.random.default_rng(3)
    table = td.param("table", init=rng.standard_normal((7, 3)))
    w = td.param("w", init=rng.standard_normal((3, 4)))
    losses = []
    for n in lengths:
        hidden = td.tanh(table[rng.integers(0, 7, n)] @ w)
        mixed = (td.softmax(hidden, 0) * hidden).sum(0)
        tops = td.logsumexp(td.concat([hidden, td.ones((1, 4))], 0), 0)
        losses.append(td.square(mixed).sum() + tops.sum() + td.sort(hidden, 0).sum())
    loss = td.stack(losses).sum()
    found = td.evaluate(loss, *td.grad(loss, [w, table]))
    td.optim.SGD(lr=0.1).step(loss)
    return [*found, w.numpy(), table.numpy()]


@pytest.mark.parametrize("lengths", [(0,) * 4, (0, 1, 2) * 4, (3, 0, 0, 1) * 3])
def test_examples_without_elements_among_rows(lengths: tuple[int, ...]) -> None:
    with td.options(engine="reference", autobatch=False, dtype="float64"):
        want = _examples(lengths)
    for autobatch in (True, False):
        with td.options(arena="guard", autobatch=autobatch, dtype="float64"):
            got = _examples(lengths)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)


def test_checked_programs_of_nothing() -> None:
    x = td.param("x", init=np.zeros((0, 5), np.float32))
    with td.options(check=True, arena="guard"):
        for f in (td.softmax, td.log_softmax, td.sparsemax, td.sort):
            y = f(td.tanh(x), 0)
            found = td.evaluate(y, y.sum(0), *td.grad(td.square(y).sum(), [x]))
            assert [v.shape for v in found] == [(0, 5), (5,), (0, 5)]


def test_what_no_rows_leave_of_a_training_step() -> None:
    layer, top = td.nn.Linear(3, 4), td.nn.Linear(4, 2)
    before = [p.numpy().copy() for p in layer.parameters()]
    optimizer = td.optim.SGD(lr=0.1)
    with td.options(arena="guard"):
        hidden = td.softmax(layer(td.zeros((0, 3))), 0)
        loss = td.square(top(hidden)).sum()
        assert float(optimizer.step(loss)) == 0.0
    for p, old in zip(layer.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.numpy(), old)
