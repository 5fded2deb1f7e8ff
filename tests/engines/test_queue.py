"""Runs that are queued: in order, the same bits, beside others, to the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from tests.core.twins import needs_core
from tests.engines.test_pool import ROOT, Steps, ends_well, failing_after, work
from treadle.engines.native.codegen.builder import I64, PTR, Builder
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.execution.pool import ROOM, Pool, Ticket, arrived
from treadle.graph.resident import Future

pytestmark = needs_core  # without it nothing is queued


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[int, Pool]]:
    """Pools of 2, 3 and 4 threads, whatever the machine has."""
    made = {n: Pool(n) for n in (2, 3, 4)}
    yield made
    for one in made.values():
        one._close()


class Queued:
    """Runs on a pool that are not waited for; what they need lives as long."""

    def __init__(self, one: Pool) -> None:
        assert one.helped
        self.pool = one
        self.told: list[tuple[int, bool]] = []

    def add(self, steps: Steps, *more: Any) -> Ticket:
        rows, table = np.array(steps.rows, np.int64), np.array(steps.table, np.int64)
        number = len(self.told)

        def done(well: bool, held: Any = (rows, table, steps)) -> None:
            self.told.append((number, well))

        pointers = table.ctypes.data, steps.status.ctypes.data
        place = rows.ctypes.data, len(rows)
        return self.pool.queue(*place, *pointers, done, *more)


def later(one: Pool, turns: int) -> bytes:
    """As `work`, a run queued for each two steps."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(3000).astype(np.float32) for _ in range(2))
    queued = Queued(one)
    for turn in range(turns):
        steps = Steps()
        steps.add("affine", 3000, 64 if turn % 3 else 5000, x, y)
        steps.add("affine", 3000, 200, y, x)
        queued.add(steps)
    arrived()
    assert [well for _, well in queued.told] == [True] * turns
    return x.tobytes() + y.tobytes()


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("turns", [1, ROOM, 3 * ROOM + 1])
def test_runs_are_done_in_order(
    pools: dict[int, Pool], threads: int, turns: int
) -> None:
    for _ in range(20):
        assert later(pools[threads], turns) == work(pools[2], turns)


def test_a_run_waits_for_what_is_queued(pools: dict[int, Pool]) -> None:
    x, y = np.ones(50_000, np.float32), np.zeros(50_000, np.float32)
    wanted = x.copy()
    for turn in range(30):
        wanted = wanted * np.float32(0.999) + y
        steps = Steps()
        steps.add("affine", len(x), 256, x, y)
        if turn % 3:
            Queued(pools[3]).add(steps)
        else:
            steps.run(pools[2])  # of another pool
    arrived()
    np.testing.assert_allclose(x, wanted, rtol=1e-5)


def test_one_run_is_waited_for_and_not_those_after_it(pools: dict[int, Pool]) -> None:
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    told: list[str] = []
    tickets = []
    assert pools[2].helped
    for name, turns in (("short", 1), ("long", 20_000)):
        steps = Steps()
        for _ in range(turns):
            steps.add("affine", len(x), len(x), x, y)
        rows, table = np.array(steps.rows, np.int64), np.array(steps.table, np.int64)

        def done(well: bool, name: str = name, held: Any = (rows, table)) -> None:
            told.append(name)

        pointers = table.ctypes.data, steps.status.ctypes.data
        tickets.append(pools[2].queue(rows.ctypes.data, len(rows), *pointers, done))
    tickets[0].wait()
    state = pools[2]._state
    assert state is not None
    late = state.over >= tickets[1].number  # where others had the processors
    assert told == ["short"] or (late and told == ["short", "long"])
    tickets[0].wait()
    tickets[1].wait()
    assert told == ["short", "long"]


def test_what_follows_a_failure_is_left_out(pools: dict[int, Pool]) -> None:
    count, where, who = (np.zeros(100, np.int64) for _ in range(3))
    for _ in range(5):
        count[:] = 0
        queued = Queued(pools[2])
        for number in range(4):
            steps = Steps()
            steps.add("visit", 100, 10, count, where, who)
            if number == 1:
                steps.add("fail", 9, 9, steps.status)
            queued.add(steps)
        with pytest.raises(td.RunError, match="out of range"):
            arrived()
        assert [well for _, well in queued.told] == [True, False, False, False]
        assert (count == 2).all()
        arrived()
        assert work(pools[2]) == work(pools[3])


def test_what_is_left_of_the_queue_goes_on_without_a_caller() -> None:
    one = Pool(2)  # whose worker has nothing to do yet, and sleeps
    assert one.helped
    x, y = np.ones(400_000, np.float32), np.zeros(400_000, np.float32)
    try:
        for _ in range(20):
            queued, tickets = Queued(one), []
            for turns in (30, 1):
                steps = Steps()
                for _ in range(turns):
                    steps.add("affine", len(x), len(x), x, y)
                tickets.append(queued.add(steps))
            tickets[0].wait()
            state = one._state
            assert state is not None
            end = time.monotonic() + 20
            while state.over < tickets[1].number and time.monotonic() < end:
                time.sleep(0.001)
            assert state.over == tickets[1].number
            tickets[1].wait()
    finally:
        one._close()


def test_a_failure_just_after_what_is_waited_for_is_told(
    pools: dict[int, Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = Queued(pools[2])
    state = pools[2]._state

    class Behind:
        """At the first look the run is not over yet, however quick the worker was."""

        looks = 0
        queued = property(lambda self: state.queued)
        failed = property(
            lambda self: state.failed,
            lambda self, status: setattr(state, "failed", status),
        )

        @property
        def over(self) -> int:
            self.looks += 1
            return int(state.over) if self.looks > 1 else 0

        def wait(self, number: int) -> None:
            """The other run is over, too, before anybody has looked."""
            state.wait(number)
            state.wait(state.queued)

    fine, steps = Steps(), Steps()
    steps.add("fail", 9, 9, steps.status)
    first, _, after = (queued.add(x) for x in (fine, steps, fine))
    monkeypatch.setattr(pools[2], "_state", Behind())
    with pytest.raises(td.RunError, match="out of range") as raised:
        first.wait()
    assert raised.value.ticket.number == first.number + 1  # type: ignore[attr-defined]
    after.wait()
    assert [well for _, well in queued.told] == [True, False, False]


def test_who_is_told_of_a_failure_may_wait_for_what_was_left_out(
    pools: dict[int, Pool],
) -> None:
    told: list[bool] = []
    tickets: list[Ticket] = []
    assert pools[2].helped
    for number in range(3):
        steps = Steps()
        if number == 1:
            steps.add("fail", 9, 9, steps.status)
        rows, table = np.array(steps.rows, np.int64), np.array(steps.table, np.int64)

        def done(well: bool, held: Any = (rows, table, steps)) -> None:
            told.append(well)
            if len(told) == 2:
                with pytest.raises(td.RunError, match="out of range"):
                    tickets[-1].wait()

        pointers = table.ctypes.data, steps.status.ctypes.data
        tickets.append(
            pools[2].queue(rows.ctypes.data, len(steps.rows), *pointers, done)
        )
    arrived()
    assert told == [True, False, False]


def test_one_thread_s_failure_is_its_own(pools: dict[int, Pool]) -> None:
    wrong, right = Queued(pools[3]), Queued(pools[3])
    steps = Steps()
    steps.add("fail", 9, 9, steps.status)
    go_on, told = threading.Event(), list[bool]()

    def other() -> None:
        wrong.add(steps)
        go_on.wait()
        with pytest.raises(td.RunError, match="out of range"):
            arrived()
        arrived()
        told.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    while not wrong.told and not pools[3]._jobs:
        pass
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    fine = Steps()
    fine.add("affine", len(x), 64, x, y)
    right.add(fine)
    arrived()
    assert wrong.told == [(0, False)] and right.told == [(0, True)]
    go_on.set()
    thread.join()
    assert told == [True]


def test_the_failure_of_a_thread_that_is_gone_is_told(pools: dict[int, Pool]) -> None:
    steps = Steps()
    steps.add("fail", 9, 9, steps.status)
    queued = Queued(pools[3])
    thread = threading.Thread(target=queued.add, args=(steps,))
    thread.start()
    thread.join()
    with pytest.raises(td.RunError, match="out of range"):
        arrived()
    arrived()
    assert queued.told == [(0, False)]


def counting() -> dict[str, int]:
    """A kernel that counts items in the memory of a worker, which is its own."""
    parameters = [("args", PTR), ("begin", I64), ("end", I64), ("worker", I64)]
    b = Builder("tally", parameters)
    own = b.offset(b.load(PTR, b.arguments["args"]), b.arguments["worker"], I64)
    with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)):
        b.store(b.add(b.load(I64, own), b.i64(1)), own)
    b.ret()
    return compile_functions({"tally": b.text()})


def test_nobody_stands_in_two_places(pools: dict[int, Pool]) -> None:
    function = counting()["tally"]

    def stepped(tally: Any) -> Steps:
        steps = Steps()
        for _ in range(20):
            steps.add(function, 4096, 64, tally)
        return steps

    def beside() -> None:
        for _ in range(60):
            tally = np.zeros(4, np.int64)
            stepped(tally).run(pools[3])
            wrong.append(int(tally.sum()) - 20 * 4096)

    wrong: list[int] = []
    others = [threading.Thread(target=beside) for _ in range(2)]
    for other in others:
        other.start()
    for _ in range(60):
        tally = np.zeros(4, np.int64)
        for _ in range(3):
            Queued(pools[3]).add(stepped(tally))
        arrived()
        wrong.append(int(tally.sum()) - 60 * 4096)
    for other in others:
        other.join()
    assert not any(wrong) and len(wrong) == 180


def test_many_threads_queue_and_wait(pools: dict[int, Pool]) -> None:
    wanted, found = work(pools[2], 5), []
    threads = [
        threading.Thread(target=lambda: found.extend(later(one, 5) for _ in range(30)))
        for one in (pools[2], pools[2], pools[3], pools[4])
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [wanted] * 120


# -- processes -------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits(pools: dict[int, Pool]) -> None:
    x, y = np.ones(50_000, np.float32), np.zeros(50_000, np.float32)
    wanted = work(pools[2])
    for _ in range(6):
        queued = Queued(pools[2])
        steps = Steps()
        for _ in range(20):
            steps.add("affine", len(x), 256, x, y)
        queued.add(steps)
        before = x[0]
        process = os.fork()
        if not process:
            good = bool((x == x[0]).all()) and queued.told == [(0, True)]
            os._exit(0 if good and work(pools[2]) == wanted else 1)
        assert ends_well(process)
        assert (x == x[0]).all() and x[0] <= before


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import numpy as np
from tests.engines import test_pool as t, test_queue as q
one = t.Pool(2)
x, y = np.ones(1_000_000, np.float32), np.zeros(1_000_000, np.float32)
steps = t.Steps()
for _ in range(50):
    steps.add("affine", len(x), 256, x, y)
q.Queued(one).add(steps)
print("done", flush=True)
"""


def test_an_interpreter_ends_after_what_is_queued() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(root=str(ROOT))],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert found.stdout == b"done\n", found.stderr.decode()
    assert found.returncode == 0 and not found.stderr


# -- steps of training -----------------------------------------------------------------


def trained(count: int, look: bool) -> tuple[list[float], list[Any], int]:
    """Losses, weights, and how many values were yet to come after a step."""
    net, opt, futures = Net(cells=True), td.optim.Adam(lr=0.01), 0
    losses = []
    for step in range(count):
        losses.append(float(opt.step(td.stack(net.losses(trees(step, 24))).mean())))
        futures += sum(type(p.committed.stored) is Future for p in net.parameters)
        if look:
            for p in net.parameters:
                p.numpy()
    return losses, [p.numpy().copy() for p in net.parameters], futures


def test_a_step_returns_while_weights_are_written() -> None:
    *eager, futures = trained(6, True)
    assert futures >= 5  # the first one compiles
    *lazy, _ = trained(6, False)
    with td.options(threads=1):
        *single, none = trained(6, False)
    assert not none
    for other in (lazy, single):
        assert other[0] == eager[0]
        for a, b in zip(other[1], eager[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_step_that_fails_late_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, opt = Net(cells=True), td.optim.Adam(lr=0.1)

    def step(number: int) -> None:
        opt.step(td.stack(net.losses(trees(number, 24))).mean())

    for number in range(3):
        step(number)
    every = [*net.parameters, *opt.states()]
    before = [v.numpy().copy() for v in every]
    monkeypatch.setattr(Pool, "queue", failing_after(1))  # the way there
    with pytest.raises(td.RunError, match="out of range"):
        step(3)  # it is told here, if it has failed before all of the step has begun
        monkeypatch.undo()
        assert any(type(v.committed.stored) is Future for v in every)
        net.inner.numpy()
    monkeypatch.undo()
    for v, x in zip(every, before, strict=True):
        np.testing.assert_array_equal(v.numpy(), x)
    other, alike = Net(cells=True), td.optim.Adam(lr=0.1)
    for number in (0, 1, 2, 4):
        alike.step(td.stack(other.losses(trees(number, 24))).mean())
    step(4)
    for p, q in zip(net.parameters, other.parameters, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_what_else_is_assigned_fails_at_once() -> None:
    net, opt = Net(cells=True), td.optim.SGD(lr=0.1)
    own = td.param("own", init=np.ones(3, np.float32), trainable=False)
    for number in range(3):
        before = net.inner.numpy().copy()
        loss = td.stack(net.losses(trees(number, 24))).mean()
        own.assign(td.take(own, td.asarray([0, 1, 2 if number < 2 else 7]), 0) + 1)
        if number < 2:
            opt.step(loss)
            continue
        with pytest.raises(td.TreadleError, match="7"):
            opt.step(loss)
        np.testing.assert_array_equal(net.inner.numpy(), before)
    np.testing.assert_array_equal(own.numpy(), np.full(3, 3.0))
