"""Chains side by side as they run: bits, memory, failures, updates, what is told."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import RunError
from treadle.base.events import Event
from treadle.engines.base import engine
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.pool import pool
from treadle.program.program import Fallback, Launch

RNG = np.random.default_rng(12)
ROWS, WIDTH = 3, 17  # nothing is a multiple of a vector
X = RNG.standard_normal((12, ROWS, WIDTH)).astype(np.float32)
IDS = RNG.integers(0, 50, (2, 16))


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native", autobatch=False, seed=3):
        engine("native").programs.clear()  # type: ignore[attr-defined]
        yield


def latest() -> Linked:
    found: Linked = engine("native").latest_linked()  # type: ignore[attr-defined]
    return found


class Both:
    """A bidirectional LSTM, cell by cell: states, and gradients of their squares."""

    def __init__(self, width: int = WIDTH) -> None:
        self.cells = [td.nn.LSTMCell(width, width) for _ in range(2)]

    def __call__(self, xs: Sequence[Any]) -> list[td.Tensor]:
        found = []
        for cell, order in zip(self.cells, (xs, xs[::-1]), strict=True):
            state, states = (td.zeros(xs[0].shape), td.zeros(xs[0].shape)), []
            for x in order:
                state = cell(td.asarray(x), state)
                states.append(state[0])
            found.append(td.stack(states if order is xs else states[::-1]))
        y = td.concat(found, axis=-1)
        own = [p for cell in self.cells for p in cell.parameters()]
        return [y, *td.grad((y * y).sum(), own)]


@pytest.mark.parametrize("mode", ["fast", "poison", "guard"])
def test_threads_and_memory_change_no_bit(
    mode: str, take: Callable[[int], None]
) -> None:
    both = Both()
    with td.options(engine="reference"):
        meant = td.evaluate(*both(X))
    take(1)
    wanted = [x.copy() for x in td.evaluate(*both(X))]
    assert len(latest().program.regions) == 2
    for ours, theirs in zip(wanted, meant, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    step = td.function(lambda: tuple(both(X)))
    with td.options(arena=mode):
        for count in (1, 2, 4):
            take(count)
            for _ in range(200 if mode == "fast" else 3):
                found = td.evaluate(*step())
                for ours, before in zip(found, wanted, strict=True):
                    assert ours.tobytes() == before.tobytes(), count


def test_directions_of_a_layer_are_loops_side_by_side(
    take: Callable[[int], None],
) -> None:
    layer = td.nn.LSTM(WIDTH, 64, bidirectional=True)
    x = td.asarray(RNG.standard_normal((40, 8, WIDTH)).astype(np.float32))

    def run() -> list[bytes]:
        y = layer(x)[0]
        weights = list(layer.parameters())
        found = td.evaluate(y, *td.grad((y * y).sum(), weights))
        return [value.tobytes() for value in found]

    take(1)
    wanted = run()
    program = latest().program
    inside = {k for r in program.regions for k in range(r.first, r.stop)}
    loops = {k for k, s in enumerate(program.steps) if isinstance(s, Fallback)}
    assert len(loops) == 4 and loops <= inside
    for count in (2, 4):
        take(count)
        assert all(run() == wanted for _ in range(20))
    for mode in ("poison", "guard"):
        with td.options(arena=mode):
            assert run() == wanted
    with td.profile():
        assert run() == wanted


def test_loops_of_a_region_are_by_their_rule_where_somebody_watches(
    take: Callable[[int], None],
) -> None:
    take(2)
    layer = td.nn.LSTM(WIDTH, 64, bidirectional=True)
    x = td.asarray(RNG.standard_normal((40, 8, WIDTH)).astype(np.float32))
    layer(x)[0].numpy()
    linked = latest()
    inside = {k for r in linked.program.regions for k in range(r.first, r.stop)}
    loops = set(linked.inner)
    assert loops and loops <= inside
    for cut in (linked.pieces, linked.watched):
        steps = [k for piece in cut for k in range(piece.first, piece.stop)]
        assert steps == list(range(len(linked.program.steps)))
        for piece in cut:
            records = [linked.spans[k] for k in range(piece.first, piece.stop)]
            if loops.isdisjoint(range(piece.first, piece.stop)):
                assert piece.records >= sum(n for _, n in records)
            else:
                assert piece.stop == piece.first + 1 and not piece.records


class Towers:
    """Two towers of layers on rows of two tables, trained on the squares of both."""

    def __init__(self, depth: int = 10, width: int = 64) -> None:
        def drawn(*shape: int) -> td.Parameter:
            return td.param(init=RNG.standard_normal(shape).astype(np.float32) / 8)

        self.tables = [drawn(50, width) for _ in range(2)]
        self.layers = [[drawn(width, width) for _ in range(depth)] for _ in range(2)]
        self.all = [*self.tables, *self.layers[0], *self.layers[1]]
        self.optimizer = td.optim.SGD(lr=0.002)

    def loss(self, ids: Any) -> td.Tensor:
        ends = []
        for table, layers, own in zip(self.tables, self.layers, ids, strict=True):
            x = td.embedding(table, own)
            for w in layers:
                x = td.tanh(x @ w)
            ends.append((x * x).sum())
        return ends[0] + ends[1]

    def step(self, ids: Any = IDS) -> float:
        return float(self.optimizer.step(self.loss(ids)))

    def values(self) -> list[bytes]:
        return [w.numpy().tobytes() for w in self.all]


def test_updates_are_done_in_chains_where_the_weights_lie(
    take: Callable[[int], None],
) -> None:
    found = []
    first = [w.numpy().copy() for w in Towers().all]
    for count in (1, 2, 4):
        take(count)
        towers = Towers()
        for w, x in zip(towers.all, first, strict=True):
            w.assign(x)
        towers.step()
        places = [w.committed.stored.ctypes.data for w in towers.all]
        losses = [towers.step() for _ in range(5)]
        assert places == [w.committed.array.ctypes.data for w in towers.all]
        found.append((losses, towers.values()))
        program = latest().program
        over = {result for result, _ in program.shared}
        inside = {n for k in program.chain_of for n in program.steps[k].written}
        assert len(over & inside) >= len(towers.layers[0])
    assert found[0] == found[1] == found[2]
    assert found[0][0] == sorted(found[0][0], reverse=True), "it learns"


@pytest.mark.parametrize("count", [1, 2])
def test_a_wrong_position_in_a_chain_changes_nothing(
    count: int, take: Callable[[int], None]
) -> None:
    """Rows are looked up by what each tower has computed."""
    take(count)
    towers, total = Towers(), td.Variable(np.zeros(2, np.float32))
    table = td.asarray(RNG.standard_normal((16, 64)).astype(np.float32))

    def ends(ids: Any) -> list[td.Tensor]:
        found = []
        for layers, own in zip(towers.layers, ids, strict=True):
            x = table
            for k, w in enumerate(layers):
                x = td.tanh(x @ w)
                if k == 5:
                    x = td.embedding(x, own)
            found.append(x.sum())
        return found

    def step(ids: Any) -> bytes:
        total.assign(total + td.stack(ends(ids)))
        return bytes(total.numpy().tobytes())

    first = step(IDS % 16)
    program = latest().program
    steps = [program.steps[k] for k in program.chain_of]
    assert sum(isinstance(s, Launch) and s.kernel.checks for s in steps) == 2
    for side in range(2):
        ids = IDS % 16
        ids[side, 1] = 16
        with pytest.raises(RunError, match="id 16 is out of range for extent 16"):
            step(ids)
        assert total.numpy().tobytes() == first
    assert step(IDS % 16) != first


def test_the_memory_of_chains_is_foretold_and_limited() -> None:
    xs = RNG.standard_normal((40, 8, 32)).astype(np.float32)
    both = Both(32)
    report = td.memory(both(xs)[0])
    wanted = both(xs)[0].numpy().tobytes()
    ran, linked = td.latest_program(), latest()
    assert ran is not None and linked.program.regions
    assert report.planned == ran.memory.arena == linked.plan.size
    assert report.workspace == ran.memory.workspace
    assert max(report.occupancy.live) <= report.planned
    plain = Linked(replace(linked.program, regions=())).workspace(pool().threads)
    assert plain < report.workspace
    with td.options(workspace=report.workspace - 1):
        assert both(xs)[0].numpy().tobytes() == wanted
        ran = td.latest_program()
    assert ran is not None and ran.memory.workspace < report.workspace
    assert not latest().program.regions, "in order they take less"


def test_numbers_that_are_not_finite_are_found() -> None:
    both = Both()
    x = X.copy()
    x[5, 1, 3] = np.inf
    with (
        td.options(check_numerics=True),
        pytest.raises(td.RunError, match=r"infinit|NaN"),
    ):
        td.evaluate(*both(x))


def overlap(events: Sequence[Event]) -> int:
    """How often a kernel begins on one thread while another one's runs on another."""
    found, ends = 0, {}
    for e in sorted(events, key=lambda e: e.begin):
        found += any(end > e.begin for t, end in ends.items() if t != e.thread)
        ends[e.thread] = e.end
    return found


def test_a_trace_shows_each_chain_on_its_thread(tmp_path: Path) -> None:
    both, seen = Both(48), 0
    xs = RNG.standard_normal((120, 16, 48)).astype(np.float32)
    # Data of its own for each run: what the same data gave is not computed again.
    step = td.function(lambda x: tuple(both(list(x))))
    td.evaluate(*step(xs))
    chain_of = latest().program.chain_of
    # Regions with loops are taken apart while somebody watches.
    steps, wanted = latest().program.steps, set()
    for k, region in enumerate(latest().program.regions):
        own = steps[region.first : region.stop]
        if not any(isinstance(step, Fallback) for step in own):
            wanted |= {(k, chain) for chain in range(len(region.chains))}
    assert len(wanted) > 1
    for k in range(50):  # a worker may sleep through a run
        with td.profile() as p:
            td.evaluate(*step(xs + np.float32(k)))
        kernels = [e for e in p.events if e.kind == "kernel"]
        threads = defaultdict(set)
        for e in kernels:
            step_number = e.number & 0xFFFFFFFF
            if step_number in chain_of:
                threads[chain_of[step_number]].add(e.thread)
        assert threads.keys() >= wanted
        assert all(len(threads[chain]) == 1 for chain in wanted)
        seen = overlap(kernels)
        if seen or pool().threads < 2:
            break
    assert seen or pool().threads < 2
    path = tmp_path / "trace.json"
    p.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"] for e in events if e.get("cat") == "kernel"}
    assert len(tracks) == min(pool().threads, 2)
