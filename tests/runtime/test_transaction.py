"""Transactions: after an exception, an interrupt or NaN, all is as it was before."""

from __future__ import annotations

import asyncio
import gc
import linecache
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.options import modes
from treadle.graph.carried import Carried
from treadle.graph.frame import top
from treadle.graph.thread import Frame
from treadle.nn.functional import cross_entropy


@pytest.fixture(autouse=True)
def interrupts_are_raised() -> Iterator[None]:
    """Also where whoever started the tests has them ignored, as shells do behind &."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Training:
    """A small network in training; all of its state as bytes."""

    def __init__(self) -> None:
        with td.options(seed=3):
            self.net = td.nn.Sequential(
                td.nn.Linear(5, 8),
                td.nn.BatchNorm1d(8),
                td.nn.Dropout(0.3),
                td.nn.Linear(8, 3),
            )
        self.table = td.lookup("table", (7, 5), init=0.5)
        self.opt = td.optim.Adam(lr=0.05, clip_norm=1.0)
        self.steps = 0

    def step(self) -> float:
        draws = np.random.default_rng(self.steps)
        ids = draws.integers(0, 7, 6)
        loss = cross_entropy(self.net(td.rows(self.table, ids)), ids % 3)
        found = float(self.opt.step(loss))
        self.steps += 1
        return found

    def state(self) -> dict[str, bytes]:
        own = {**self.net.state_dict(), "table": self.table.numpy()}
        own |= {f"opt/{k}": v for k, v in self.opt.state_dict().items()}
        return {name: np.asarray(array).tobytes() for name, array in own.items()}


def bits(*variables: td.Variable) -> list[bytes]:
    return [v.numpy().tobytes() for v in variables]


@pytest.mark.parametrize("engine", ["native", "reference", "device"])
def test_an_exception_restores_everything(engine: str) -> None:
    with td.options(engine=engine, seed=1):
        run, twin = Training(), Training()
        run.step(), run.step()
        before = run.state()
        with pytest.raises(ValueError, match="too late"), td.transaction():
            run.step(), run.step()
            raise ValueError("too late")
        assert run.state() == before
        # Random numbers come as if nothing had been drawn: training goes on alike.
        run.steps = 2
        losses = [run.step() for _ in range(2)]
    with td.options(engine=engine, seed=1):
        expected = [twin.step() for _ in range(4)]
    assert losses == expected[2:] and run.state() == twin.state()


def test_the_first_step_is_undone_with_the_states_it_made() -> None:
    run = Training()
    before = {k: v for k, v in run.state().items() if not k.startswith("opt/")}
    with pytest.raises(KeyError), td.transaction():
        run.step()
        raise KeyError
    state = run.state()
    assert {k: v for k, v in state.items() if not k.startswith("opt/")} == before
    moments = [v for k, v in state.items() if k.startswith("opt/") and "/" in k[4:]]
    assert moments and all(not any(v) for v in moments)
    assert int(run.opt.count) == 0


def test_nothing_is_lost_without_an_exception() -> None:
    with td.options(seed=1):
        run = Training()
        with td.transaction():
            run.step()
            with td.transaction():
                run.step()
            run.step()
    with td.options(seed=1):
        twin = Training()
        for _ in range(3):
            twin.step()
    assert run.state() == twin.state()


def _interrupted_at(event: int, body: Any) -> bool:
    """Run a function with a real SIGINT at some line of it; whether it came."""
    left = [event]

    def trace(frame: Any, kind: str, argument: Any) -> Any:
        left[0] -= 1
        # No signal comes between a block and the exit of its `with`; a trace does.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if left[0] <= 0 and not line.lstrip().startswith("with "):
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        body()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupt_at_any_point_leaves_the_weights_as_they_were() -> None:
    draws = random.Random(7)
    with td.options(seed=1):
        run, twin = Training(), Training()
        run.step()
        events = [0]

        def count(frame: Any, kind: str, argument: Any) -> Any:
            events[0] += 1
            return count

        def body() -> None:
            with td.transaction():
                run.step()

        sys.settrace(count)
        body()
        sys.settrace(None)
        # The first, the last, and others: in the graph, the engine, the commits.
        places = [1, 2, *range(events[0] - 30, events[0], 3)]
        places += [draws.randrange(1, events[0]) for _ in range(40)]
        done = 2
        for place in places:
            run.steps, before = done, run.state()
            came = _interrupted_at(place, body)
            if run.state() != before:  # it came when the block was over
                done += 1
            elif not came:
                raise AssertionError("nothing was done, and nobody was told")
            assert run.opt.count.item() == done
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert done < len(places) / 2  # most of them came inside
    with td.options(seed=1):
        for _ in range(done):
            twin.step()
    assert run.state() == twin.state()


@pytest.fixture
def _without_collector() -> Iterator[None]:
    """An interrupt within a callback of the collector, as hypothesis has, is lost."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collector")
def test_ctrl_c_from_outside_is_raised_and_undone() -> None:
    w = td.param("w", init=np.zeros(4))
    opt = td.optim.SGD(lr=0.1, momentum=0.9)
    opt.step(((w - 1.0) ** 2).sum())
    before, state = bits(w), opt.state_dict()
    for k in range(5):
        timer = threading.Timer(0.01 + 0.007 * k, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt), td.transaction():
            timer.start()
            while True:
                opt.step(((w - 1.0) ** 2).sum())
        timer.join()
        assert bits(w) == before
        assert all(np.array_equal(opt.state_dict()[k], v) for k, v in state.items())


def test_values_that_are_not_finite_are_refused_where_asked_for() -> None:
    w, v = td.param("w", init=1.0), td.Variable(1.0, name="v")
    with pytest.raises(td.RunError, match="assigned to w is not finite"):  # noqa: SIM117
        with td.transaction(finite=True):
            v.assign(5.0)
            td.optim.SGD(lr=float("inf")).step(w * w)
    assert (float(w), float(v)) == (1.0, 1.0)
    with td.transaction():
        w.assign(float("nan"))
    assert np.isnan(float(w))
    with td.transaction(finite=True):  # it was not assigned in here
        v.assign(2.0)
    assert float(v) == 2.0


def test_nested_transactions() -> None:
    w, v = td.Variable(1.0), td.Variable(1.0)
    with td.transaction():
        w.assign(2.0)
        with pytest.raises(ValueError), td.transaction():
            w.assign(3.0), v.assign(3.0)
            raise ValueError
        assert (float(w), float(v)) == (2.0, 1.0)
    assert float(w) == 2.0
    with pytest.raises(ValueError), td.transaction():
        with td.transaction():
            w.assign(9.0)
        assert float(w) == 9.0
        raise ValueError
    assert float(w) == 2.0


def test_what_was_pending_before_stays() -> None:
    w = td.Variable(1.0)
    w += 1
    with pytest.raises(ValueError), td.transaction():
        w += 10  # never run
        raise ValueError
    assert float(w) == 2.0


def test_a_failing_update_takes_all_others_with_it() -> None:
    w, v = td.Variable(1.0), td.Variable(np.ones(3))
    with pytest.raises(td.RunError), td.transaction():
        w.assign(2.0), float(w)
        v.assign(td.py_function(lambda x: 1 // 0)(v))
    assert float(w) == 1.0 and v.tolist() == [1.0] * 3


def test_gradients_and_placeholders_are_restored() -> None:
    w, p = td.param("w", init=2.0), td.placeholder(name="p")
    (w * w).backward()
    with pytest.raises(ValueError), td.transaction():
        (w * w).backward()
        p.assign(3.0), float(p)
        raise ValueError
    assert w.grad is not None and float(w.grad) == 4.0
    with pytest.raises(td.UnboundError):
        float(p)


def test_scopes_left_open_are_closed() -> None:
    inner = td.no_grad()
    with pytest.raises(ValueError), td.transaction():
        inner.__enter__()
        raise ValueError
    x = td.param("x", init=2.0)
    assert float(td.grad(x * x, [x])[0]) == 4.0
    inner.__exit__(None, None, None)  # as where it is forgotten
    assert modes.get().no_grad == 0
    assert float(td.grad(x * x, [x])[0]) == 4.0


def test_what_another_thread_has_assigned_stays() -> None:
    mine, theirs, both = (td.Variable(1.0, name=n) for n in ("mine", "theirs", "both"))

    def work() -> None:
        for v in (theirs, both):
            v.assign(7.0), float(v)

    with pytest.raises(ValueError) as told, td.transaction():
        mine.assign(2.0), both.assign(2.0), float(mine)
        thread = threading.Thread(target=work)
        thread.start(), thread.join()
        raise ValueError
    assert [float(v) for v in (mine, theirs, both)] == [1.0, 7.0, 7.0]
    assert "both" in told.value.__notes__[0]


def test_threads_have_transactions_of_their_own() -> None:
    variables = [td.Variable(float(k)) for k in range(4)]

    def work(v: td.Variable, fails: bool) -> None:
        for _ in range(20):
            try:
                with td.transaction():
                    v += 1
                    float(v)
                    if fails:
                        raise ValueError
            except ValueError:
                pass

    threads = [
        threading.Thread(target=work, args=(v, k % 2)) for k, v in enumerate(variables)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(v) for v in variables] == [20.0, 1.0, 22.0, 3.0]


def test_what_is_not_written_is_not_copied() -> None:
    v, w = td.Variable(np.zeros(100_000)), td.Variable(0.0)
    array, other = v.committed.stored, w.committed.stored
    with pytest.raises(ValueError), td.transaction():
        w += 1
        float(w)
        raise ValueError
    assert v.committed.stored is array and w.committed.stored is other


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (lambda t: td.function(lambda: t.__enter__())(), "traced once"),
        (lambda t: (t.__enter__(), t.__enter__()), "open already"),
    ],
)
def test_wrong_blocks_are_refused(block: Any, says: str) -> None:
    outer = td.transaction()
    try:
        with pytest.raises(td.StateError, match=says):
            block(outer)
    finally:
        if outer._open:
            outer.__exit__(None, None, None)


def failing(assign: Any, then: Any = lambda: None) -> Any:
    """Assign in a block, do something in another thread, and fail."""
    with pytest.raises(KeyError), td.transaction():
        assigned = assign()
        thread = threading.Thread(target=then)
        thread.start(), thread.join()
        raise KeyError
    return assigned


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_who_assigns_and_not_who_carries_out_says_whose_it_is(
    asks: bool, ended: bool
) -> None:
    v, w, p = td.Variable(1.0), td.Variable(1.0), td.param(init=1.0)
    told, done = threading.Event(), threading.Event()

    def change() -> None:
        w.assign(w + 4.0), p.assign(5.0)
        told.set()
        done.wait(0 if ended else 20)

    thread = threading.Thread(target=change)
    with pytest.raises(KeyError), td.transaction():
        v.assign(v + 1.0)
        thread.start()
        thread.join() if ended else told.wait()
        if asks:
            td.optim.SGD(lr=1.0).step(p * w)
            assert (float(p), float(w), float(v)) == (0.0, 5.0, 2.0)
        else:
            w.assign(w + 1.0)
        raise KeyError
    assert (float(v), float(w), float(p)) == (1.0, 5.0, 5.0)
    done.set(), thread.join()


def test_what_another_thread_has_carried_out_is_undone() -> None:
    v = td.Variable(1.0)
    failing(lambda: v.assign(v + 1.0), lambda: float(v))
    assert float(v) == 1.0


def test_an_expression_of_what_was_dropped_does_not_bring_it_back() -> None:
    v, w = td.Variable(1.0), td.Variable(1.0)
    y = failing(lambda: (v.assign(v + 1.0), v * 3.0)[1], lambda: w.assign(v * 2.0))
    assert (float(y), float(w), float(v)) == (6.0, 4.0, 1.0)


def test_tasks_have_transactions_of_their_own() -> None:
    v, w = td.Variable(1.0), td.Variable(1.0)

    async def fail() -> None:
        with pytest.raises(KeyError), td.transaction():
            v.assign(2.0)
            await asyncio.sleep(0.02)
            raise KeyError

    async def change() -> None:
        await asyncio.sleep(0)
        w.assign(2.0)

    async def both() -> None:
        await asyncio.gather(fail(), change())

    asyncio.run(both())
    assert (float(v), float(w)) == (1.0, 2.0)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("owner", [Carried, Frame])
def test_an_interrupt_once_something_was_carried_out(
    owner: Any, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was assigned is committed then, and seen as such, or goes back."""
    v, w = td.Variable(1.0), td.Variable(2.0)
    name = "leave" if owner is Carried else "forget"
    whole, left = getattr(owner, name), [1]

    def interrupted(self: Any, *given: Any) -> Any:
        if left.pop() if left else False:
            raise KeyboardInterrupt
        return whole(self, *given)

    monkeypatch.setattr(owner, name, interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        td.transaction() if inside else nullcontext(),
    ):
        v.assign(v * 3.0)
        w.numpy()
    assert not top().versions and v.item() == (1.0 if inside else 3.0)


def test_short_steps_keep_no_thread_from_the_lock() -> None:
    """Another thread gets on beside a loop of steps that are waited for."""
    w = td.param("w", init=np.zeros(4))
    opt, turns, over = td.optim.SGD(lr=0.1, momentum=0.9), [0], threading.Event()

    def count() -> None:
        while not over.wait(0.001):
            turns[0] += 1

    thread = threading.Thread(target=count)
    with td.transaction():
        opt.step(((w - 1.0) ** 2).sum())
        thread.start()
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            opt.step(((w - 1.0) ** 2).sum())
    over.set()
    thread.join()
    assert turns[0] > 50  # of some 400 where each gets its turn
