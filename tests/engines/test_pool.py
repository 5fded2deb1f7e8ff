"""The pool: every item once, same bits for any threads, no hang, no idle work."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.twins import needs_core
from treadle.engines.native.codegen.builder import F32, I64, PTR, Builder, Value
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.execution import pool as module
from treadle.engines.native.execution.pool import Pool, pool
from treadle.engines.native.execution.serial import SerialRunner

Array = np.ndarray[Any, Any]
pytestmark = needs_core  # without it a pool is one thread
ROOT = Path(__file__).resolve().parents[2]
STEP = 8  # fields of a step


def kernel(name: str) -> tuple[Builder, list[Value]]:
    """The beginning of a kernel, and its first three arguments."""
    parameters = [("args", PTR), ("begin", I64), ("end", I64), ("worker", I64)]
    b = Builder(name, parameters)
    places = [b.offset(b.arguments["args"], b.i64(k), PTR) for k in range(3)]
    return b, [b.load(PTR, p) for p in places]


def texts() -> dict[str, str]:
    b, (count, where, who) = kernel("visit")
    with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)) as loop:
        place = b.offset(count, loop.index, I64)
        b.store(b.add(b.load(I64, place), b.i64(1)), place)
        b.store(b.arguments["begin"], b.offset(where, loop.index, I64))
        b.store(b.arguments["worker"], b.offset(who, loop.index, I64))
    b.ret()
    made = {"visit": b.text()}
    b, (x, y, _) = kernel("affine")  # x = 0.999 x + y
    with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)) as loop:
        place = b.offset(x, loop.index, F32)
        product = b.fmul(b.load(F32, place), b.constant(F32, 0.999))
        found = b.fadd(product, b.load(F32, b.offset(y, loop.index, F32)))
        b.store(found, place)
    b.ret()
    made["affine"] = b.text()
    b, (status, _, _) = kernel("fail")
    b.store(b.arguments["end"], status)
    b.ret()
    made["fail"] = b.text()
    return made


FUNCTIONS = compile_functions(texts())


class Steps:
    """A list of steps with their table of arguments."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.table: list[int] = []
        self.held: list[Any] = []
        self.status = np.zeros(1, np.int64)

    def add(self, name: str | int, total: int, grain: int, *arrays: Array) -> None:
        function = FUNCTIONS[name] if isinstance(name, str) else name
        self.rows.append([function, len(self.table), total, grain, 0, 0, 0, 0])
        self.table += [a.ctypes.data for a in arrays] + [0] * (3 - len(arrays))
        self.held.append(arrays)

    def run(self, on: Any) -> int:
        rows, table = np.array(self.rows, np.int64), np.array(self.table, np.int64)
        call = on.run if isinstance(on, Pool) else on
        found: int = call(
            rows.ctypes.data, len(rows), table.ctypes.data, self.status.ctypes.data
        )
        return found


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[int, Pool]]:
    """Pools of 1, 2, 3 and 4 threads, whatever the machine has."""
    made = {n: Pool(n) for n in (1, 2, 3, 4)}
    yield made
    for one in made.values():
        one._close()


def failing_after(count: int) -> Callable[..., Any]:
    """What stands for `Pool.queue` where all but the first `count` runs fail."""
    queue, calls = Pool.queue, list[int]()

    def failing(
        pool: Pool, steps: int, size: int, table: int, status: int, *more: Any
    ) -> Any:
        calls.append(size)
        if len(calls) <= count:
            return queue(pool, steps, size, table, status, *more)
        done, *more = more
        own = Steps()
        own.add("fail", 9, 9, own.status)
        rows, arguments = np.array(own.rows, np.int64), np.array(own.table, np.int64)

        def held(well: bool, kept: Any = (rows, arguments, own)) -> None:
            done(well)

        pointers = arguments.ctypes.data, own.status.ctypes.data
        return queue(pool, rows.ctypes.data, 1, *pointers, held, *more)

    return failing


def work(on: Any, turns: int = 20) -> bytes:
    """The bits of a small program of dependent steps, large and small."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(3000).astype(np.float32) for _ in range(2))
    steps = Steps()
    for turn in range(turns):
        steps.add("affine", 3000, 64 if turn % 3 else 5000, x, y)
        steps.add("affine", 3000, 200, y, x)
    assert steps.run(on) == 2 * turns
    return x.tobytes() + y.tobytes()


# -- what is done ----------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 700), st.integers(-1, 40), st.sampled_from([1, 2, 3, 4]))
def test_every_item_is_done_once(
    pools: dict[int, Pool], total: int, grain: int, threads: int
) -> None:
    count, where, who = (np.full(total + 1, -1, np.int64) for _ in range(3))
    steps = Steps()
    steps.add("visit", total, grain, count, where, who)
    assert steps.run(pools[threads]) == 1
    assert (count[:total] == 0).all() and count[total] == -1
    assert (where[:total] % max(grain, 1) == 0).all()
    assert ((who[:total] >= 0) & (who[:total] < threads)).all()
    if total <= grain or grain < 1:
        assert (where[:total] == 0).all() and (who[:total] == 0).all()


def test_many_small_parts_are_joined(pools: dict[int, Pool]) -> None:
    count, where, who = (np.zeros(1_000_000, np.int64) for _ in range(3))
    steps = Steps()
    steps.add("visit", len(count), 1, count, where, who)
    steps.run(pools[2])
    assert (count == 1).all() and len(np.unique(where)) <= 128


def test_the_same_bits_for_any_number_of_threads(pools: dict[int, Pool]) -> None:
    wanted = work(pools[1])
    for threads in (2, 3, 4, 2, 4):
        assert work(pools[threads]) == wanted


def test_ten_thousand_launches(pools: dict[int, Pool]) -> None:
    for threads in (2, 4):
        count, where, who = (np.zeros(64, np.int64) for _ in range(3))
        steps = Steps()
        for _ in range(1000):
            steps.add("visit", 64, 8, count, where, who)
        for _ in range(10):
            assert steps.run(pools[threads]) == 1000
        assert (count == 10_000).all()


def test_launches_after_sleep(pools: dict[int, Pool]) -> None:
    count, where, who = (np.zeros(64, np.int64) for _ in range(3))
    steps = Steps()
    steps.add("visit", 64, 8, count, where, who)
    for turn in range(60):
        time.sleep(0.00005 * (turn % 8))
        steps.run(pools[3])
    assert (count == 60).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("grain", [1, 1000])
def test_a_status_stops_the_steps(
    pools: dict[int, Pool], threads: int, grain: int
) -> None:
    count, where, who = (np.zeros(100, np.int64) for _ in range(3))
    steps = Steps()
    steps.add("visit", 100, grain, count, where, who)
    steps.add("fail", 9, 9, steps.status)
    steps.add("visit", 100, grain, count, where, who)
    assert steps.run(pools[threads]) == 2
    assert steps.status[0] == 9 and (count == 1).all()
    steps.status[0] = 0
    steps.rows[1][2] = 0  # no items: not called
    assert steps.run(pools[threads]) == 3 and (count == 3).all()


def test_no_steps(pools: dict[int, Pool]) -> None:
    assert Steps().run(pools[2]) == 0


def test_the_runner_in_python_does_the_same(pools: dict[int, Pool]) -> None:
    assert work(SerialRunner().run) == work(pools[1])


def test_a_system_without_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = work(Pool(1))
    monkeypatch.setattr(module, "native", None)
    one = Pool(4)
    assert one.threads == 1 and work(one) == wanted and not one.helped


# -- several callers -------------------------------------------------------------------


def test_several_python_threads_on_one_pool(pools: dict[int, Pool]) -> None:
    wanted, found = work(pools[1]), []
    threads = [
        threading.Thread(target=lambda: found.extend(work(one) for _ in range(60)))
        for one in (pools[2], pools[2], pools[2], pools[4])
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [wanted] * 240


def test_a_step_may_run_steps(pools: dict[int, Pool]) -> None:
    wanted, found = work(pools[1]), []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    inner = kind(lambda *_: found.append(work(pools[2])))
    address = ctypes.cast(inner, ctypes.c_void_p).value
    assert address is not None
    steps = Steps()
    steps.add(address, 1, 1)
    steps.add(address, 4, 1)
    assert steps.run(pools[2]) == 2
    assert found == [wanted] * 5


# -- processes -------------------------------------------------------------------------


def ends_well(process: int) -> bool:
    """Whether a child ends with 0 within some seconds."""
    for _ in range(1000):
        done, code = os.waitpid(process, os.WNOHANG)
        if done:
            return code == 0
        time.sleep(0.01)
    os.kill(process, 9)
    os.waitpid(process, 0)
    return False


def forked(one: Pool, wanted: bytes) -> bool:
    process = os.fork()
    if not process:
        code = 1
        try:
            good = [work(one), work(one), work(pool(2))] == [wanted] * 3
            code = 0 if good and one._state.workers == 1 else 2
        finally:
            os._exit(code)
    return ends_well(process)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_workers_of_its_own(pools: dict[int, Pool]) -> None:
    wanted = work(pools[2])
    for _ in range(8):
        assert forked(pools[2], wanted)
        assert work(pools[2]) == wanted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_while_steps_and_compilations_run(pools: dict[int, Pool]) -> None:
    wanted, stop = work(pools[2]), threading.Event()
    failures: list[int] = []

    def run() -> None:
        while not stop.is_set():
            if work(pools[2], 20) != wanted:
                failures.append(1)

    def compile() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            name = f"c{os.getpid()}_{n}"
            compile_functions({name: f"define void @{name}() {{\n ret void\n}}\n"})

    threads = [threading.Thread(target=f) for f in (run, compile)]
    for t in threads:
        t.start()
    try:
        assert all(forked(pools[2], wanted) for _ in range(12))
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failures


PROGRAM = """
import sys, threading
sys.path.insert(0, {root!r})
from tests.engines import test_pool as t
one = t.Pool(3)
wanted = t.work(one)
def forever():
    while True:
        t.work(one)
if {busy}:
    threading.Thread(target=forever, daemon=True).start()
assert t.work(t.pool(2)) == wanted
print("done", flush=True)
"""


@pytest.mark.parametrize("busy", [False, True])
def test_an_interpreter_ends(busy: bool) -> None:
    program = PROGRAM.format(root=str(ROOT), busy=busy)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert found.stdout == b"done\n", found.stderr.decode()
    assert found.returncode == 0 and not found.stderr


def test_sleeping_workers_cost_nothing(pools: dict[int, Pool]) -> None:
    for one in pools.values():
        work(one)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.1  # six workers would take 0.8


# -- the pools of the process ----------------------------------------------------------


def test_pools_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared", {})
    monkeypatch.setattr(module, "cores", lambda: 3)
    assert [pool(n).threads for n in (0, 1, 2, 3, 4, -1)] == [3, 1, 2, 3, 3, 3]
    assert pool() is pool(0) is pool(3) is pool(9) and pool(1) is not pool(2)


def threads() -> int:
    """The threads of this process, those of native code among them."""
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_of_a_pool_that_has_gone_leave() -> None:
    before = threads()
    one = Pool(3)
    work(one)
    assert one._state.workers == 2 and threads() == before + 2
    del one
    gc.collect()
    for _ in range(1000):
        if threads() == before:
            break
        time.sleep(0.01)
    assert threads() == before


LIMITED = """
import resource, sys
sys.path.insert(0, {root!r})
from tests.engines import test_pool as t
wanted = t.work(t.Pool(1))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (4 << 20), resource.RLIM_INFINITY))
one = t.Pool(9)
assert t.work(one) == wanted and one._state.workers < 8
print("done", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_more_threads_to_be_had() -> None:
    command = [sys.executable, "-c", LIMITED.format(root=str(ROOT))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr


def test_signals_are_for_threads_of_python(pools: dict[int, Pool]) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
    try:
        work(pools[4])
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.2)  # the kernel may give it to any thread: it would be cut short
        assert told == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_workers_are_beside_greenlets() -> None:
    # gevent does the same to `_thread`: what starts there would never give way.
    code = """
        import _thread
        import numpy as np
        def never(*_): raise AssertionError("it would be a greenlet")
        _thread.start_new_thread = never
        import treadle as td
        p = td.param("p", init=np.ones(50, np.float32))
        opt = td.optim.SGD(lr=0.1)
        for _ in range(3): opt.step(td.sum(p * p))
        x = td.ones((64, 64))
        print(float(td.sum(td.tanh(x @ x))), float(p.numpy()[0]) < 1)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "4096.0 True\n", done.stderr
