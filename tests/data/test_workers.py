"""Batches that processes make: order, draws, errors, interrupts, memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from treadle.base.errors import ArgumentError, StateError
from treadle.data import ArrayDataset, ListDataset, Loader, generator
from treadle.data.shared import Packed, SharedBlock, SharedLease
from treadle.data.workers import WorkerTraceback

unix = pytest.mark.skipif(sys.platform == "win32", reason="needs Unix's signals")


def collate(numbers: list[int]) -> dict[str, Any]:
    """Arrays, text, and draws of the batch."""
    return {
        "x": np.repeat(np.array(numbers, np.float32)[:, None], 100, 1),
        "draw": generator().random(3),
        "text": [str(k) for k in numbers],
    }


class Unpicklable(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)


def fail(numbers: list[int]) -> list[int]:
    if 9 in numbers:
        raise Unpicklable(1, 2)
    if 5 in numbers:
        raise ZeroDivisionError("five")
    return numbers


def end(numbers: list[int]) -> list[int]:
    if 5 in numbers:
        os._exit(3)
    return numbers


def tensors(numbers: list[int]) -> Any:
    return td.asarray(numbers) * 2.0


def who(numbers: list[int]) -> int:
    return os.getpid()


def same(found: list[Any], wanted: list[Any]) -> bool:
    return len(found) == len(wanted) and all(
        (a["x"] == b["x"]).all()
        and (a["draw"] == b["draw"]).all()
        and a["text"] == b["text"]
        for a, b in zip(found, wanted, strict=True)
    )


DATA = ListDataset(range(41), collate)
METHODS = [
    pytest.param(start, id=start)
    for start in ("fork", "spawn")
    if start in multiprocessing.get_all_start_methods()
]


@each("start", METHODS)
def test_workers_give_the_same_batches(start: str) -> None:
    wanted = Loader(DATA, 4, seed=3, warm_up=3)
    ahead = Loader(DATA, 4, seed=3, warm_up=3, prefetch=2)
    loader = Loader(DATA, 4, seed=3, warm_up=3, workers=2, start=start, persistent=True)
    for _ in range(2):
        batches = list(wanted)
        assert same(list(loader), batches) and same(list(ahead), batches)
    loader.close()


@unix
def test_an_iteration_broken_off_goes_on_in_another_process_count() -> None:
    wanted = Loader(DATA, 4, seed=3)
    whole = list(wanted) + list(wanted)
    loader = Loader(DATA, 4, seed=3, workers=2, start="fork", persistent=True)
    taken: list[Any] = []
    for batch in loader:
        taken.append(batch)
        if len(taken) == 5:
            break
    state = loader.state()
    taken += [*loader, *loader]
    assert same(taken, whole)
    other = Loader(DATA, 4, workers=1, start="fork")
    other.restore(state)
    assert same(list(other), whole[5:11])
    loader.close()


@unix
def test_shards_draw_as_all_do() -> None:
    wanted = list(Loader(DATA, 4, seed=3))
    parts = [
        list(Loader(DATA, 4, seed=3, shard=(k, 2), workers=1, start="fork"))
        for k in (0, 1)
    ]
    assert same(parts[0], wanted[0:10:2]) and same(parts[1], wanted[1:10:2])


@unix
def test_an_error_comes_in_its_place_with_its_traceback() -> None:
    data = ListDataset(range(12), fail)
    loader = Loader(data, 2, shuffle=False, workers=2, start="fork")
    taken = []
    with pytest.raises(ZeroDivisionError, match="five") as failed:
        for batch in loader:
            taken.append(batch)
    assert taken == [[0, 1], [2, 3]] and loader.position == 2
    cause = failed.value.__cause__
    assert isinstance(cause, WorkerTraceback) and "in fail" in str(cause)
    loader.position = 3
    with pytest.raises(td.RunError, match="does not pickle") as failed:
        list(loader)
    assert "Unpicklable: 1" in str(failed.value.__cause__)


@unix
def test_a_worker_that_is_gone_is_told() -> None:
    loader = Loader(ListDataset(range(12), end), 2, workers=2, start="fork")
    with pytest.raises(StateError, match="ended with exit code 3"):
        list(loader)


@unix
def test_all_workers_work_and_end() -> None:
    data = ListDataset(range(12), who)
    loader = Loader(data, 1, workers=3, start="fork")
    for _ in range(2):
        processes = set(loader)
        assert len(processes) == 3 and os.getpid() not in processes
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)


@unix
def test_batches_stay_what_they_are_however_many_are_kept() -> None:
    data = ArrayDataset(np.arange(400).repeat(50).reshape(400, 50))
    loader = Loader(data, 2, shuffle=False, workers=2, start="fork", persistent=True)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    kept = [x for (x,) in loader]
    if before:
        assert len(os.listdir("/proc/self/fd")) < before + 100
    again = [x + 0 for (x,) in loader]
    loader.close()
    for k, (x, y) in enumerate(zip(kept, again, strict=True)):
        assert (x == np.array([[2 * k], [2 * k + 1]])).all() and (x == y).all()
        x += 1


def test_a_block_is_free_when_its_arrays_are_gone() -> None:
    read_only = np.arange(5.0)
    read_only.flags.writeable = False
    packed = Packed({"a": np.arange(6).reshape(2, 3), "b": read_only, "c": np.ones(0)})
    block, free = SharedBlock(packed.size), list[SharedBlock]()
    packed.write(block)
    value = SharedLease(block, free).read(packed.spans)
    part = value["a"][1:]
    assert (value["b"] == read_only).all() and not value["b"].flags.writeable
    del value
    assert free == [] and part.tolist() == [[3, 4, 5]] and part.flags.writeable
    del part
    assert free == [block]


@unix
def test_workers_make_tensors() -> None:
    loader = Loader(
        ListDataset(range(6), tensors), 3, shuffle=False, workers=1, start="fork"
    )
    assert [x.tolist() for x in loader] == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


def test_what_does_not_pickle_is_told_before_anything_starts() -> None:
    data = ListDataset(range(6), lambda numbers: numbers)
    with pytest.raises(ArgumentError, match="does not pickle"):
        list(Loader(data, workers=1, start="spawn"))
    with pytest.raises(ArgumentError, match="start is one of"):
        Loader(data, workers=1, start="thread")
    with pytest.raises(ArgumentError, match="number of processes"):
        Loader(data, workers=-1)
    with pytest.raises(StateError, match="no batch is being made"):
        generator()


INTERRUPTED = """
import os, time
import treadle as td

def slow(numbers):
    time.sleep(0.05)
    return numbers

if __name__ == "__main__":
    data = td.data.ListDataset(range(1000), slow)
    loader = td.data.Loader(data, 1, workers=2, start={start!r})
    try:
        for count, batch in enumerate(loader):
            if count == 3:
                workers = [w.process.pid for w in loader._workers._workers]
                print(*workers, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@unix
@each("start", METHODS)
def test_an_interrupt_ends_all(start: str, tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(start=start))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, problems = process.communicate(timeout=60)
    assert out.split() == ["interrupted"] and problems == ""
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


@unix
def test_workers_end_where_the_loop_is_killed(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(start="fork"))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    process.kill()
    process.wait()
    until = time.monotonic() + 30
    while any(map(_runs, workers)):
        assert time.monotonic() < until, "a worker outlives its loop"
        time.sleep(0.05)


def _runs(process: int) -> bool:
    """Whether a process is there and no zombie that nobody asks about."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
