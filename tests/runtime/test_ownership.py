"""What is handed out is whole and never changes, whoever asks and whenever."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.runtime.threads import Campaign, in_python
from treadle.base.locks import is_mine, locks
from treadle.graph import thread as of_threads
from treadle.graph.frame import top

PACKAGE = str(Path(td.__file__).parent)
ROOM = 20_000
STRIDE = 43  # lines between where one step is interrupted and where the next one is
Call = Callable[[], None]


class Net(td.nn.Module):
    """Two parameters; each step of an optimizer makes both one more."""

    def __init__(self) -> None:
        super().__init__()
        self.p = td.param("p", init=np.zeros(ROOM, np.float32))
        self.q = td.param("q", init=np.zeros(5, np.float32))

    def loss(self) -> Any:
        return -td.sum(self.p) - td.sum(self.q)


def saved(net: Net) -> list[Any]:
    file = io.BytesIO()
    td.save(file, net, format="npz")
    return list(td.load(file.getvalue()).values())


READERS: dict[str, Callable[[Net], list[Any]]] = {
    "numpy": lambda net: [net.p.numpy()],
    "parts": lambda net: [net.p.numpy()[1:], np.asarray(memoryview(net.p.numpy()))],
    "evaluate": lambda net: list(td.evaluate(net.p, net.q)),
    "state": lambda net: list(net.state_dict().values()),
    "saved": saved,
    "graph": lambda net: [(net.p * 1.0).numpy()],
    "graphs": lambda net: list(td.evaluate(net.p * 1.0, net.p + 0.0)),
}


def directly(ask: Call) -> None:
    ask()


def in_another_thread(ask: Call) -> None:
    """While this one stands still."""
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for a thread that waits for it"


def in_a_handler(ask: Call) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: ask())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupted(do: Call, at: int, call: Call) -> bool:
    """Call something at the line of that number that Treadle runs, or the next one that
    is run without a lock; whether there is one."""
    count, called = 0, False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, called
        if event == "line":
            count += 1
            # Who holds a lock does not stand still for long.
            if count >= at and not any(map(is_mine, locks())):
                sys.settrace(None)
                called = True
                call()
        elif not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        return trace

    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(None)
    return called


@pytest.mark.parametrize("threads", [2, 1])
@pytest.mark.parametrize("way", [directly, in_another_thread, in_a_handler])
@pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))
def test_a_reader_at_any_line_of_a_step(read: Any, way: Any, threads: int) -> None:
    """By a plan, in place and not: all arrays are of one version."""
    held: list[tuple[list[Any], list[Any]]] = []
    with in_python(), td.options(threads=threads):
        net, opt, steps = Net(), td.optim.SGD(lr=1.0), 0
        at = 1 + 5 * list(READERS.values()).index(read)

        def step() -> None:
            opt.step(net.loss())

        def ask() -> None:
            arrays = read(net)
            held.append((arrays, [np.array(x) for x in arrays]))

        for _ in range(4):
            step()
        steps, inside = 4, True
        while inside:
            inside = interrupted(step, at, lambda: way(ask))
            steps, at = steps + 1, at + STRIDE
            step()  # in place again
            steps += 1
            if inside:
                values = {float(v) for x in held[-1][1] for v in np.unique(x)}
                assert len(values) == 1 and values <= {steps - 2.0, steps - 1.0}
        assert len(held) > 10
        assert (net.p.numpy() == steps).all() and (net.q.numpy() == steps).all()
    for arrays, copies in held:
        for x, copied in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(x, copied)


def test_a_handler_while_a_step_is_traced_and_compiled() -> None:
    """The first steps of optimizers with functions, normalization and states."""
    held: list[tuple[Any, Any]] = []
    at, inside = 1, True
    while inside:
        w = td.param("w", init=np.full(6, 0.5, np.float32))
        norm = td.nn.BatchNorm1d(6)
        opt = td.optim.Adam(lr=0.5)
        cell = td.function(lambda x, w=w: td.tanh(x * w) * 2)
        x = td.asarray(np.arange(12.0, dtype=np.float32).reshape(2, 6))

        def ask(w: Any = w, norm: Any = norm) -> None:
            found = [w.numpy(), norm.running_mean.numpy(), (w * 2.0).numpy()]
            held.extend((x, np.array(x)) for x in found)

        def step(w: Any = w, norm: Any = norm, opt: Any = opt, cell: Any = cell,
                 x: Any = x) -> None:  # fmt: skip
            opt.step(td.sum(cell(norm(x)) ** 2))

        inside = interrupted(step, at, lambda ask=ask: in_a_handler(ask))
        mean = norm.running_mean.numpy()
        step()
        assert not np.array_equal(norm.running_mean.numpy(), mean)
        assert int(opt.count) == 2
        at += 1999
    assert len(held) > 15
    for x, copied in held:
        np.testing.assert_array_equal(x, copied)


def run(call: Call) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def add(v: Any) -> None:
    v += 1.0


def set_item(v: Any) -> None:
    v[0] = 7.0


ASSIGN: dict[str, tuple[Any, list[float]]] = {
    "an expression": (lambda v: v.assign(v + 1), [2.0, 3.0]),
    "a constant": (lambda v: v.assign(5.0), [5.0, 5.0]),
    "in place": (add, [2.0, 3.0]),
    "an item": (set_item, [7.0, 2.0]),
    "a part": (lambda v: td.fill(v[1:], 9.0), [1.0, 9.0]),
    "read inside": (lambda v: v.assign(v * 2).numpy(), [2.0, 4.0]),
    "several": (lambda v: (v.assign(v + 1), v.assign(v * 2)), [4.0, 6.0]),
}
SEE: dict[str, Callable[[Any], Any]] = {
    "value": lambda v: v.numpy(),
    "expression": lambda v: (v + 0.0).numpy(),
    "function": lambda v: td.function(lambda x: x + v)(0.0).numpy(),
    "computation": lambda v: td.computation(v * 1.0)(),
    "evaluate": lambda v: td.evaluate(v, v)[1],
    "copy": lambda v: np.array(v),
}


@pytest.mark.parametrize("see", SEE.values(), ids=list(SEE))
@pytest.mark.parametrize(("assign", "expected"), ASSIGN.values(), ids=list(ASSIGN))
def test_what_a_thread_assigns_is_seen_by_all(
    assign: Any, expected: list[float], see: Any
) -> None:
    v = td.Variable([1.0, 2.0])
    run(lambda: assign(v))
    assert np.asarray(see(v)).tolist() == expected
    seen: list[Any] = []
    v = td.Variable([1.0, 2.0])
    assign(v)
    run(lambda: seen.append(np.asarray(see(v)).tolist()))
    assert [*seen, v.tolist()] == [expected, expected]


def test_statistics_and_gradients_of_a_thread_are_seen_by_all() -> None:
    norm, w = td.nn.BatchNorm1d(2), td.param("w", init=1.0)
    run(lambda: norm(td.asarray([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_allclose(norm.running_mean.numpy(), [0.2, 0.3], rtol=1e-6)
    run(lambda: (w * 2.0).backward())
    run(lambda: (w * 3.0).backward())
    assert w.grad is not None and float(w.grad) == 5.0


def test_statistics_are_of_one_version() -> None:
    """Whatever another thread makes of them in the middle."""
    x, at, inside = td.asarray(np.full((4, 2), 2.0, np.float32)), 1, True
    while inside:
        norm = td.nn.BatchNorm1d(2, momentum=0.5)

        def forward(norm: Any = norm) -> None:
            norm(x)

        inside = interrupted(forward, at, lambda call=forward: run(call))
        assert norm.running_mean.tolist() in ([1.0, 1.0], [1.5, 1.5])
        at += 17


def test_a_lock_around_reading_and_assigning_loses_nothing() -> None:
    v, guard, turns = td.Variable(0.0), threading.Lock(), 60

    def count(reads: bool) -> None:
        nonlocal v
        for _ in range(turns):
            with guard:
                v += 1.0
            if reads:
                float(v)

    threads = [threading.Thread(target=count, args=(k % 2 == 0,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert float(v) == 4 * turns


@pytest.mark.parametrize("by_plan", [True, False])
def test_a_step_says_what_was_assigned_before_it_and_keeps_what_comes_later(
    by_plan: bool,
) -> None:
    net, opt = Net(), td.optim.SGD(lr=1.0)
    for _ in range(4):
        opt.step(net.loss())
    at, inside, kept = 1, True, 0
    while inside:
        before = float(net.p.numpy()[0])
        opt = opt if by_plan else td.optim.SGD(lr=1.0)

        def change() -> None:
            run(lambda: (net.p.assign(net.p + 100.0), net.p.numpy()))

        try:
            inside = interrupted(lambda: opt.step(net.loss()), at, change)
        except td.StateError as error:
            assert "was changed since" in str(error)
            gained = 100.0
        else:
            gained = 100.0 * inside + 1.0
            kept += inside
        assert (net.p.numpy() == before + gained).all()
        at += STRIDE
    assert kept


def test_threads_that_do_everything_at_once() -> None:
    """A second of the campaign in threads.py, which is to run for longer by hand."""
    assert not Campaign(1.0, seed=1).run()


def test_others_assign_while_it_is_asked_who_else_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p, *rest = [td.param(f"p{k}", init=0.0) for k in range(9)]
    others: list[Any] = []
    mine = threading.current_thread()

    def slow(x: Any) -> int:
        # As if this thread had lost its turn here.
        if threading.current_thread() is mine and len(others) < len(rest):
            others.append(rest[len(others)])
            assigns = threading.Thread(target=others[-1].assign, args=(1.0,))
            assigns.start()
            assigns.join()
        return id(x)

    p.assign(2.0)
    with monkeypatch.context() as patch:
        patch.setattr(of_threads, "native", None)  # which nobody comes between
        patch.setattr(of_threads, "id", slow, raising=False)
        top().alone()
    assert others and all(float(q) == 1.0 for q in others) and float(p) == 2.0


def test_what_two_threads_assign_and_fail_to_carry_out_is_gone() -> None:
    """The first that fails is under what the second assigned, and is not seen again
    where that fails, too."""
    v, begun = td.Variable(1.0), [threading.Event() for _ in range(3)]

    def refuse(x: Any) -> Any:
        raise ArithmeticError

    def work(k: int) -> None:
        begun[k].wait(60)
        v.assign(td.py_function(refuse)(v))
        begun[k + 1].set()
        begun[2].wait(60)
        if k:
            threads[0].join()
        with pytest.raises(td.TreadleError):
            float(td.ones(()) + 1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    begun[0].set()
    for thread in threads:
        thread.join()
    assert v.node() is v.committed and float(v) == 1.0


# -- signal handlers at any point ------------------------------------------------------


def _interrupted(
    work: Callable[[], object], answer: Callable[[], object], within: str, at: int
) -> bool:
    """Do some work with a signal handler run before the bytecode of that number in a
    file; whether there are so many."""
    count = 0

    def handler(*_: Any) -> None:
        answer()

    def traced(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith(within):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                sys.settrace(None)
                handler()
        return traced

    before, tracer = signal.signal(signal.SIGUSR1, handler), sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGUSR1, before)
    return count >= at


@pytest.mark.parametrize(
    ("spelling", "within"),
    [("step", "runtime/store.py"), ("backward", "runtime/again.py"),
     ("rows", "native/engine.py")],
)  # fmt: skip
def test_what_a_signal_handler_assigns_and_reads_is_whole(
    spelling: str, within: str
) -> None:
    net = td.nn.Sequential(td.nn.Linear(3, 3), td.nn.BatchNorm1d(3))
    optimizer, x = td.optim.Adam(net.parameters()), np.eye(3, dtype=np.float32)
    cell, count = td.nn.Linear(3, 3), td.Variable(0)
    many, total = td.optim.SGD(cell.parameters(), lr=0.01), 0

    def tree(depth: int) -> Any:
        if not depth:
            return td.tanh(cell(td.asarray(x[0])))
        return td.tanh(cell(tree(depth - 1)) + tree(depth - 1))

    def work() -> None:
        if spelling == "step":
            optimizer.load_state_dict(optimizer.state_dict())
            optimizer.step((net(x) ** 2).sum())
        elif spelling == "backward":
            optimizer.zero_grad()
            (net(x) ** 2).sum().backward()
            optimizer.step()
        else:
            many.step(td.stack([tree(2).sum() for _ in range(3)]).sum())

    def answer() -> None:
        nonlocal total
        total += 1
        count.assign(count + 1)
        net.state_dict()
        tree(2).numpy()

    for _ in range(4):
        work()
    at = 1
    while at < 300 and _interrupted(work, answer, within, at):
        assert int(count) == total, at
        at += 1
    assert at > 10


def test_a_plan_is_of_what_was_looked_at_whatever_a_handler_carries_out() -> None:
    for at in range(1, 120, 3):
        v, count, hits = td.Variable(0.0), td.Variable(0.0), 0

        def work(v: Any = v) -> None:
            for _ in range(5):
                v.assign(v + 1)
                float(v * 1.0)

        def answer(v: Any = v, count: Any = count) -> None:
            nonlocal hits
            hits += 1
            count.assign(count + 1)
            assert float(v) >= 0 and float(count) == hits

        assert _interrupted(work, answer, "runtime/again.py", at)
        work()
        assert float(v) == 10 and float(count) == hits == 1, at
