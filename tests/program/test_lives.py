"""Memory of chains that run side by side: whatever threads do, they share none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treadle as td
from tests.program.branches import (
    WIDE,
    Both,
    linked_of,
    sequence,
    wrong,
    wrong_with,
)
from treadle.base.dtypes import float32
from treadle.base.types import Type
from treadle.engines.base import engine
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation import workspace
from treadle.program import chains
from treadle.program.lives import lives
from treadle.program.program import (
    Buffer,
    Fallback,
    ParallelRegion,
    Program,
    program_text,
)


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native", autobatch=False, seed=3):
        engine("native").programs.clear()  # type: ignore[attr-defined]
        yield


def test_memory_of_an_lstm() -> None:
    linked = linked_of(*Both().all(sequence(20), 20))
    assert linked.program.regions and linked.scratches
    assert wrong(linked) == []
    plain = Linked(replace(linked.program, regions=()))
    assert plain.workspace(2) <= linked.workspace(2) <= 1.5 * plain.workspace(2)


def test_the_judge_sees_what_chains_share() -> None:
    """A plan that takes the chains for steps in order is wrong."""
    linked = linked_of(*Both().all(sequence(6), 6))
    in_order = lives(replace(linked.program, regions=()), {})
    linked.lives = replace(in_order, place={**in_order.place})
    linked.workspaces, linked.scratches = {}, {}
    assert any("chain" in one for one in wrong(linked))


@st.composite
def programs(draw: Any) -> Program:
    """Steps without meaning that make and read buffers, with regions among them."""
    drawn = random.Random(draw(st.integers(0, 1 << 30)))
    regions: list[ParallelRegion] = []
    at = 0
    for _ in range(drawn.randrange(1, 4)):
        at += drawn.randrange(0, 4)
        own = tuple(drawn.randrange(1, 7) for _ in range(drawn.randrange(2, 5)))
        regions.append(ParallelRegion(at, own))
        at = regions[-1].stop
    count = at + drawn.randrange(0, 4)
    where = {
        k: (region.first, a)
        for region in regions
        for a, b in region.bounds
        for k in range(a, b)
    }
    buffers: list[Buffer] = []
    made: list[int] = []  # the step that makes each
    steps = []
    for k in range(count):
        seen = [
            n
            for n, m in enumerate(made)
            if where.get(m, (-m - 1, 0))[0] != where.get(k, (-k - 1, 0))[0]
            or where[m] == where[k]
        ]
        read = tuple(sorted(set(drawn.choices(seen, k=3)))) if seen else ()
        written = []
        for _ in range(drawn.randrange(1, 3)):
            t = Type((drawn.randrange(1, 60),), float32)
            buffers.append(Buffer(len(buffers), t, "arena"))
            made.append(k)
            written.append(len(buffers) - 1)
        steps.append(Fallback(None, None, read, tuple(written), (None, 0)))  # type: ignore[arg-type]
    return Program(tuple(buffers), tuple(steps), (), (), (), regions=tuple(regions))


@settings(max_examples=100, deadline=None)
@given(program=programs())
def test_chains_never_share_memory(program: Program) -> None:
    found = lives(program, {})
    uses = [list(s.read) for s in program.steps]
    makes = [list(s.written) for s in program.steps]
    assert wrong_with(program, found, uses, makes, {}, 5) == [], program_text(program)
    assert found.bound <= found.plan.size
    in_order = lives(replace(program, regions=()), {})
    assert in_order.bound <= found.bound


@settings(max_examples=100, deadline=None)
@given(program=programs())
def test_what_dies_in_some_steps_shares_no_byte_with_what_stays(
    program: Program,
) -> None:
    found = lives(program, {})

    def bytes_of(k: int) -> set[int]:
        begin = found.plan.offsets[k]
        return set(range(begin, begin + found.ranges[k].bytes))

    for region in program.regions:
        first, stop = region.first, region.stop
        numbers = [k for k, r in enumerate(found.ranges) if r.bytes]
        ends = [k for k in numbers if first <= found.ranges[k].last < stop]
        stays = [
            bytes_of(k)
            for k in numbers
            if found.ranges[k].first < stop <= found.ranges[k].last
        ]
        free = [k for k in ends if bytes_of(k).isdisjoint(set().union(*stays))]
        assert found.dying(first, stop) == free


def drawn(seed: int) -> list[td.Tensor]:
    """Several computations on few values, with what they share and where they meet."""
    draw = random.Random(seed)
    own = [td.asarray(x[:4, :8]) for x in WIDE]
    normal = np.random.default_rng(seed).standard_normal((3, 8, 8))
    matrices = [td.param(init=w.astype(np.float32) / 3) for w in normal]
    lines = [[x] for x in own]
    for _ in range(draw.randrange(20, 60)):
        line = draw.choice(lines)
        x = line[-1] if draw.random() < 0.8 else draw.choice(line)
        kind = draw.randrange(6)
        if kind < 3:
            line.append(td.tanh(x @ draw.choice(matrices)))
        elif kind == 3:
            line.append(x * 0.5 + draw.choice(line))
        elif kind == 4:
            line.append(td.softmax(x, 1) - x.sum(0))
        elif draw.random() < 0.3:
            line.append(td.tanh((x + draw.choice(draw.choice(lines))) @ matrices[0]))
    ends = [draw.choice(line) for line in lines] + [line[-1] for line in lines]
    if draw.random() < 0.5:
        loss = td.stack([(x * x).sum() for x in ends]).sum()
        ends += td.grad(loss, matrices, unused="zero")
    return ends


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 30))
def test_random_graphs_have_the_same_bits_in_regions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SYNC", "TINY", "QUANTUM"):  # as if threads cost nothing
        monkeypatch.setattr(chains, name, 1)
    found = []
    for mode, lanes in (("fast", 1), ("fast", 2), ("poison", 2)):
        engine("native").programs.clear()  # type: ignore[attr-defined]
        choose = workspace.side_by_side
        with monkeypatch.context() as patch, td.options(arena=mode, threads=2):
            patch.setattr(workspace, "side_by_side", lambda p, _, n=lanes: choose(p, n))
            roots = drawn(seed)
            linked = linked_of(*roots)
            found.append([x.numpy().tobytes() for x in roots])
        assert wrong(linked, 5) == []
    assert found[0] == found[1] == found[2]
