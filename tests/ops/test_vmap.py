"""A function of one row applied to all rows: td.vmap and bodies done for rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.fuzz.graphs import Recipe, apply, draw, outputs_of
from treadle.base.errors import ArgumentError, AxisError, ShapeError, TraceError
from treadle.base.types import Type
from treadle.graph.body import Body, trace
from treadle.graph.op import registry
from treadle.graph.operators import functions
from treadle.graph.rows import batched
from treadle.graph.traversal import reach
from treadle.ops.contract import Contract

rng = np.random.default_rng(4)
X = rng.standard_normal((7, 4)).astype(np.float32)
W = rng.standard_normal((5, 4)).astype(np.float32)


def stacked(f: Callable[..., Any], *rows: Any) -> Any:
    """f of each row by itself, stacked."""
    each = [f(*[td.asarray(x) for x in row]) for row in zip(*rows, strict=True)]
    return np.stack([y.numpy() for y in each])


def close(y: Any, want: Any) -> None:
    assert y.shape == want.shape
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)


def contractions(y: Any) -> list[str]:
    nodes = reach(functions.written_out([y]))
    return [n.op.spec for n in nodes if isinstance(n.op, Contract)]


def test_rows_with_shared_weights_are_one_product() -> None:
    w = td.param("w", init=W)
    for y, spec in [
        (td.vmap(lambda x: w @ x)(td.asarray(X)), "ij,aj->ai"),
        (td.vmap(lambda x: x @ w.T)(td.asarray(X)), "aj,jk->ak"),
    ]:
        assert contractions(y) == [spec]
        close(y, X @ W.T)
        (g,) = td.grad(y.sum(), [w])
        assert len(contractions(g)) == 1
        close(g, np.ones((7, 5), np.float32).T @ X)


def test_gradients_of_each_row() -> None:
    w = td.param("w", init=W)
    t = rng.standard_normal((7, 5)).astype(np.float32)

    def loss(x: Any, t: Any) -> Any:
        return td.square(td.tanh(w @ x) - t).sum()

    def slope(x: Any, t: Any) -> Any:
        return td.grad(loss(x, t), [w])[0]

    each = td.vmap(slope)(td.asarray(X), td.asarray(t))
    close(each, stacked(slope, X, t))
    total = td.vmap(loss)(td.asarray(X), td.asarray(t)).sum()
    close(td.grad(total, [w])[0], each.numpy().sum(0))


def test_rows_stand_where_the_caller_says() -> None:
    x = td.asarray(X)
    close(td.vmap(lambda c: c.sum(), in_axes=1)(x), X.sum(0))
    close(td.vmap(lambda c: c * 2, in_axes=-1, out_axes=1)(x), X * 2)
    tree = {"a": x, "b": (x, td.asarray(W[0]))}
    y = td.vmap(
        lambda p: {"s": p["a"] * p["b"][1], "t": p["b"][0].sum()},
        in_axes=({"a": 0, "b": (0, None)},),
        out_axes={"s": 1, "t": 0},
    )(tree)
    close(y["s"], (X * W[0]).T)
    close(y["t"], X.sum(1))


def test_what_no_row_reaches_is_computed_once_and_repeated() -> None:
    w = td.asarray(W)
    _, z = td.vmap(lambda x: (x.sum(), td.exp(w)))(td.asarray(X))
    close(z, np.broadcast_to(np.exp(W), (7, 5, 4)))
    made = [n for n in reach([z]) if type(n.op).__name__ == "Exp"]
    assert [n.shape for n in made] == [(5, 4)]
    assert td.vmap(lambda x, k: x * k, in_axes=(0, None))(td.asarray(X), 3).shape == (
        7,
        4,
    )


def test_inside_another_one_and_inside_functions_and_loops() -> None:
    a, b = td.asarray(X[:, 0]), td.asarray(W[:, 0])
    table = td.vmap(td.vmap(lambda p, q: p - q, (None, 0)), (0, None))(a, b)
    close(table, X[:, :1] - W[:, 0])

    @td.function
    def cell(x: Any) -> Any:
        return td.tanh(x) * 2

    close(td.vmap(cell)(td.asarray(X)), np.tanh(X) * 2)

    @td.function
    def outer(x: Any) -> Any:
        return td.vmap(lambda r: td.softmax(r))(x)

    close(outer(td.asarray(X)), td.softmax(td.asarray(X)).numpy())
    rows = td.scan(lambda c, r: (c, td.vmap(lambda v: v * c)(r)), 2.0, td.asarray(X))
    close(rows[1], X * 2)
    powers = td.vmap(lambda n: td.while_loop(lambda k: k < 50, lambda k: k * 3, n))
    assert powers(td.asarray([1, 2, 40])).tolist() == [81, 54, 120]

    def either(x: Any) -> Any:
        return td.cond(x.sum() > 0, lambda: x * 2, lambda: -x)

    close(td.vmap(either)(td.asarray(X)), stacked(either, X))


def test_each_row_draws_numbers_of_its_own() -> None:
    with td.options(seed=5):
        rows = td.vmap(lambda x: x + td.random.uniform((3,)))(td.zeros((4,))).numpy()
        after = td.random.seed_state()
    with td.options(seed=5):
        td.random.uniform()  # the trace has drawn once
        alone = [td.random.uniform((3,)).numpy() for _ in range(4)]
    assert np.array_equal(rows, np.stack(alone))
    assert after == (5, 5)
    with td.options(seed=6):
        wide = td.vmap(td.vmap(lambda x: td.dropout(x, 0.5)))(td.ones((3, 2, 8)))
        kept = {row.tobytes() for row in wide.numpy().reshape(6, 8)}
    assert len(kept) == 6


def test_draws_are_new_at_each_call_of_what_holds_them() -> None:
    f = td.function(lambda x: td.vmap(lambda r: r + td.random.normal((3,)))(x))
    a, b = f(td.zeros((2, 3))).numpy(), f(td.zeros((2, 3))).numpy()
    assert len({row.tobytes() for row in np.concatenate([a, b])}) == 4
    drawn = td.vmap(lambda r: r + td.random.normal((3,)))(td.zeros((2, 3)))
    compute = td.computation(drawn)
    assert not np.array_equal(compute(), compute())


def test_shared_draws_are_the_same_for_all_rows() -> None:
    # The inner rows draw; the outer ones only share what they drew.
    body = trace(
        lambda x, d: [registry["Dropout"]((4,))(x, td.constant(0.5), d)],
        [Type((3, 4), np.dtype(np.float32)), Type((3, 2), np.dtype(np.uint64))],
        "drop",
    ).body
    made = batched(body, (True, False), 2)
    assert made is not None
    x = np.ones((2, 3, 4), np.float32)
    d = np.array([[7, 1], [7, 2], [7, 3]], np.uint64)
    (reference,) = made.numpy([x, d])
    assert np.array_equal(reference[0], reference[1])
    call = registry["Call"](made)(td.asarray(x), td.asarray(d))
    assert np.array_equal(call.numpy(), reference)


def test_names_of_rows_and_results() -> None:
    x = td.name_axes(td.asarray(X), "n", "c")
    w = td.name_axes(td.asarray(W[0]), "c")
    y = td.vmap(lambda r: r * w, in_axes="n")(x)
    assert y.axes == ("n", "c")
    close(y, X * W[0])
    assert td.vmap(lambda r: r.sum("c"), in_axes="n")(x).axes == ("n",)
    assert td.vmap(lambda r: r * w, in_axes="n", out_axes=1)(x).axes == ("c", "n")
    plain = td.vmap(lambda r: td.name_axes(r, "c") * w)(td.asarray(X))
    assert plain.axes is None
    close(plain, X * W[0])
    (g,) = td.grad(td.square(y).sum(), [w])
    close(g, 2 * (X**2).sum(0) * W[0])


def test_no_grad_holds_for_rows() -> None:
    w = td.param("w", init=W)

    def f(x: Any) -> Any:
        with td.no_grad():
            scale = (w @ x).sum()
        return (w @ x) * scale

    def plain(x: Any) -> Any:
        return (w @ x) * td.stop_gradient((w @ x).sum())

    got = td.grad(td.vmap(f)(td.asarray(X)).sum(), [w])[0]
    close(got, td.grad(td.vmap(plain)(td.asarray(X)).sum(), [w])[0].numpy())
    cell = td.function(lambda x: w @ x)
    with td.no_grad():
        td.vmap(cell)(td.asarray(X)).numpy()
    (g,) = td.grad(td.vmap(cell)(td.asarray(X)).sum(), [w])
    close(g, np.ones((7, 5), np.float32).T @ X)


def test_a_body_is_done_for_rows_once() -> None:
    t = Type((4,), np.dtype(np.float32))
    body = trace(lambda x, w: [x * w, w + 1.0], [t, t], "pair").body
    made = batched(body, (True, False), 3)
    assert made is batched(body, (True, False), 3)
    assert made is not None and isinstance(made, Body)
    assert [x.shape for x in made.arguments] == [(3, 4), (4,)]
    assert [x.shape for x in made.outputs] == [(3, 4), (3, 4)]
    told = trace(lambda x: [td.debug(x)], [t], "told").body
    assert batched(told, (True,), 3) is None


def test_mistakes_are_refused_with_a_sentence() -> None:
    x, w = td.asarray(X), td.asarray(W)
    v = td.Variable(0.0)

    def assigns(r: Any) -> Any:
        v.assign(r.sum())
        return r

    for call, error, says in [
        (lambda: td.vmap(lambda a: a)(3.0), AxisError, "out of range"),
        (lambda: td.vmap(lambda a, b: a)(x, w), ShapeError, "7 and 5 rows"),
        (lambda: td.vmap(lambda a: a, in_axes=None)(x), ArgumentError, "has rows"),
        (lambda: td.vmap(lambda a: a, in_axes=(0, 0))(x), ArgumentError, "not for"),
        (lambda: td.vmap(lambda a: a, out_axes=None)(x), ArgumentError, "a number"),
        (lambda: td.vmap(assigns)(x), TraceError, "are assigned inside"),
        (lambda: td.vmap(lambda a: a if a.sum() > 0 else -a)(x), TraceError, "traced"),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert says in str(caught.value)


def function_of(recipe: Recipe, gradient: bool) -> Callable[..., list[Any]]:
    """What a random recipe computes of its inputs, and its derivatives by them."""

    def f(*xs: Any) -> list[Any]:
        left, values = iter(xs), []
        for row in recipe.rows:
            operands = [values[k] for k in row.inputs]
            values.append(next(left) if row.op == "input" else apply(row, operands))
        ys = [values[k] for k in outputs_of(recipe)]
        if not gradient:
            return ys
        total = sum((td.tanh(y).sum() for y in ys[1:]), ys[0].sum())
        return [*ys, *td.grad(total, list(xs), unused="zero")]

    return f


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_by_rows(seed: int) -> None:
    recipe, own = draw(seed), np.random.default_rng(seed)
    shapes = [row.attribute for row in recipe.rows if row.op == "input"]
    given = [bool(own.integers(2)) for _ in shapes[1:]] + [True]
    f = function_of(recipe, bool(own.integers(2)))
    arrays = [
        own.uniform(-2.0, 2.0, (3, *s) if g else s)
        for s, g in zip(shapes, given, strict=True)
    ]
    axes = tuple(0 if g else None for g in given)
    got = td.evaluate(*td.vmap(f, axes)(*map(td.asarray, arrays)), td.constant(0.0))
    for r in range(3):
        rows = [a[r] if g else a for a, g in zip(arrays, given, strict=True)]
        want = td.evaluate(*f(*map(td.asarray, rows)), td.constant(0.0))
        for y, w in zip(got[:-1], want[:-1], strict=True):
            np.testing.assert_allclose(y[r], w, rtol=1e-7, atol=1e-7)
