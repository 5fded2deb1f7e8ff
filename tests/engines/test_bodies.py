"""Branches and loops on the native engine: their bodies are programs."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.core import native
from treadle.engines.base import engine

H = 24
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "poison": {"arena": "poison"},
    "guard": {"arena": "guard"},
    "unfused": {"optimize": False},
    "workspace": {"workspace": 1 << 24},
}


def data(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(np.float32) * np.float32(0.3)


class Model:
    """Weights that the graphs below share."""

    def __init__(self) -> None:
        self.x = td.asarray(data(9, 5, 16))
        self.w = td.param("w", init=data(16, 4 * H, seed=1))
        self.u = td.param("u", init=data(H, 4 * H, seed=2))
        self.b = td.param("b", init=data(4 * H, seed=3))


def lstm(m: Model) -> Any:
    def step(carry: Any, row: Any) -> Any:
        h, s = carry
        z = row @ m.w + h @ m.u + m.b
        i, f, g, o = (z[:, k * H : (k + 1) * H] for k in range(4))
        s = td.sigmoid(f) * s + td.sigmoid(i) * td.tanh(g)
        h = td.sigmoid(o) * td.tanh(s)
        return (h, s), h

    start = td.zeros((5, H)), td.zeros((5, H))
    return td.scan(step, start, m.x)[1]


def branch(m: Model) -> Any:
    test = m.x.sum() > 0
    return td.cond(test, lambda v: v @ m.w, lambda v: td.tanh(v @ m.w) * 2.0, m.x[0])


def loop(m: Model) -> Any:
    def grown(s: Any) -> Any:
        return td.abs(s @ m.u[:, :H]) + 0.5 * s + m.b[:H] * m.b[:H]

    return td.while_loop(lambda s: s.sum() < 200.0, grown, td.ones((5, H)))


def bounded(m: Model) -> Any:
    def halved(s: Any) -> Any:
        return td.tanh(s @ m.u[:, :H])

    init = td.ones((5, H))
    loop = td.while_loop(lambda s: s.sum() > 1.0, halved, init, max_iterations=6)
    return loop + m.w.sum() + m.b.sum()


def nested(m: Model) -> Any:
    def row(c: Any, r: Any) -> Any:
        inner = td.scan(lambda a, q: (td.tanh(a + q @ m.w), ()), c, r)[0]
        return td.cond(
            inner.sum() > 0, lambda v: v, lambda v: v @ m.w.T @ m.w, inner
        ), c

    return td.scan(row, m.b, m.x[:4], reverse=True)


def passing(m: Model) -> Any:
    """Carries that change places, one that stays, rows that are given back."""
    a, b = td.ones((5, 16)), td.full((5, 16), 2.0)
    out = td.scan(lambda c, r: ((c[1], c[0], c[2]), (r, c[2], r)), (a, b, m.w), m.x)
    return out, td.scan(lambda c, r: (c, r), m.b, m.x[:0])


def drawn(m: Model) -> Any:
    def noisy(c: Any, r: Any) -> Any:
        return c + r * td.random.normal((5, 16)), td.random.uniform((3,))

    return td.scan(noisy, m.x[0], m.x)


def looked_up(m: Model) -> Any:
    rows = td.asarray(np.array([3, 0, 15, 7], np.int32))
    return td.scan(lambda c, k: (c + m.w[k], td.sort(c)), m.b, rows)


CASES: list[Callable[[Model], Any]] = [
    lstm, branch, loop, bounded, nested, passing, drawn, looked_up
]  # fmt: skip


def values(y: Any) -> list[Any]:
    leaves, _ = td.base.trees.flatten(y)
    return [np.asarray(x) for x in leaves]


def run(case: Any, *, derive: bool, **settings: Any) -> list[Any]:
    with td.options(seed=7):  # the same draws
        m = Model()
        y = case(m)
        if derive:
            leaves, _ = td.base.trees.flatten(y)
            total = sum((x * x).sum() for x in leaves)
            y = td.grad(total, [m.w, m.b], unused="zero")
        with td.options(**settings):
            return values(td.evaluate(y))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("derive", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("case", CASES, ids=[c.__name__ for c in CASES])
def test_bodies_are_programs(case: Any, derive: bool, setting: str) -> None:
    if derive and case is loop:
        pytest.skip("its length is not bounded")
    if derive and case is drawn:
        pytest.skip("it reads no parameter: the gradient runs nothing")
    found = run(case, derive=derive, engine="native", **SETTINGS[setting])
    program = td.latest_program()
    assert program is not None and program.fallbacks == ()
    wants = run(case, derive=derive, engine="reference")
    for got, want in zip(found, wants, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("case", CASES, ids=[c.__name__ for c in CASES])
def test_threads_change_no_bits(case: Any) -> None:
    derive = case is not loop
    alone = [x.tobytes() for x in run(case, derive=derive, threads=1)]
    for threads in (2, 4):
        found = run(case, derive=derive, threads=threads)
        assert [x.tobytes() for x in found] == alone


def test_one_loop_runs_in_several_threads_at_once() -> None:
    m = Model()
    f = td.function(lambda x: td.scan(lambda c, r: (td.tanh(c + r), c), x[0], x)[1])
    given = [td.asarray(data(50, 40, seed=k)) for k in range(8)]
    alone = [f(x).numpy().tobytes() for x in given]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: f(x).numpy().tobytes(), given * 4))
    assert found == alone * 4
    assert m.x.shape == (9, 5, 16)


def test_a_wrong_position_is_told_with_its_line() -> None:
    table = td.asarray(data(4, 3))
    rows = td.asarray(np.array([0, 9], np.int32))
    y = td.scan(lambda c, k: (c + table[k], ()), td.zeros(3), rows)[0]
    with pytest.raises(td.TreadleError, match=r"test_bodies\.py"):
        y.numpy()


def test_what_bodies_become_is_shown() -> None:
    x, w = td.asarray(data(6, 70)), td.asarray(data(70, 70))
    low = td.lower(td.scan(lambda c, r: (td.exp(c @ w) * r, ()), x[0], x)[0])
    assert "Scan(" in low.program and "  b0: float32[70] argument" in low.program
    assert "exp" in low.kernels and "numpy" not in low.program
    assert low.fallbacks == () and low.llvm and low.asm
    complex_ = td.scan(lambda c, r: (c * 1j * r, ()), x[0].astype("complex64"), x)[0]
    assert td.lower(complex_).fallbacks.count("Multiply") == 2


def test_the_python_calls_of_a_loop_do_not_grow_with_its_body() -> None:
    def calls(count: int) -> int:
        def step(c: Any, r: Any) -> Any:
            for _ in range(count):
                c = td.tanh(c @ w + r)
            return c, ()

        w, x = td.asarray(data(70, 70)), td.asarray(data(5, 70))
        f = td.function(lambda x: td.scan(step, x[0], x)[0])
        for _ in range(3):
            f(x).numpy()
        seen = 0

        def watch(frame: Any, event: str, argument: Any) -> None:
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(watch)
        try:
            f(x).numpy()
        finally:
            sys.setprofile(None)
        return seen

    assert abs(calls(2) - calls(40)) < 20


def test_a_loop_built_again_is_the_same_program() -> None:
    w = td.param("w", init=data(4, 4))

    def run(x: Any, scale: float) -> float:
        factor = td.constant(scale)
        y = td.scan(lambda c, r: (td.tanh(c @ w + r) * factor * 2, ()), x[0], x)[0]
        z = td.while_loop(lambda s: s.sum() < 9, lambda s: s + 1, td.abs(y))
        return float(td.cond(z.sum() > 0, lambda: z.sum(), lambda: y.sum()))

    run(td.asarray(data(6, 4)), 1.0)
    before = td.cache_info().misses
    for k in range(4):
        run(td.asarray(data(6, 4, seed=k)), 0.5 + k)
    assert td.cache_info().misses == before


def test_other_numbers_in_a_body_are_other_programs() -> None:
    x = td.asarray(np.ones((3, 2), np.float32))
    found = [td.scan(lambda c, r, k=k: (c + r * k, ()), x[0], x)[0] for k in (3.3, 4.4)]
    np.testing.assert_allclose([float(y[0]) for y in found], [10.9, 14.2], rtol=1e-6)
    large = [td.asarray(np.full(2000, k, np.float32)) for k in (1, 2)]
    for y in large:
        z = td.map(lambda r, y=y: td.asarray(y.numpy()).sum() * r, x)
        assert z[0, 0].item() == float(y.sum())


@pytest.mark.skipif(native is None, reason="the core runs them")
def test_an_interrupt_ends_a_long_loop_and_nothing_is_lost() -> None:
    w = td.param("w", init=data(H, H))
    x = td.ones((5, H))
    endless = td.while_loop(lambda s: s.sum() < 1e9, lambda s: td.tanh(s @ w), x)
    # What a shell starts in the background ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.7, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            endless.numpy()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    found = td.while_loop(lambda s: s.sum() < 9.0, lambda s: s * 2.0, x[0] * 0.1)
    assert float(found.sum()) >= 9.0


def latest() -> Any:
    return engine("native").latest_linked()  # type: ignore[attr-defined]


@pytest.mark.skipif(native is None, reason="the core runs them")
@pytest.mark.parametrize("case", CASES, ids=[c.__name__ for c in CASES])
def test_a_program_with_loops_is_one_native_call(case: Any) -> None:
    run(case, derive=case is not loop, engine="native")
    linked = latest()
    assert linked.controls and len(linked.runs) == 1
    assert linked.endless == (case is loop)


@pytest.mark.skipif(native is None, reason="the core runs them")
def test_a_short_loop_is_a_small_program_and_a_long_one_is_not() -> None:
    def total(x: Any) -> Any:
        return td.scan(lambda c, r: (td.tanh(c @ w) + r, ()), x[0], x)[0]

    w = td.asarray(data(70, 70))
    for length, is_small in ((5, True), (2000, False)):
        total(td.asarray(data(length, 70))).numpy()
        assert latest().controls and (latest().small is not None) == is_small


@pytest.mark.skipif(native is None, reason="the core runs them")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_what_a_carry_was_before_each_step(length: int, reverse: bool) -> None:
    def step(c: Any, r: Any) -> Any:
        a, b, swapped, other = c
        a = td.tanh(a @ w + r)
        return (a, b + r, other, swapped), (c[0], a, b, c[0], c[2], c[3])

    w, x = td.asarray(data(70, 70)), td.asarray(data(length, 3, 70))
    start = tuple(td.asarray(data(3, 70, seed=k)) for k in range(4))
    y = td.scan(step, start, x, reverse=reverse)
    with td.options(engine="reference"):
        wants = values(td.evaluate(td.scan(step, start, x, reverse=reverse)))
    for got, want in zip(values(td.evaluate(y)), wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
