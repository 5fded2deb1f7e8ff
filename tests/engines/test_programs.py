"""Programs as a user meets them: what is shared, overwritten, counted and told."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import RunError
from treadle.engines.native.engine import Native
from treadle.graph.leaves import cut_of
from treadle.graph.tensor import cut


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native"):
        yield


def test_s13_what_is_used_twice_is_computed_once() -> None:
    x = td.asarray(np.arange(6.0, dtype=np.float32))
    y = td.asarray(np.arange(6.0, dtype=np.float32))
    first, second = x + y, x + y
    z = first * second
    program = td.lower(z)
    assert program.kernels.count(" add(") == 1
    assert program.program.count("result") == 1 and "arena" not in program.program
    assert z.tolist() == [0.0, 4.0, 16.0, 36.0, 64.0, 100.0]
    assert first.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]  # available later


def step(p: Any, opt: Any) -> float:
    return float(opt.step(((p - 1.0) * (p - 1.0)).sum()))


def test_a_step_overwrites_what_nobody_else_sees() -> None:
    p = td.param(init=np.zeros(1000, np.float32))
    opt = td.optim.Adam(lr=0.1)
    step(p, opt)
    place = p.committed.stored.ctypes.data
    for _ in range(3):
        step(p, opt)
        assert p.committed.array.ctypes.data == place


def test_what_a_user_holds_is_never_overwritten() -> None:
    p = td.param(init=np.zeros(1000, np.float32))
    opt = td.optim.SGD(lr=0.1)
    step(p, opt)
    held, view, node = p.numpy(), p.numpy()[:3], p * 2.0
    copies = held.copy(), view.copy()
    step(p, opt)
    assert np.array_equal(held, copies[0]) and np.array_equal(view, copies[1])
    assert np.allclose(node.numpy(), copies[0] * 2.0)
    assert not np.array_equal(p.numpy(), held)


def test_another_graph_keeps_the_old_version() -> None:
    p = td.param(init=np.ones(100, np.float32))
    opt = td.optim.SGD(lr=0.25)
    other = (p * p).sum()
    step(p, opt)
    step(p, opt)
    assert float(other) == 100.0
    (g,) = td.grad(other, [p])
    assert g.tolist() == [2.0] * 100


def test_steps_are_the_same_in_place_or_not() -> None:
    def train(hold: bool) -> bytes:
        rng = np.random.default_rng(0)
        w = td.param(init=rng.standard_normal((20, 30)).astype(np.float32))
        x = td.asarray(rng.standard_normal((7, 20)).astype(np.float32))
        opt, kept = td.optim.Adagrad(lr=0.1), []
        for _ in range(5):
            opt.step(td.tanh(x @ w).sum())
            if hold:
                kept.append(w.numpy())
        return w.numpy().tobytes()

    assert train(False) == train(True)


def test_python_work_does_not_grow_with_the_program() -> None:
    def calls(depth: int) -> tuple[int, int]:
        w = td.asarray(np.eye(512, dtype=np.float32))

        @td.function
        def f(x: Any) -> Any:
            for _ in range(depth):
                x = td.sin(x @ w)
            return x

        x = td.asarray(np.ones((64, 512), np.float32))  # not at once by the core
        for _ in range(2):
            f(x).numpy()
        count = 0

        def tick(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        y = f(x)
        gc.collect()  # nothing of other tests dies while calls are counted
        sys.setprofile(tick)
        try:
            y.numpy()
        finally:
            sys.setprofile(None)
        program = td.latest_program()
        assert program is not None
        return count, program.program.count(" = product")

    calls(1)
    few, some = calls(10)
    many, thousand = calls(1000)
    assert (some, thousand) == (10, 1000)
    assert few == many


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_change_no_bit(threads: int) -> None:
    rng = np.random.default_rng(1)
    x = td.asarray(rng.standard_normal((200, 300)).astype(np.float32))
    w = td.asarray(rng.standard_normal((300, 400)).astype(np.float32))

    def value(count: int) -> bytes:
        with td.options(threads=count):
            y = td.softmax(td.tanh(x @ w), 1)
            (g,) = td.grad((y * y).sum(), [w])
            return bytes(g.numpy().tobytes()) + y.sum(0).numpy().tobytes()

    assert value(1) == value(threads)


def test_a_position_out_of_range_is_told() -> None:
    table = td.asarray(np.ones((5, 3), np.float32))
    with pytest.raises(RunError, match="id 7 is out of range for extent 5"):
        td.embedding(table, [0, 7]).numpy()


def test_fallbacks_are_told() -> None:
    x = td.asarray(np.ones(500, np.float32))
    assert td.lower(td.sort(x)).fallbacks == ("ArgSort",)
    assert td.lower(x + 1.0).fallbacks == ()


CODE = """
import numpy as np, treadle as td
x = td.asarray(np.linspace(-2, 2, 77, dtype=np.float32).reshape(7, 11))
y = td.softmax(x @ x.T, 1) + td.max(x, 1)
asm = td.lower(y).asm
assert "zmm" not in asm, "wide registers"
with td.options(engine="reference"):
    want = (td.softmax(x @ x.T, 1) + td.max(x, 1)).numpy()
assert np.allclose(y.numpy(), want, atol=1e-5)
"""


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64"])
def test_a_lesser_cpu_runs_it_too(cpu: str) -> None:
    env = {**os.environ, "TREADLE_CPU": cpu}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=env)


def test_rows_of_a_table_are_set_where_it_lies() -> None:
    table = td.param(init=np.ones((50, 6), np.float32))
    opt = td.optim.Adagrad(lr=0.5)
    ids = np.array([3, 7, 3, 49])

    def train() -> None:
        opt.step((td.embedding(table, ids) ** 2.0).sum())

    train()
    place = table.committed.stored.ctypes.data
    before = table.numpy().copy()
    train()
    assert table.committed.stored.ctypes.data == place
    program = td.latest_program()
    assert program is not None and program.fallbacks == ()
    changed = np.flatnonzero((table.numpy() != before).any(1))
    assert changed.tolist() == [3, 7, 49]


def test_a_convolution_has_no_fallback_and_finishes_its_bias() -> None:
    x = td.asarray(np.ones((2, 3, 8, 8), np.float32))
    w = td.asarray(np.ones((4, 3, 3, 3), np.float32))
    y = td.relu(td.conv2d(x, w, td.asarray(np.ones(4, np.float32)), padding=1))
    down = td.lower(y)
    assert down.fallbacks == ()
    assert "convolution y[2, 64, 4, 27] add_maximum" in down.program


@pytest.mark.parametrize("meanwhile", ["a part", "the whole"])
@pytest.mark.parametrize("thread", ["computes", "cuts"])
def test_what_is_computed_while_a_program_is_made_of_it_is_no_leaf_of_that(
    meanwhile: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    td.clear_cache()
    x = td.asarray(np.linspace(0.5, 1.5, 7))
    want = np.log1p(np.exp(np.linspace(0.5, 1.5, 7)) * 3.0)

    def graph() -> tuple[td.Tensor, td.Tensor]:
        part = td.exp(x) * 3.0
        return part, td.log1p(part)

    part, whole = graph()
    chosen = part if meanwhile == "a part" else whole
    compiled = Native._linked

    def linked(*arguments: Any) -> Any:
        monkeypatch.undo()  # as another thread may do just now
        td.evaluate(chosen)
        if thread == "cuts":
            cut(chosen, cut_of("other", False))
        return compiled(*arguments)

    monkeypatch.setattr(Native, "_linked", linked)
    np.testing.assert_allclose(whole.numpy(), want, rtol=1e-15)
    for _ in range(3):  # what was compiled serves who has computed nothing yet
        np.testing.assert_allclose(graph()[1].numpy(), want, rtol=1e-15)
        assert "exp" in td.latest_program().kernels
