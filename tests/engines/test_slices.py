"""Slices of a loop's rows, which threads take through all iterations."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.core import native
from treadle.engines.base import engine
from treadle.engines.native.execution import control
from treadle.engines.native.execution.linked import Linked
from treadle.program import slices

R, H, T = 11, 20, 40  # rows do not come out even, nothing is a multiple of a vector
pytestmark = pytest.mark.skipif(native is None, reason="the core runs them")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Small loops have slices, too."""
    monkeypatch.setattr(slices, "SLICE", 2)
    monkeypatch.setattr(slices, "PIECE", 0)
    monkeypatch.setattr(control, "WORTH", 0)
    with td.options(engine="native", autobatch=False, seed=3):
        td.clear_cache()
        yield


def latest() -> Linked:
    found: Linked = engine("native").latest_linked()  # type: ignore[attr-defined]
    return found


def shares() -> list[int]:
    """In how many slices each loop of the latest program runs."""
    return [x.shares for x in latest().loops.values()]


def data(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return td.asarray((values * 0.3).astype(np.float32))


class Weights:
    """Weights of the bodies below, and rows for each iteration."""

    def __init__(self) -> None:
        self.w, self.v = td.param("w", init=data(H, H)), td.param("v", init=data(H, H))
        self.b = td.param("b", init=data(H, seed=1))
        self.table = td.param("t", init=data(H, H, seed=2))
        self.x = data(T, R, H, seed=3)
        self.cell = td.nn.LSTMCell(H, H)


def over(body: Callable[[Any, Any], Any], *more: Any, reverse: bool = False) -> Any:
    """The carry after all rows of `x`, and what it was on the way."""
    start = (data(R, H, seed=4), *more)
    return lambda x: td.scan(body, start if more else start[0], x, reverse=reverse)


def dense(m: Weights) -> Any:
    return over(lambda c, r: (td.tanh(c @ m.w + r @ m.v + m.b), c))(m.x)


def transposed(m: Weights) -> Any:
    """Its products copy panels of weights to scratch memory, each of its own size."""

    def body(c: Any, r: Any) -> Any:
        c = td.tanh(c @ m.w.T + r)
        return c - c[:, :7] @ m.v[:, :7].T, c

    return over(body, reverse=True)(m.x)


def gates(m: Weights) -> Any:

    def body(c: Any, r: Any) -> Any:
        h, s = m.cell(r + m.b, c)
        return (h, s), h @ m.w

    return over(body, data(R, H, seed=5))(m.x)


def by_row(m: Weights) -> Any:
    """Sums, softmax and parts along each row, and a matrix for each row."""

    def body(c: Any, r: Any) -> Any:
        x, each = c
        y = td.softmax(x * m.b, axis=-1) - x.mean(axis=-1, keepdims=True)
        y = td.concat([y[:, 5:], r[:, :5]], axis=-1)
        z = (each @ y.reshape(R, H, 1)).reshape(R, H)
        return (td.tanh(y + z), each * 0.99), y[:, ::-1]

    return over(body, data(R, H, H, seed=6))(m.x)


def passing(m: Weights) -> Any:
    """Carries that change places, one that stays, rows that are given back."""

    def body(c: Any, r: Any) -> Any:
        return (c[1] * 0.9, c[0] + r, c[2]), (r, c[2], c[0])

    return over(body, data(R, 3, H)[:, 0] + m.b, data(R, seed=8))(m.x)


def looked_up(m: Weights) -> Any:
    def body(c: Any, r: Any) -> Any:
        x, k = c
        return (td.tanh(x + m.table[k] * r), (k * 3 + 1) % H), x

    return over(body, td.asarray(np.arange(R, dtype=np.int32)))(m.x)


def drawn(m: Weights) -> Any:
    def body(c: Any, r: Any) -> Any:
        return td.tanh(c @ m.w) + 0.1 * td.random.normal((R, H)) + r, c

    return over(body)(m.x)


CASES = [dense, transposed, gates, by_row, passing, looked_up, drawn]


def outcome(case: Callable[[Weights], Any]) -> list[Any]:
    """Values and gradients, with the same draws."""
    with td.options(seed=7):
        return _outcome(case)


def _outcome(case: Callable[[Weights], Any]) -> list[Any]:
    m = Weights()
    leaves, _ = td.base.trees.flatten(case(m))
    total = sum((x * x).sum() for x in leaves if x.dtype.kind == "f")
    weights = [m.w, m.v, m.b, m.table]
    return td.evaluate([*leaves, *td.grad(total, weights, unused="zero")])


@pytest.mark.parametrize("mode", ["fast", "poison", "guard"])
@pytest.mark.parametrize("case", CASES, ids=[c.__name__ for c in CASES])
def test_slices_change_no_bit(
    case: Any, mode: str, take: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    take(1)
    wanted = [np.array(x) for x in outcome(case)]
    with td.options(engine="reference"):
        meant = outcome(case)
    for x, y in zip(wanted, meant, strict=True):
        np.testing.assert_allclose(x, y, 0, 1e-4 * max(float(np.abs(y).max()), 1))
    for threads in (2, 4):
        take(threads)
        with td.options(arena=mode):
            found = outcome(case)
        assert max(shares()) == 4
        for x, y in zip(found, wanted, strict=True):
            assert x.tobytes() == y.tobytes()


def crossing(kind: str, c: Any, m: Weights) -> Any:
    """A value to which other rows contribute."""
    values: dict[str, Callable[[], Any]] = {
        "sum over rows": lambda: c + c.mean(axis=0),
        "running sum": lambda: 0.1 * td.cumulative_sum(c, axis=0),
        "one row for all": lambda: c + c[0],
        "rows that move": lambda: td.concat([c[1:], c[:1]]),
        "reversed rows": lambda: td.flip(c, axis=0),
        "products of rows": lambda: td.tanh(c @ c.T) @ m.x[0],
        "order of rows": lambda: td.sort(c, axis=0),
        "rows by position": lambda: c[td.asarray(np.arange(R)[::-1].copy())],
        "mixed columns": lambda: c.reshape(H, R).T + c,
    }
    return values[kind]()


KINDS = (
    "sum over rows", "running sum", "one row for all", "rows that move",
    "reversed rows", "products of rows", "order of rows", "rows by position",
    "mixed columns",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_see_each_other_stay_together(
    kind: str, take: Callable[[int], None]
) -> None:
    m = Weights()

    def body(c: Any, r: Any) -> Any:
        return td.tanh(crossing(kind, c, m) @ m.w) + r, c

    take(4)
    found = td.evaluate(over(body)(m.x))
    assert shares() == [1]
    with td.options(engine="reference"):
        meant = td.evaluate(over(body)(m.x))
    for x, y in zip(found, meant, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)


def test_a_program_tells_of_its_slices() -> None:
    m = Weights()
    low = td.lower(over(lambda c, r: (td.tanh(c @ m.w) + r, c))(m.x)[0])
    assert f"{R} rows in 4 slices:" in low.program


def test_small_and_large_iterations_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PIECE", 1 << 40), ("LARGE", 1), ("NEAR", H * H)):
        with monkeypatch.context() as patch:
            patch.setattr(slices, name, value)
            td.evaluate(dense(Weights()))
            assert shares() == [1]
        td.clear_cache()
    td.evaluate(dense(Weights()))
    assert shares() == [4]


def test_other_sizes_have_slices_of_their_own(take: Callable[[int], None]) -> None:
    m = Weights()

    def run(length: int, rows: int) -> list[Any]:
        x = data(length, rows, H, seed=length)
        y = td.scan(lambda c, r: (td.tanh(c @ m.w + r), c), x[0] * 0.5, x)[1]
        return td.evaluate([y, *td.grad((y * y).sum(), [m.w])])

    sizes = [(9, 8), (12, 13), (20, 5), (7, 21)]
    take(2)
    found = []
    for size in sizes:
        found.append([np.array(x) for x in run(*size)])
        rows = size[1]
        assert {*shares()} == {2 + 2 * (rows > 7) + 4 * (rows > 15)}
    for size, values in zip(sizes, found, strict=True):
        td.clear_cache()
        take(1)
        for x, y in zip(run(*size), values, strict=True):
            assert x.tobytes() == y.tobytes()


def test_a_wrong_position_in_a_slice_is_told(take: Callable[[int], None]) -> None:
    m, start = Weights(), np.zeros(R, np.int32)
    start[R - 1] = 1
    take(4)

    def body(k: Any, r: Any) -> Any:
        return k * 3, m.table[k] + r

    y = td.scan(body, td.asarray(start), m.x)[1]
    with pytest.raises(td.TreadleError, match=r"test_slices\.py"):
        y.numpy()
    assert np.isfinite(td.evaluate(dense(m))[0]).all()


def test_an_interrupt_ends_slices(take: Callable[[int], None]) -> None:
    m, x = Weights(), data(R, H)
    length = 1 << 34
    take(2)
    y = td.scan(lambda c, _: (td.tanh(c @ m.w), ()), x, None, length=length)[0]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.7, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert shares() == [4]
    assert np.isfinite(td.evaluate(dense(m))[0]).all()
