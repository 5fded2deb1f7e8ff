"""Profiles: what ran, by kernel and by line, and the trace as a file."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from treadle.base.errors import ArgumentError
from treadle.base.events import watchers


def network(rows: int = 16) -> Any:
    x = td.ones((rows, 32))
    hidden = td.tanh(x @ td.param("w", (32, 32), init=0.1))
    return (hidden * hidden).sum()


def line_of_this_call() -> int:
    import sys

    return sys._getframe(1).f_lineno


def test_each_step_tells_its_line_bytes_and_operations() -> None:
    x, w = td.ones((16, 32)), td.param("w", (32, 8), init=0.1)
    y, line = x @ w, line_of_this_call()
    with td.profile() as p:
        y.numpy()
    (row,) = p.by_kernel()
    assert row.calls == 1 and row.seconds > 0.0
    assert row.flops == 2 * 16 * 32 * 8
    assert row.bytes == 4 * (16 * 32 + 32 * 8 + 16 * 8)
    assert len(row.lines) == 1 and f"test_profile.py:{line}: " in row.lines[0]
    (by_line,) = p.by_line()
    assert by_line.name == row.lines[0]


def test_operations_of_loops_are_counted() -> None:
    x = td.ones((100,))
    with td.profile() as p:
        (td.exp(x) * x).numpy()
        x.sum().numpy()
    assert [row.flops for row in sorted(p.by_kernel(), key=lambda r: r.name)] == [
        200,
        100,
    ]


def test_a_kept_program_tells_the_lines_of_its_graph_of_now() -> None:
    x = td.ones((7, 5))
    (x * 3.0 - 1.0).numpy()
    with td.profile() as p:
        line = line_of_this_call() + 1
        (x * 3.0 - 1.0).numpy()
    assert not p.by_stage()
    (row,) = p.by_line()
    assert f"test_profile.py:{line}: " in row.name


def test_stages_of_compilation_and_runs_are_noted() -> None:
    td.clear_cache()
    y = td.sin(td.ones((9,))) + 11.0
    with td.profile() as p:
        y.numpy()
    stages = [row.name for row in p.by_stage()]
    assert {"rewrite", "fuse", "machine code", "plan memory"} <= set(stages)
    (run,) = p.runs()
    assert run.seconds >= sum(row.seconds for row in p.by_stage())


def test_the_reference_engine_tells_of_nodes() -> None:
    with td.options(engine="reference"), td.profile() as p:
        network().numpy()
    assert {row.name for row in p.by_kernel()} >= {"Contract", "Tanh", "Sum"}


def test_what_has_no_kernel_is_told() -> None:
    with td.profile() as p:
        td.lgamma(td.ones((3,))).numpy()
    (row,) = p.by_kernel()
    assert row.name == "numpy LGamma" or "numpy" in row.name


def test_branches_and_loops_tell_of_their_bodies() -> None:
    with td.profile() as p:
        y = td.while_loop(lambda k: k < 3.0, lambda k: k + 1.0, td.constant(0.0))
        td.evaluate(y)
    assert any(e.kind == "kernel" for e in p.events)
    assert any(e.kind == "numpy" and "while" in e.name.lower() for e in p.events)


def test_batched_graphs_tell_of_moves_and_bodies() -> None:
    cell = td.nn.LSTMCell(4, 4)
    ends = []
    for count in (3, 5, 7, 4, 6, 8, 3, 5, 6, 7):
        state = td.zeros((1, 4)), td.zeros((1, 4))
        for _ in range(count):
            state = cell(td.ones((1, 4)), state)
        ends.append(state[0].sum())
    (td.ones(2) + 1.0).numpy()  # and with it what ended threads have assigned
    with td.profile() as p:
        td.evaluate(*ends)
    names = {row.name for row in p.by_kernel()}
    assert "gather" in names and any(name.startswith("product") for name in names)
    lines = {line for row in p.by_kernel() for line in row.lines}
    assert all("test_profile.py" in line for line in lines)  # not those of a cache


def test_rows_tell_where_they_were_written_not_the_first_of_their_kind() -> None:
    def grown(count: int) -> td.Tensor:
        y = td.ones((1, 11))
        for _ in range(count):
            y = td.tanh(y + td.ones((1, 11)))
        return y

    counts = (3, 5, 7, 4, 6, 8, 3, 5, 6, 7)
    first = [grown(count) for count in counts]
    td.evaluate(*first)
    again = [grown(count) for count in counts]
    with td.profile() as p:
        td.evaluate(*again)
    rows = [row for row in p.by_kernel() if row.name in ("add", "tanh")]
    assert rows and all("td.tanh(y + td.ones" in x for row in rows for x in row.lines)


def test_tables_are_text() -> None:
    with td.profile() as p:
        network().numpy()
    table = p.table()
    assert str(p) == table and "GFLOP/s" in table and "test_profile.py" in table
    for by in ("line", "compile", "run"):
        assert "ms in all" in p.table(by)
    assert "more" in p.table("kernel", most=1)
    with pytest.raises(ArgumentError, match="by one of kernel, line, compile, run"):
        p.table("color")


def test_a_trace_is_what_viewers_read(tmp_path: Path) -> None:
    td.clear_cache()
    with td.options(threads=2), td.profile() as p:
        network(4096).numpy()
    path = tmp_path / "trace.json"
    p.save(path)
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    done = [e for e in events if e["ph"] == "X"]
    assert len(done) == len(p.events) > 0
    for e in done:
        assert set(e) == {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
        assert e["ts"] >= 0.0 and e["dur"] >= 0.0 and e["tid"] in names
    assert min(e["ts"] for e in done) == 0.0
    (run,) = (e for e in done if e["cat"] == "run")
    kernels = [e for e in done if e["cat"] == "kernel"]
    for e in kernels:  # what an engine ran lies within its run
        assert run["ts"] <= e["ts"] <= e["ts"] + e["dur"] <= run["ts"] + run["dur"]
    for tid in names:  # parts on one thread follow each other
        own = sorted((e for e in kernels if e["tid"] == tid), key=lambda e: e["ts"])
        for a, b in pairwise(own):
            assert a["ts"] + a["dur"] <= b["ts"] + 1e-3


@needs_core
def test_parts_of_a_step_tell_their_threads() -> None:
    x = td.ones((1 << 20,))
    with td.options(threads=2), td.profile() as p:
        for _ in range(20):
            (x * 2.0 + 1.0).numpy()
    parts = [e for e in p.events if e.kind == "kernel"]
    assert len(parts) > 20
    assert {e.thread for e in parts} <= {threading.current_thread().name, "treadle-1"}
    (row,) = p.by_kernel()
    assert row.calls == 20 and row.flops == 20 * 2 << 20


def test_other_threads_are_seen_and_profiles_nest() -> None:
    def work() -> None:
        network().numpy()

    with td.profile() as outer:
        worker = threading.Thread(target=work, name="other")
        worker.start()
        worker.join()
        with td.profile() as inner:
            network().numpy()
    assert {e.thread for e in outer.events} >= {"other"}
    assert 0 < len(inner.events) < len(outer.events)


def test_values_are_the_same_and_nothing_is_left() -> None:
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    before = td.tanh(td.asarray(x)).numpy()
    with pytest.raises(ZeroDivisionError), td.profile():
        assert td.tanh(td.asarray(x)).numpy().tobytes() == before.tobytes()
        raise ZeroDivisionError
    assert not watchers


def test_an_empty_profile_is_shown(tmp_path: Path) -> None:
    with td.profile() as p:
        pass
    assert "ms in all" in str(p) and "0 parts" in repr(p)
    p.save(tmp_path / "none.json")
    assert json.loads((tmp_path / "none.json").read_text())["traceEvents"] == []
