"""The memory of a run is told before it runs, and the largest batch is found so."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import treadle as td
from treadle.engines.native.execution.run import memory_of
from treadle.runtime.largest import _largest

RNG = np.random.default_rng(5)
X = RNG.standard_normal((64, 48)).astype(np.float32)
LAYERS = [td.nn.Linear(48, 48) for _ in range(6)]


def deep(x: Any, layers: int = len(LAYERS)) -> td.Tensor:
    for layer in LAYERS[:layers]:
        x = x + td.erf(layer(x))
    return x


def looped() -> td.Tensor:
    w = td.asarray(X[:48, :48])

    def body(c: Any, row: Any) -> Any:
        return td.tanh((c @ w) @ w), ()

    return td.scan(body, td.asarray(X), td.zeros((5,)))[0]


def pooled() -> td.Tensor:
    x = td.asarray(RNG.standard_normal((2, 3, 16, 16)).astype(np.float32))
    w = td.asarray(RNG.standard_normal((8, 3, 3, 3)).astype(np.float32))
    return td.nn.functional.max_pool2d(td.nn.functional.conv2d(x, w), 2)


GRAPHS: dict[str, Callable[[], Any]] = {
    "elementwise": lambda: td.sin(td.asarray(X)) * 2.0,
    "products": lambda: td.softmax(deep(td.asarray(X))),
    "gradients": lambda: td.grad(deep(td.asarray(X)).sum(), LAYERS[0].weight),
    "several results": lambda: (td.sort(td.asarray(X)), td.asarray(X).sum(0)),
    "a body that loops": looped,
    "convolution": pooled,
    "a fallback": lambda: td.linalg.inv(td.asarray(X[:48, :48])) @ X[:48, :48],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_foretold_is_what_a_run_takes(name: str) -> None:
    report = td.memory(GRAPHS[name]())
    td.evaluate(GRAPHS[name]())
    ran = td.latest_program()
    assert ran is not None
    assert report.planned == ran.memory.arena
    assert report.workspace == ran.memory.workspace
    assert report.results == ran.memory.results
    assert report.occupancy.live == ran.occupancy.live
    assert max(report.occupancy.live, default=0) <= report.planned


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("make", [td.optim.SGD, td.optim.Adam, td.optim.Adagrad])
def test_a_step_is_foretold(make: Any, limited: bool) -> None:
    optimizer = make(lr=0.01)
    natural = td.memory(deep(td.asarray(X)).mean(), optimizer=optimizer).workspace
    with td.options(workspace=natural * 7 // 10 if limited else 0):
        report = td.memory(deep(td.asarray(X)).mean(), optimizer=optimizer)
        assert int(optimizer.count) == 0, "nothing has run"
        optimizer.step(deep(td.asarray(X)).mean())
        ran = td.latest_program()
    assert ran is not None and report.workspace == ran.memory.workspace
    assert (report.workspace < natural) is limited
    parameters = sum(p.type.nbytes for layer in LAYERS for p in layer.parameters())
    assert report.parameters == parameters
    states = [v for v in optimizer.states() if v.shape]
    assert report.optimizer_state >= sum(v.type.nbytes for v in states)
    assert report.inputs == X.nbytes and report.results == 4


def test_a_placeholder_needs_no_value() -> None:
    x = td.placeholder((64, 48))
    with_data = td.memory(deep(td.asarray(X)).mean(), optimizer=td.optim.Adam())
    without = td.memory(deep(x).mean(), optimizer=td.optim.Adam())
    assert without.rows() == with_data.rows()
    assert td.lower(deep(x)).memory == td.lower(deep(td.asarray(X))).memory
    with td.options(check=True):
        assert td.memory(deep(x)).planned == td.memory(deep(td.asarray(X))).planned


def test_a_computation_is_as_it_is_called() -> None:
    x, count = td.placeholder((64, 48), name="x"), td.Variable(0, name="count")
    count.assign(count + 1)
    call = td.computation({"y": td.softmax(deep(x))}, x)
    report = td.memory(call)
    call(X)
    ran = td.latest_program()
    assert ran is not None and report.workspace == ran.memory.workspace
    assert int(count) == 1 and report.variables == 8 and report.inputs == X.nbytes


def test_pending_updates_stay_pending() -> None:
    v = td.Variable(np.zeros(1000, np.float32))
    v += 1.0
    report = td.memory(td.asarray(X).sum())
    assert report.variables == 4000
    assert float(v[0]) == 1.0


def test_what_is_held_is_a_result() -> None:
    optimizer = td.optim.SGD(lr=0.1)
    logits = deep(td.placeholder((64, 48)))
    report = td.memory(logits.mean(), optimizer=optimizer)
    assert report.results == 4 + X.nbytes


def test_holders_tell_the_lines_and_sum_up() -> None:
    report = td.memory(deep(td.placeholder((64, 48))).mean(), optimizer=td.optim.SGD())
    held = report.holders
    assert [h.bytes for h in held] == sorted((h.bytes for h in held), reverse=True)
    assert sum(h.bytes for h in held) == max(report.occupancy.live)
    assert all(f"{Path(__file__).name}:" in h.line for h in held if h.bytes > 64)
    assert any("x = x + td.erf(layer(x))" in h.line for h in held)
    text = str(report)
    assert f"{report.workspace:,}" in text and "fullest at step" in text
    assert f"{report.total:,}" in text.split("fullest")[0]
    assert report.timeline().count("\n") <= 24 and "#" in report.timeline()
    assert "workspace" in repr(report)


def test_values_never_share_memory_at_one_time() -> None:
    for make in GRAPHS.values():
        stays = td.memory(make()).occupancy.stays
        for k, one in enumerate(stays):
            for other in stays[:k]:
                apart = one.last < other.first or other.last < one.first
                below = one.offset + one.bytes <= other.offset
                assert apart or below or other.offset + other.bytes <= one.offset


def test_the_picture_has_every_value(tmp_path: Path) -> None:
    report = td.memory(deep(td.placeholder((64, 48))).mean(), optimizer=td.optim.SGD())
    picture = td.show_memory(report, path=tmp_path / "memory.svg")
    root = ElementTree.parse(tmp_path / "memory.svg").getroot()
    drawn = [e for e in root.iter() if e.tag.endswith("title")]
    assert len(drawn) == len(report.occupancy.stays)
    assert "td.erf" in picture.svg and picture.svg.count("<polyline") == 1
    words = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    legend = [line for line in words if "a value" in line]
    assert 1 <= len(legend) <= 7 and any("td.erf" in line for line in legend)
    assert td.show_memory(td.constant(1.0)).svg.startswith("<svg")
    with pytest.raises(td.ArgumentError):
        td.show_memory(report, optimizer=td.optim.SGD())


def step(n: int) -> td.Tensor:
    return deep(td.placeholder((n, 48)), 3).mean()


@pytest.mark.parametrize("recompute", [False, True])
def test_the_largest_batch_fits_and_one_more_does_not(recompute: bool) -> None:
    optimizer, limit = td.optim.Adam(lr=0.01), 100_000
    n = td.largest_batch(step, limit, optimizer, recompute=recompute)
    found = [
        td.fits(step(k), workspace=limit, optimizer=optimizer, recompute=recompute)
        for k in (n, n + 1)
    ]
    assert found == [True, False]
    assert int(optimizer.count) == 0
    with td.options(workspace=limit):
        optimizer.step(deep(np.zeros((n, 48), np.float32), 3).mean())
        if recompute:
            with pytest.raises(td.WorkspaceError):
                optimizer.step(deep(np.zeros((n + 1, 48), np.float32), 3).mean())


def test_recomputation_makes_room_for_more() -> None:
    sizes = [
        td.largest_batch(step, "100 kB", td.optim.SGD(), recompute=r, most=200)
        for r in (False, True)
    ]
    assert sizes[0] < sizes[1]


def test_the_search_ends_at_the_size() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        most = rng.choice([rng.randint(1, 60), 1 << 20])
        first, each = rng.randint(0, 1000), rng.randint(1, 50)
        limit = rng.randint(first + each, 100_000)
        noise = rng.choice([0, each, 1000])

        def needed(n: int) -> int:
            more = random.Random(n).randint(0, noise) if n > 1 else 0
            return first + each * n + more

        calls: list[int] = []

        def counted(n: int) -> int:
            calls.append(n)
            return needed(n)

        found = _largest(counted, limit, 1, rng.randint(1, 2000), most)
        assert found == most or needed(found) <= limit < needed(found + 1)
        assert found <= most and len(calls) < 40


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: td.largest_batch(step, 100), td.WorkspaceError, "workspace of 100 bytes"),
    (
        lambda: td.largest_batch(step, 100, recompute=False),
        td.WorkspaceError,
        "a batch of 1 needs",
    ),
    (lambda: td.largest_batch(step), td.ArgumentError, "no limit to fit in"),
    (lambda: td.largest_batch(step, 10**9, most=0), td.ArgumentError, "at least 1"),
    (lambda: td.fits(step(2), workspace="much"), td.OptionError, "'much'"),
    (
        lambda: td.memory(step(2), step(2), optimizer=td.optim.SGD()),
        td.ArgumentError,
        "one loss",
    ),
    (lambda: td.options(reserve=-1).__enter__(), td.OptionError, "negative"),
    (lambda: td.options(reserve="100 TB").__enter__(), td.RunError, "out of memory"),
]


@pytest.mark.parametrize("call, error, message", WRONG, ids=[w[2] for w in WRONG])
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_an_engine_without_programs_says_so() -> None:
    with (
        td.options(engine="reference"),
        pytest.raises(td.OptionError, match="'reference' has no programs"),
    ):
        td.memory(step(1))


def test_a_reserve_serves_the_runs_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = memory_of("fast").arena.pool
    caplog.set_level(logging.INFO, "treadle")
    with td.options(reserve="3 MB"):
        made = pool.made
        for n in (30, 300, 1000):
            deep(np.zeros((n, 48), np.float32)).numpy()
        assert pool.made == made, "the reserve holds them all"
        with td.options(engine="reference"):
            td.constant(1.0).numpy()
        pool.trim()
        deep(np.zeros((1000, 48), np.float32)).numpy()
        assert pool.made == made, "nothing takes it away"
        pool.trim()
        deep(np.zeros((20_000, 48), np.float32)).numpy()
        assert pool.made == made + 1
    told = [r.getMessage() for r in caplog.records]
    assert told[0] == "workspace: reserved 3.0 MB (3,000,000 bytes)"
    assert "more are taken than the 3.0 MB reserved" in told[1]
    assert told[-1] == "workspace: gave back the 3.0 MB reserved"
    assert len(told) == 3


def test_a_reserve_of_another_size_takes_the_place_of_the_first() -> None:
    pool = memory_of("fast").arena.pool
    with td.options(reserve=1 << 20):
        with td.options(reserve=1 << 21):
            assert [b.bytes for b in pool._ready] == [1 << 21]
        assert [b.bytes for b in pool._ready] == [1 << 20]
    pool.live_bytes()
    assert pool._ready == [] and pool._reserved == 0


def said_by_itself(*lines: str, **more: str) -> str:
    """What a program of its own prints, errors too."""
    environment = {k: v for k, v in os.environ.items() if "TREADLE" not in k}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        env={**environment, **more},
        check=True,
    )
    return done.stdout + done.stderr


def test_without_any_setting_everything_runs_and_nothing_is_said() -> None:
    program = "import treadle as td", "print(float(td.sum(td.ones((9,)))))"
    assert said_by_itself(*program) == "9.0\n"
    assert said_by_itself(*program, TREADLE_RESERVE="1 MB") == "9.0\n"


def test_the_environment_reserves() -> None:
    lines = (
        "import treadle as td",
        "from treadle.engines.native.execution.run import memory_of",
        "print(memory_of('fast').arena.pool._reserved)",
    )
    assert said_by_itself(*lines, TREADLE_RESERVE="1 MiB") == f"{1 << 20}\n"
