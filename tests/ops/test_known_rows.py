"""Functions of rows that look like one before: traced anew, made for rows once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff import reverse, written
from treadle.core import native
from treadle.graph import recorded, rows
from treadle.graph.body import trace

rng = np.random.default_rng(4)
X = rng.standard_normal((7, 4)).astype(np.float32)
W = rng.standard_normal((4, 5)).astype(np.float32)
STEPS = 6


def counted(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """One entry for each call of a function of a module from now on."""
    whole, calls = getattr(module, name), list[int]()

    def call(*args: Any, **named: Any) -> Any:
        calls.append(1)
        return whole(*args, **named)

    patch.setattr(module, name, call)
    return calls


def slope(w: Any, rate: float) -> Callable[[Any], Any]:
    """A function of a row that was never there before, with a derivative in it."""

    def f(x: Any) -> Any:
        y = td.tanh(x @ w).sum() * td.constant(rate)
        (g,) = td.grad(y, [x])
        return g, td.grad((g * g).sum(), [w])[0]

    return f


def test_what_a_function_records_is_done_for_rows_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    td.clear_cache()
    w = td.param("w", init=W)
    planned = counted(monkeypatch, rows, "_planned")
    pulled = counted(monkeypatch, written, "pull")
    counts, losses = [], []
    for k in range(STEPS):
        x, rate = td.asarray(X + 0.1 * k), 0.37 + 0.11 * k
        g, h = td.vmap(slope(w, rate))(x)
        t = np.tanh((X + np.float32(0.1 * k)) @ W)
        np.testing.assert_allclose(
            g.numpy(), np.float32(rate) * (1 - t * t) @ W.T, rtol=1e-4, atol=1e-5
        )
        one = slope(w, rate)(td.asarray(X[3] + 0.1 * k))[1]
        np.testing.assert_allclose(h[3].numpy(), one.numpy(), rtol=1e-4, atol=1e-5)
        losses.append(float(h.sum()))
        counts.append((len(planned), len(pulled)))
    assert len(planned) == 1 and counts[2] == counts[-1]
    assert len(set(losses)) == STEPS


def test_the_same_structure_of_other_arguments() -> None:
    """What an argument becomes is told by which one it is, not by its place."""
    a, b = td.asarray(X), td.asarray(X[::-1] * 2)
    for _ in range(2):
        one = td.vmap(lambda p, q: p - q)(a, b)
        other = td.vmap(lambda p, q: q - p)(a, b)
        np.testing.assert_array_equal(one.numpy(), X - X[::-1] * 2)
        np.testing.assert_array_equal(other.numpy(), X[::-1] * 2 - X)
        twice = td.vmap(lambda p, q: p - q)(a, a)
        np.testing.assert_array_equal(twice.numpy(), X - X)
        row = td.asarray(X[0])
        for axes in ((0, None), (None, 0)):
            args = (a, row) if axes[0] == 0 else (row, a)
            y = td.vmap(lambda p, q: p - q, axes)(*args)
            want = X - X[0] if axes[0] == 0 else X[0] - X
            np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.parametrize("inside", [True, False])
def test_what_has_no_gradient_has_none_again(inside: bool) -> None:
    w = td.param("w", init=W)

    def f(x: Any) -> Any:
        with td.no_grad():
            scale = td.exp(x @ w).sum() if inside else x.sum()
        return (x @ w).sum() * scale

    for k in range(3):
        x = td.asarray(X * (0.1 + 0.01 * k))
        (g,) = td.grad(td.vmap(f)(x).sum(), [w])
        xs = x.numpy()
        scale = np.exp(xs @ W).sum(1) if inside else xs.sum(1)
        want = np.repeat((xs.T @ scale)[:, None], 5, 1)
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-4, atol=1e-5)


def dropped(w: Any) -> Callable[[Any], Any]:
    """A function that draws twice, and reads the second draw first."""

    def f(x: Any) -> Any:
        first, second = td.random.normal((5,)), td.random.normal((4,))
        y = (x * second) @ w + first
        return td.grad((y * y).sum(), [w])[0], td.dropout(y, 0.5)

    return f


def captured(w: Any) -> Callable[[Any], Any]:
    """A function that goes on after a derivative, with what was there before."""
    scale = td.exp(td.asarray(X[0])) * w[:, 0]

    def f(x: Any) -> Any:
        y = td.tanh(x * scale).sum()
        (g,) = td.grad(y, [x])
        z = td.sin(x @ w).sum() * y
        return td.grad((g * g).sum() + z + y * x.sum(), [x])

    return f


@pytest.mark.parametrize("make", [dropped, captured])
def test_bits_are_those_of_a_trace_that_is_closed(
    make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran() -> list[Any]:
        w = td.param("w", init=W)
        losses = []
        for k in range(4):
            results = td.vmap(make(w))(td.asarray(X + 0.1 * k))
            loss = sum((r * r).sum() for r in results)
            losses.append(float(td.optim.SGD([w], lr=0.01).step(loss)))
        return [*losses, w.numpy().tolist()]

    with td.options(seed=7):
        known = ran()
    assert len(set(known[:4])) == 4
    monkeypatch.setattr(rows, "look", lambda *given, **named: None)
    with td.options(seed=7):
        assert ran() == known


def test_what_follows_a_derivative_in_a_trace_comes_after_it() -> None:
    """Cotangents are summed in the order of nodes."""

    def f(x: Any) -> Any:
        (g,) = td.grad(td.sin(x), [x])
        return g * td.exp(x)

    body = trace(lambda x: [f(x)], [td.constant(1.0).type], "f").body
    y = td.vmap(f)(td.asarray(X[0]))
    for nodes in (body.nodes, td.nodes(y)):
        names = [x.op.name for x in nodes]
        assert names.index("Cos") < names.index("Exp")


def test_an_error_names_the_line_of_this_call() -> None:
    """Functions alike are one plan, and each node has the line of the one called."""
    x = td.asarray(X)
    for _ in range(2):
        one = td.vmap(lambda r: td.sqrt(r).sum())(x)
        other = td.vmap(
            lambda r: td.sqrt(r).sum(),
        )(x)
    lines = {y.inputs[0].line for y in (one, other)}
    assert len(lines) == 2


def test_a_derivative_by_what_a_trace_has_not_made() -> None:
    """Of a Variable it goes on through what was computed of it before."""
    w = td.param("w", init=W)
    for k in range(3):
        before = td.tanh(td.asarray(X[k]) @ w).sum()

        def f(x: Any, before: Any = before) -> Any:
            return td.grad(before * (x @ w).sum(), [w])[0]

        got = td.vmap(f)(td.asarray(X)).numpy()
        whole = before * (td.asarray(X[2]) @ w).sum()
        want = td.grad(whole, [w])[0].numpy()
        np.testing.assert_allclose(got[2], want, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(native is None, reason="the core follows plans")
def test_calls_in_a_trace_follow_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    w = td.param("w", init=rng.standard_normal((4, 11)).astype(np.float32))
    b = td.asarray(rng.standard_normal(11).astype(np.float32))
    x = td.asarray(X[0])

    def traced() -> Any:
        return trace(lambda x: [td.tanh(td.add(x @ w, b))], [x.type], "f")

    made = [traced() for _ in range(3)]
    long = counted(monkeypatch, recorded, "thread_state")
    last = traced()
    assert not long  # no call has run its function
    for one in (made[0], last):
        assert one.variables == (w,) and one.captured == (b,)
        (y,) = one.body.numpy([x.numpy(), w.numpy(), b.numpy()])
        want = np.tanh(x.numpy() @ w.numpy() + b.numpy())
        np.testing.assert_allclose(y, want, rtol=1e-5)


def test_a_handler_that_is_set_while_a_trace_reads() -> None:
    """What it reads is there, and no argument of the trace."""
    w, seen = td.param("w", init=2.0), list[float]()

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(float(w * 3.0))

    before = signal.getsignal(signal.SIGUSR1)

    def f(x: Any) -> list[Any]:
        y = x * w * w
        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)
        return [y * w]

    try:
        made = trace(f, [td.constant(1.0).type], "f")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [6.0] and made.variables == (w,)


# -- Jacobians -------------------------------------------------------------------------


def test_a_jacobian_is_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    td.clear_cache()
    w = td.param("w", init=W)
    calls, counts = counted(monkeypatch, reverse, "cotangents_of"), []
    for k in range(STEPS):
        x = td.asarray(X[k])
        by_x, by_w = td.jacobian(td.tanh(x @ w), [x, w])
        t = 1 - np.tanh(X[k] @ w.numpy()) ** 2
        np.testing.assert_allclose(
            by_x.numpy(), t[:, None] * w.numpy().T, rtol=1e-4, atol=1e-5
        )
        want = np.einsum("j,i,jk->jik", t, X[k], np.eye(5))
        np.testing.assert_allclose(by_w.numpy(), want, rtol=1e-4, atol=1e-5)
        w.assign(w - 0.1 * by_w.sum(0))
        w.numpy()
        counts.append(len(calls))
    assert counts[2] == counts[-1]


def test_a_jacobian_by_several_versions() -> None:
    """It is by all of them, though a graph of two Variables looks the same."""
    v, w = [td.param(init=np.float32([1.0, 2.0])) for _ in range(2)]

    def rows(before: Any) -> Any:
        return td.jacobian(before * 3.0 + w * w, [w])[0].numpy()

    for _ in range(2):
        np.testing.assert_allclose(rows(v.node()), np.diag(2 * w.numpy()))
    before = w.node()
    w.assign(w * 2.0)
    w.numpy()
    np.testing.assert_allclose(rows(before), np.diag(3 + 2 * w.numpy()))
