"""Leases and results: what each mode promises, reuse, lifetimes, threads and forks."""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base.errors import OptionError, RunError
from treadle.engines.native.execution import blocks
from treadle.engines.native.execution import guarded as guarded_module
from treadle.engines.native.execution.arena import MODES, Arena, Results
from treadle.engines.native.execution.blocks import WINDOW, BlockPool, next_run
from treadle.engines.native.system.block import HUGE, PAGE, Block, rounded
from treadle.program.memory import Range, plan

ROOT = Path(__file__).resolve().parents[2]
SIZES = [100, 0, 5000, 64, 300_000]
PLAN = plan([Range(size, k, k + 1) for k, size in enumerate(SIZES)])


def bytes_at(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(int(address)))


def child(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own."""
    start = """
        import ctypes, os, sys, threading
        import numpy as np
        from treadle.engines.native.execution.arena import Arena, Results
        from treadle.program.memory import Range, plan
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("side", ["start", "end"])
def test_a_lease_holds_what_is_written(mode: str, side: str) -> None:
    arena = Arena(mode, side=side)
    with arena.lease(SIZES, PLAN) as lease:
        assert lease.addresses.dtype == np.int64
        assert lease.addresses.shape == (len(SIZES),)
        assert not lease.addresses.flags.writeable
        for k in (2, 3):  # these two are alive together
            bytes_at(lease.addresses[k], SIZES[k])[:] = k
        assert (bytes_at(lease.addresses[2], SIZES[2]) == 2).all()
        assert (bytes_at(lease.addresses[3], SIZES[3]) == 3).all()
        assert arena.live_bytes() >= PLAN.size
    assert arena.live_bytes() == 0
    lease.release()
    assert arena.live_bytes() == 0


def test_fast_leases_are_the_plan_on_one_aligned_block() -> None:
    lease = Arena().lease(SIZES, PLAN)
    base = lease.addresses[0] - PLAN.offsets[0]
    assert base % 64 == 0
    assert (lease.addresses - base).tolist() == list(PLAN.offsets)
    large = [3 * HUGE]
    lease = Arena().lease(large, plan([Range(large[0], 0, 0)]))
    assert lease.addresses[0] % HUGE == 0


@pytest.mark.parametrize("mode", ["fast", "poison"])
def test_a_steady_loop_makes_one_block_and_one_table(mode: str) -> None:
    arena = Arena(mode)
    tables = set()
    for _ in range(20):
        with arena.lease(SIZES, PLAN) as lease:
            tables.add(id(lease.addresses))
    assert arena.pool.made == 1 and len(tables) == 1


def test_leases_at_one_time_do_not_overlap_and_are_kept() -> None:
    arena = Arena()
    for _ in range(5):
        leases = [arena.lease(SIZES, PLAN) for _ in range(4)]
        starts = sorted(int(lease.addresses.min()) for lease in leases)
        assert np.diff(starts).min() >= PLAN.size
        for lease in leases:
            lease.release()
    assert arena.pool.made == 4


def test_a_block_serves_smaller_plans_and_gives_way_to_larger_ones() -> None:
    small, large = plan([Range(10_000, 0, 0)]), plan([Range(1 << 20, 0, 0)])
    arena = Arena()
    for order in ([small, large, small], [large, small]):
        for one in order:
            arena.lease([one.size], one).release()
    assert arena.pool.made == 2
    assert arena.idle_bytes() == rounded(1 << 20)
    arena.trim()
    assert arena.idle_bytes() == 0


def test_a_dropped_lease_comes_back() -> None:
    for mode in MODES:
        arena = Arena(mode)
        lease = arena.lease(SIZES, PLAN)
        assert arena.live_bytes() > 0
        del lease
        assert arena.live_bytes() == 0


def test_a_program_without_buffers_has_a_lease() -> None:
    for mode in MODES:
        with Arena(mode).lease([], plan([])) as lease:
            assert lease.addresses.shape == (0,)


def test_poison_is_nan_before_after_and_once_dead() -> None:
    arena = Arena("poison")
    lease = arena.lease(SIZES, PLAN)
    where, size = lease.addresses[4], SIZES[4]
    floats = bytes_at(where, size).view(np.float32)
    assert np.isnan(floats).all()
    assert np.isnan(floats.view(np.float64)).all()
    assert np.isnan(floats.view(ml_dtypes.bfloat16).astype(np.float32)).all()
    floats[:] = 1
    lease.poison(4)
    assert np.isnan(floats).all()
    lease.poison(1)  # has no bytes
    floats[:] = 1
    lease.release()
    assert np.isnan(floats).all()


def test_poison_of_one_buffer_leaves_the_others() -> None:
    lease = Arena("poison").lease(SIZES, PLAN)
    for k in (2, 3):
        bytes_at(lease.addresses[k], SIZES[k])[:] = k
    lease.poison(2)
    assert (bytes_at(lease.addresses[2], SIZES[2]) == 255).all()
    assert (bytes_at(lease.addresses[3], SIZES[3]) == 3).all()


def test_fast_poison_does_nothing() -> None:
    lease = Arena().lease(SIZES, PLAN)
    bytes_at(lease.addresses[0], 100)[:] = 7
    lease.poison(0)
    assert (bytes_at(lease.addresses[0], 100) == 7).all()


# One child of its own for all: it forks for each case and tells how that one ended.
CASES = """
    one = plan([Range(1000, 0, 0), Range(24, 0, 0)])

    def leased(mode, side, at, write):
        lease = Arena(mode, side=side).lease([1000, 24], one)
        address = int(lease.addresses[0])
        ctypes.memset(address, 1, 1000)
        if write:
            ctypes.memset(address + at, 1, 1)
        else:
            ctypes.string_at(address + at, 1)

    def dead(mode):
        lease = Arena(mode).lease([1000, 24], one)
        lease.poison(0)
        lease.poison(1)
        ctypes.string_at(int(lease.addresses[0]), 1)

    def result(mode, past):
        address = Results(mode).lend((3, 5), np.float32)
        ctypes.memset(address[1], 0, 60 + past)

    def nothing(mode, arena):
        address = Results(mode).lend((0, 5), np.float32)[1]
        lease = Arena(mode).lease([0, 24], plan([Range(0, 0, 0), Range(24, 0, 0)]))
        ctypes.string_at(int(lease.addresses[0]) if arena else address, 1)

    def fate(action, *arguments):
        pid = os.fork()
        if pid == 0:
            action(*arguments)
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    beyond = [("end", 1000), ("end", 3000), ("start", -1), ("start", -4000)]
    for mode, places in (("guard", beyond), ("fast", beyond[:1])):
        ends = [fate(leased, mode, *p, write) for p in places for write in (1, 0)]
        print(mode, *ends, fate(dead, mode), fate(result, mode, 1))
        print(fate(nothing, mode, True), fate(nothing, mode, False))
        print(fate(leased, mode, "end", 999, True), fate(result, mode, 0))
"""


def test_guard_mode_dies_of_one_byte_beside_a_buffer_and_fast_mode_lives() -> None:
    found = child(CASES)
    assert found.stderr == ""
    one = str(int(signal.SIGSEGV))
    guard = f"guard{f' {one}' * 10}\n{one} {one}\n0 0\n"
    assert found.stdout == guard + "fast 0 0 0 0\n0 0\n0 0\n"


def test_guard_buffers_end_at_a_page_or_start_at_one() -> None:
    for side in ("end", "start"):
        lease = Arena("guard", side=side).lease(SIZES, PLAN)
        ends = lease.addresses + (np.array(SIZES) if side == "end" else 0)
        assert (ends % PAGE == 0).all()
        assert np.isnan(bytes_at(lease.addresses[3], 64).view(np.float32)).all()
        lease.release()


@pytest.mark.parametrize(("side", "at"), [("end", -1), ("start", 100)])
def test_guard_mode_tells_of_writes_it_cannot_stop(side: str, at: int) -> None:
    """Inside the pages of a buffer, on the side away from the protected page."""
    arena = Arena("guard", side=side)
    lease = arena.lease(SIZES, PLAN)
    bytes_at(lease.addresses[0] + at, 1)[:] = 1
    with pytest.raises(RunError, match="wrote beside buffer 0"):
        lease.poison(0)
    bytes_at(lease.addresses[2] + SIZES[2] * (at > 0) - (at < 0), 1)[:] = 1
    with pytest.raises(RunError, match="beside buffer 0, buffer 2"):
        lease.release()
    assert arena.live_bytes() == 0


@pytest.mark.parametrize("mode", MODES)
@given(
    shape=st.lists(st.integers(0, 40), max_size=3).map(tuple),
    kind=st.sampled_from(["f4", "f8", "i8", "?", "u1", "c8", ml_dtypes.bfloat16]),
)
@settings(max_examples=60, deadline=None)
def test_results_are_arrays_like_any(
    mode: str, shape: tuple[int, ...], kind: object
) -> None:
    x, address = Results(mode).lend(shape, np.dtype(kind))
    assert x.shape == shape and x.dtype == np.dtype(kind)
    assert type(x) is np.ndarray
    assert x.flags.c_contiguous and x.flags.writeable and x.flags.aligned
    assert x.ctypes.data == address
    if mode != "guard" and x.size:
        assert address % 64 == 0
    x[...] = 1
    assert (x == np.ones(shape, kind)).all()


def test_poison_results_begin_as_nan() -> None:
    results = Results("poison")
    for _ in range(2):
        x = results.empty((50, 50), np.float32)
        assert np.isnan(x).all()
        x[:] = 1
        del x


@pytest.mark.parametrize("size", [10, 3000, 100_000, 3_000_000])
def test_a_steady_loop_of_results_makes_no_new_block(size: int) -> None:
    results = Results()
    state = results.empty((size,), np.float32)
    for _ in range(20):
        fresh = results.empty((size,), np.float32)
        fresh[0] = state[0]
        state = fresh
    assert results.pool.made == 2
    assert results.live_bytes() == rounded(4 * size)
    del state, fresh
    assert results.live_bytes() == 0


def test_views_keep_memory_alive() -> None:
    results = Results()
    x = results.empty((64, 64), np.float64)
    x[:] = np.arange(64)
    views = [x[3:5].T, x.reshape(-1)[::2], memoryview(x), np.asarray(x), x.view("i4")]
    del x
    while views:
        assert results.live_bytes() == 64 * 64 * 8
        other = results.empty((64, 64), np.float64)
        other[:] = -1
        assert np.asarray(views[0]).flat[1] != -1
        del other
        views.pop()
    assert results.live_bytes() == 0


def test_a_result_in_a_cycle_comes_back_at_collection() -> None:
    results = Results()
    cycle: list[object] = [results.empty((1000,), np.float32)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert results.live_bytes() == 0


def test_memory_outlives_its_pool() -> None:
    results = Results()
    x = results.empty((100_000,), np.float32)
    x[:] = 5
    del results
    gc.collect()
    assert (x == 5).all()


@given(st.integers(1, 1 << 34))
def test_classes_waste_little(size: int) -> None:
    given_size = rounded(size)
    assert size <= given_size and rounded(given_size) == given_size
    if size <= 4096:
        assert given_size - size < 64
    else:
        assert given_size - size < max(4096, size / 31)


def test_new_memory_is_paid_for_by_what_lay_idle() -> None:
    arena = Arena()
    results = Results()
    one, other = 1 << 20, 3 << 20

    def run(kept: int) -> None:
        with arena.lease([64], plan([Range(64, 0, 0)])):
            results.empty((kept,), np.uint8)

    run(one)
    assert results.idle_bytes() == rounded(one)
    run(other)  # nothing was idle for a run when it was asked for
    assert results.idle_bytes() == rounded(other)
    made = results.pool.made
    for _ in range(20):
        run(one)
        run(other)
    assert results.idle_bytes() == rounded(one) + rounded(other)
    first = results.pool.made
    run(one)
    run(other)
    assert results.pool.made == first <= made + 6, "a loop over two programs is steady"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no mremap")
def test_a_loose_block_grows_and_serves_smaller_ones() -> None:
    pool = BlockPool(fitting=True)
    small = pool.take(5 << 20, loose=True)
    np.frombuffer(small.memory, np.uint8)[:] = 7
    pool.give(small)
    large = pool.take(11 << 20, loose=True)
    assert large is small and large.bytes == rounded(11 << 20) and pool.made == 1
    assert large.address % HUGE == 0 and pool.live_bytes() == large.bytes
    found = np.frombuffer(large.memory, np.uint8)
    assert large.offset + large.bytes <= found.size
    found[large.offset + large.bytes - 1] = 1
    del found
    pool.give(large)
    assert pool.take(4 << 20, loose=True) is large and pool.made == 1
    assert pool.take(4 << 20, loose=True) is not large and pool.made == 2
    pool.give(large)
    tight = pool.take(5 << 20)
    far = pool.take(1 << 20, loose=True)
    assert tight is not large and far is not large and pool.made == 4
    held = memoryview(large.memory)
    assert pool.take(30 << 20, loose=True) is not large, "somebody looks at it"
    del held


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no mremap")
def test_what_a_pool_would_not_keep_is_made_as_large_as_what_comes() -> None:
    pool = BlockPool(fitting=True, keep=1 << 20)
    sizes = [8, 9, 12, 11, 10]  # MB: a loop over results of several lengths
    first = pool.take(sizes[0] << 20)
    pool.give(first)
    for size in sizes * 3:
        next_run()
        block = pool.take(size << 20)
        assert block is first and block.bytes == rounded(size << 20)
        assert block.address % HUGE == 0
        found = np.frombuffer(block.memory, np.uint8)
        found[[block.offset, block.offset + block.bytes - 1]] = 1
        del found
        assert pool.live_bytes() == block.bytes and pool.idle_bytes() == 0
        pool.give(block)
    assert pool.made == 1
    far = pool.take(50 << 20)
    assert far is not first, "its pages are worth little there"


def test_idle_memory_is_bounded() -> None:
    pool = BlockPool(fitting=True, keep=1 << 20)
    held = [pool.take(300_000) for _ in range(20)]
    most = pool.live_bytes()
    while held:
        pool.give(held.pop())
        assert pool.idle_bytes() + pool.live_bytes() <= most
    assert pool.live_bytes() == 0 and pool.idle_bytes() > 0
    for _ in range(2 * WINDOW):  # what took so much is over
        next_run()
        pool.give(pool.take(300_000))
    assert 0 < pool.idle_bytes() <= 1 << 20
    one = pool.take(50 << 20)
    pool.give(one)  # the newest is kept whatever its size
    assert pool.idle_bytes() == one.bytes
    pool.trim()
    assert pool.idle_bytes() == 0


def test_what_a_step_takes_is_there_for_the_next() -> None:
    pool = BlockPool(fitting=True, keep=1 << 20)

    def step() -> None:
        next_run()
        for block in [pool.take(size << 20) for size in (3, 5, 7)]:
            pool.give(block)

    step()
    made = pool.made
    for _ in range(3 * WINDOW):
        step()
    assert pool.made == made


def test_eight_threads_share_one_pool_and_one_arena() -> None:
    results, arena = Results(), Arena()
    failures: list[str] = []

    def work(number: int) -> None:
        draw = np.random.default_rng(number)
        mine: list[tuple[np.ndarray, int]] = []
        for turn in range(150):
            x = results.empty((int(draw.integers(1, 5000)),), np.int64)
            x[:] = number * 1000 + turn
            mine.append((x, number * 1000 + turn))
            with arena.lease(SIZES, PLAN) as lease:
                block = bytes_at(lease.addresses[4], SIZES[4])
                block[:] = number
                if not (block == number).all():
                    failures.append("lease")
            if len(mine) > 10:
                y, value = mine.pop(int(draw.integers(len(mine))))
                if not (y == value).all():
                    failures.append("result")
        failures.extend("result" for y, value in mine if not (y == value).all())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert failures == []
    assert results.live_bytes() == 0 and arena.live_bytes() == 0
    assert arena.pool.made <= 8


def test_a_destructor_inside_the_lock_does_not_wait_for_it() -> None:
    pool = BlockPool(fitting=True)
    block = pool.take(100)
    with pool._lock:
        pool.give(block)
    assert pool.live_bytes() == 0 and pool.idle_bytes() == block.bytes


def test_an_interrupt_while_a_block_comes_back_leaves_the_pool_usable() -> None:
    for at in range(1, 40):
        pool = BlockPool(fitting=True)
        block, left = pool.take(1 << 18), [at]

        def trace(frame: Any, kind: str, argument: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            # No signal comes between a block and the exit of its `with`; a trace does.
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if left[0] <= 0 and not line.lstrip().startswith("with "):
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        came = False
        try:
            sys.settrace(trace)
            pool.give(block)
        except KeyboardInterrupt:
            came = True
        finally:
            sys.settrace(None)
        again = pool.take(1 << 18)
        pool.give(again)
        pool.trim()
        assert pool.take(1 << 18) is not again  # it was there to be let go of
    assert not came  # the last ones were too late


def test_out_of_memory_names_bytes_and_leaves_all_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results, arena = Results(), Arena()
    held = results.empty((1 << 20,), np.float32)
    huge = plan([Range(1 << 46, 0, 0)])
    with pytest.raises(RunError) as caught:
        arena.lease([1 << 46], huge)
    assert f"{1 << 46:,} bytes asked" in str(caught.value)
    live = blocks.live_bytes()
    assert live >= held.nbytes and f"{live:,} bytes live" in str(caught.value)
    with pytest.raises(RunError, match="out of memory"):
        results.empty((1 << 44,), np.float32)
    for guarded in (
        lambda: Arena("guard").lease([1 << 46], huge),
        lambda: Results("guard").empty((1 << 44,), np.float32),
    ):
        with pytest.raises(RunError, match="out of memory"):
            guarded()
    assert arena.live_bytes() == 0 and results.live_bytes() == held.nbytes
    arena.lease(SIZES, PLAN).release()


def test_idle_memory_is_given_up_before_an_allocation_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena, results = Arena(), Results()
    arena.lease(SIZES, PLAN).release()
    assert arena.idle_bytes() > 0
    failures = [MemoryError()]

    def scarce(bytes: int) -> Block:
        if failures:
            raise failures.pop()
        return Block(bytes)

    monkeypatch.setattr(blocks, "Block", scarce)
    x = results.empty((1000,), np.float32)
    assert arena.idle_bytes() == 0 and results.live_bytes() == rounded(x.nbytes)


def test_pages_that_cannot_be_protected_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded_module, "_mprotect", lambda: lambda *_: -1)
    arena = Arena("guard")
    with pytest.raises(RunError, match="out of memory"):
        arena.lease(SIZES, PLAN)
    assert arena.live_bytes() == 0


def test_unknown_modes_and_sides_are_refused() -> None:
    for make in (Arena, Results):
        with pytest.raises(OptionError, match="fast, poison, guard"):
            make("slow")
        with pytest.raises(OptionError, match="side"):
            make("guard", side="top")


def test_a_fork_with_memory_in_use_and_threads_at_work() -> None:
    code = """
        results, arena = Results(), Arena()
        done = threading.Event()
        def work():
            while not done.is_set():
                results.empty((2000,), np.float32)
                with arena.lease([5000], one):
                    pass
        one = plan([Range(5000, 0, 0)])
        kept = results.empty((200_000,), np.float32)
        kept[:] = 3
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for turn in range(20):
            pid = os.fork()
            if pid == 0:
                x = results.empty((200_000,), np.float32)
                x[:] = 4
                with arena.lease([5000], one) as lease:
                    ctypes.memset(int(lease.addresses[0]), 1, 5000)
                kept[:] = 5
                del x
                os._exit(0 if results.live_bytes() >= 800_000 else 1)
            assert os.waitpid(pid, 0)[1] == 0
        done.set()
        for t in threads: t.join()
        assert (kept == 3).all()
        print("right")
    """
    found = child(code)
    assert found.stdout == "right\n" and found.returncode == 0, found.stderr


def test_an_exit_with_memory_in_use_is_silent() -> None:
    code = """
        held = []
        for mode in ("fast", "poison", "guard"):
            results, arena = Results(mode), Arena(mode)
            lease = arena.lease([5000], plan([Range(5000, 0, 0)]))
            held += [results, arena, lease, results.empty((999,), np.float32)]
            held += [results.empty((999_999,), np.float32)[3:]]
        held.append(held)
        sys.keep = held
        threading.held = held[0].empty((5,), np.float32)
        print("end")
    """
    found = child(code)
    assert (found.stdout, found.stderr, found.returncode) == ("end\n", "", 0)


def test_a_block_may_be_given_back_by_another_thread() -> None:
    pool = BlockPool(fitting=True)
    block = pool.take(100)
    thread = threading.Thread(target=pool.give, args=(block,))
    thread.start()
    thread.join(10)
    assert pool.live_bytes() == 0 and pool.take(100) is block
