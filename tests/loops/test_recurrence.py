"""Loops with element-wise bodies: one kernel, what is carried in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(0)
Body = Callable[[Any, Any], tuple[Any, Any]]


def swapped(c: Any, x: Any) -> tuple[Any, Any]:
    """All that is carried changes at once."""
    a, b = c
    return (b * 0.5 + x, td.tanh(a) - b * x), a * b + x


def counted(c: Any, x: Any) -> tuple[Any, Any]:
    total, high = c
    return (total + x, td.maximum(high, x)), (td.where(x > high, total, x), x > total)


def alone(c: Any, x: Any) -> tuple[Any, Any]:
    return (td.exp(-td.abs(c[0])) + x, c[1] * 0.9), ()


BODIES: dict[str, Body] = {"swapped": swapped, "counted": counted, "alone": alone}
SHAPES = [(), (1,), (1, 1), (7,), (3, 5), (64,), (2, 1, 33)]


def scanned(body: Body, shape: Any, dtype: str, length: int, reverse: bool) -> Any:
    values = RNG.uniform(-2, 2, (length + 2, *shape)) * (1 if "f" in dtype else 4)
    xs = td.asarray(values.astype(dtype))
    if "int" in dtype and body is not counted:
        pytest.skip("the body makes floats of whole numbers")
    return td.scan(body, (xs[0], xs[1]), xs[2:], reverse=reverse)


def flat(tree: Any) -> list[Any]:
    return td.base.trees.flatten(tree)[0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_a_loop_is_one_kernel(body: str, shape: Any, dtype: str, reverse: bool) -> None:
    found = flat(scanned(BODIES[body], shape, dtype, 9, reverse))
    low = td.lower(found)
    assert " loop(" in low.program and "Scan(" not in low.program
    values = td.evaluate(*found)
    with td.options(engine="reference"):
        wanted = td.evaluate(*[x + 0 if x.dtype != bool else x for x in found])
    for x, y in zip(values, wanted, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert np.allclose(
            x, y, 1e-5 if x.dtype == np.float32 else 1e-12, equal_nan=True
        )


@pytest.mark.parametrize("arena", ["poison", "guard"])
@pytest.mark.parametrize("length", [1, 2, 40])
def test_nothing_else_is_written(arena: str, length: int) -> None:
    found = flat(scanned(swapped, (5, 3), "float32", length, False))
    wanted = td.evaluate(*found)
    with td.options(arena=arena):
        again = td.evaluate(*[x * 1.0 for x in found])
    assert all(map(np.array_equal, wanted, again))


def test_a_loop_without_steps_gives_what_it_was_given() -> None:
    (a, b), ys = scanned(swapped, (4,), "float64", 0, False)
    assert a.shape == b.shape == (4,) and ys.numpy().shape == (0, 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_by_all_that_is_read(shape: Any, reverse: bool) -> None:
    w = td.param(init=RNG.normal(size=shape) * 0.3, dtype="float64")
    s = td.param(init=0.7, dtype="float64")
    xs = td.asarray(RNG.normal(size=(11, *shape)))
    row = td.asarray(RNG.normal(size=11))

    def loss() -> Any:
        def step(c: Any, x: Any) -> Any:
            (a, b), (own, shared) = c, x
            n = td.tanh(a * w + own) + b * s
            m = td.where(n > 0, b * 0.9 + shared, td.exp(-td.abs(b)))
            return (n, m), n * m + a

        c, ys = td.scan(step, (w + 0.0, w * 0.0), (xs, row), reverse=reverse)
        return (ys * ys).sum() + c[0].sum()

    value = loss()
    found = td.evaluate(value, *td.grad(value, [w, s, xs, row]))
    with td.options(engine="reference"):
        value = loss()
        wanted = td.evaluate(value, *td.grad(value, [w, s, xs, row]))
    for x, y in zip(found, wanted, strict=True):
        assert np.allclose(x, y, 1e-9, 1e-9)


def test_bodies_of_many_ops_are_compiled_without_recursion() -> None:
    def step(c: Any, x: Any) -> Any:
        for k in range(400):
            c = td.sin(c) * 0.5 + x if k % 2 else c + 0.25
        return c, c

    xs = td.asarray(RNG.normal(size=6))
    c, ys = td.scan(step, td.asarray(np.float64(0.1)), xs)
    assert " loop(" in td.lower([c, ys]).program
    by = td.param(init=0.1, dtype="float64")
    (slope,) = td.grad(td.scan(step, by + 0.0, xs)[0], [by])
    assert np.isfinite(slope.numpy()) and float(c) == ys.numpy()[-1]


def test_what_looks_at_neighbors_is_a_program_of_its_own() -> None:
    x = td.asarray(RNG.normal(size=(5, 80)))  # more than are written out
    for body in (
        lambda c, r: (td.roll(c, 1) * r, ()),
        lambda c, r: (c * r.sum(), ()),
        lambda c, r: (c * td.cumulative_sum(r), ()),
        lambda c, r: (c + td.lgamma(r * r + 1.0), ()),
    ):
        c, _ = td.scan(body, x[0], x)
        assert "Scan(" in td.lower(c).program
        with td.options(engine="reference"):
            wanted = (c + 0.0).numpy()
        assert np.allclose(c.numpy(), wanted)


A, U = (
    td.param(init=RNG.normal(size=s) * 0.4, dtype="float64") for s in [(3, 3), (2, 8)]
)


def product(c: Any, x: Any) -> tuple[Any, Any]:
    c = td.tanh(c @ A + x)
    return c, (c.sum(0), td.max(c, axis=1, keepdims=True))


def cell(state: Any, x: Any) -> tuple[Any, Any]:
    (h, c), g = state, x @ U
    i, f = td.split(td.concat([h, h]) * 0.3 + g, 2)
    c = td.sigmoid(f) * c + td.tanh(i)
    h = td.tanh(c) * td.softmax(h)
    return (h, c), (td.max(c), c[1:3], td.pad(h[:2], 1))


def filtered(state: Any, x: Any) -> tuple[Any, Any]:
    mean, spread = state
    mean = (spread + td.eye(3, dtype="float64")) @ (x[0] - mean) * 0.1 + mean
    spread = spread - (spread @ spread.T) * 0.01
    seen = td.roll(mean, 1), td.trace(spread), x.T[::-1], td.tril(spread).sum(0)
    return (mean, spread), seen


def counts(state: Any, x: Any) -> tuple[Any, Any]:
    seen, last = state
    return (seen + (x > 0).sum(), x), (td.all(x > last), td.argmax(x * 2))


WRITTEN: dict[str, tuple[Body, Any, tuple[int, ...]]] = {
    "product": (product, (3, 3), (3, 3)),
    "cell": (cell, ((4,), (4,)), (2,)),
    "filtered": (filtered, ((3,), (3, 3)), (3, 3)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_small_states_are_written_out(name: str, reverse: bool) -> None:
    body, shapes, row = WRITTEN[name]
    shapes = shapes if isinstance(shapes[0], tuple) else (shapes,)
    begin = [td.asarray(RNG.normal(size=s) * 0.4) for s in shapes]
    init = begin[0] if len(begin) == 1 else tuple(begin)
    xs = td.asarray(RNG.normal(size=(12, *row)) * 0.4)

    def built() -> tuple[list[Any], list[Any]]:
        found = flat(td.scan(body, init, xs, reverse=reverse))
        loss = sum((x * x).sum() for x in found)
        by = [xs, *begin] + (
            [A] if name == "product" else [U] if name == "cell" else []
        )
        return found, td.grad(loss, by)

    found, slopes = built()
    low = td.lower([*found, *slopes])
    assert " loop(" in low.program and "Scan(" not in low.program
    values = td.evaluate(*found, *slopes)
    with td.options(engine="reference"):
        found, slopes = built()
        wanted = td.evaluate(*found, *slopes)
    for x, y in zip(values, wanted, strict=True):
        assert x.shape == y.shape and np.allclose(x, y, 1e-10, 1e-10)


def test_a_small_state_of_whole_numbers() -> None:
    xs = td.asarray(RNG.integers(-9, 9, (20, 6)))
    found = flat(td.scan(counts, (td.asarray(np.int64(0)), xs[0]), xs))
    values = td.evaluate(*found)
    with td.options(engine="reference"):
        wanted = td.evaluate(
            *flat(td.scan(counts, (td.asarray(np.int64(0)), xs[0]), xs))
        )
    assert all(map(np.array_equal, values, wanted))


def test_loops_as_rows_and_in_functions() -> None:
    def last(x: Any) -> Any:
        return td.scan(swapped, (x[0], x[1]), x)[0][0]

    xs = td.asarray(RNG.normal(size=(4, 6)))
    each = np.stack([last(xs[k]).numpy() for k in range(4)])
    assert np.allclose(td.vmap(last)(xs).numpy(), each)
    f = td.function(last)
    assert np.allclose([float(f(xs[k])) for k in range(4)], each)


def test_a_body_too_large_for_a_kernel_is_a_program() -> None:
    def step(c: Any, x: Any) -> Any:
        for _ in range(300):
            c = td.sin(c) + x
        return c, ()

    xs = td.asarray(RNG.normal(size=(6, 4)))
    c, _ = td.scan(step, xs[0], xs)
    assert "Scan(" in td.lower(c).program
    with td.options(engine="reference"):
        wanted = (c + 0.0).numpy()
    np.testing.assert_allclose(c.numpy(), wanted, 1e-9)
