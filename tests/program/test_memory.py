"""Plans of memory: right by the independent checker, and close to what must be."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge import Owners, check, replay
from tests.program.workloads import Workload, chain, dag, residual, u_shape
from treadle.base.errors import ArgumentError
from treadle.program import memory
from treadle.program.memory import MemoryPlan, Range, largest_live_set, plan


def drawn(count: int, seed: int, kind: str = "any", first: int = 0) -> list[Range]:
    """Random lifetimes: any, short, or a mixture of long and short ones."""
    r = np.random.default_rng(seed)
    time = max(4, int(count * r.choice([0.25, 0.5, 1, 2])))
    start = r.integers(0, time, count)
    length = {
        "any": r.integers(0, time, count),
        "short": r.geometric(min(1, 8 / time), count) - 1,
        "mixed": np.where(
            r.random(count) < 0.3,
            r.integers(0, time, count),
            r.integers(0, max(2, time // 20), count),
        ),
    }[kind]
    size = [
        r.integers(0, 64, count) * 64,
        64 * 2 ** r.integers(0, 8, count),
        (np.exp(r.normal(0, 1.5, count)) * 1000).astype(int),
    ][seed % 3]
    last = np.minimum(start + length, time)
    return [
        Range(int(b), int(f) + first, int(e) + first)
        for b, f, e in zip(size, start, last, strict=True)
    ]


def right(ranges: list[Range], alignment: int = 64) -> float:
    """Checks a plan and gives its size over the largest live set."""
    found = plan(ranges, alignment)
    assert check(found, ranges, alignment) == []
    bound = largest_live_set(ranges, alignment)
    assert found.size >= bound
    return found.size / bound if bound else 1.0


lifetimes = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 12)),
    max_size=40,
).map(lambda rows: [Range(b, f, f + d) for b, f, d in rows])


@settings(max_examples=400, deadline=None)
@given(lifetimes, st.sampled_from([1, 16, 64, 256]))
def test_random_lifetimes_are_planned_right(
    ranges: list[Range], alignment: int
) -> None:
    right(ranges, alignment)


@pytest.mark.parametrize("kind", ["any", "short", "mixed"])
def test_three_thousand_plans_are_right_and_tight(kind: str) -> None:
    ratios = [right(drawn(2 + seed % 23, seed, kind)) for seed in range(1000)]
    assert np.mean(ratios) < 1.01 and max(ratios) < 1.25


@pytest.mark.parametrize("kind", ["any", "short", "mixed"])
@pytest.mark.parametrize("count", [60, 240, 700, 1500])
def test_random_lifetimes_of_any_number_stay_tight(count: int, kind: str) -> None:
    for seed in range(3):
        assert right(drawn(count, seed, kind)) <= 1.15, (count, seed)


@pytest.mark.parametrize(
    "build",
    [
        lambda: chain(20),
        lambda: chain(150, 1),
        lambda: chain(60, 2, late=True),
        lambda: residual(12),
        lambda: residual(30, late=True),
        lambda: u_shape(3),
        lambda: u_shape(6, late=True),
        lambda: dag(30),
        lambda: dag(300, 1),
        lambda: dag(40, 2, train=False),
    ],
)
def test_programs_are_within_a_twentieth_of_the_bound(
    build: Callable[[], Workload],
) -> None:
    assert right(build().ranges()) <= 1.05


def test_thousands_of_ranges_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert right(chain(1000, 3).ranges()) <= 1.05
    ranges = drawn(3000, 5, "mixed")
    one = right(ranges)
    monkeypatch.setattr(memory, "MANY", 1000)  # the rest is swept in above them
    assert one <= right(ranges) <= 1.15


def test_equal_ranges_give_equal_plans() -> None:
    for count in (5, 100, 600):
        ranges = drawn(count, count, "mixed")
        again = [Range(r.bytes, r.first, r.last) for r in ranges]
        assert plan(ranges) == plan(again)


def test_time_may_start_anywhere() -> None:
    moved = plan(drawn(80, 1, "mixed", first=1000))
    assert moved.size == plan(drawn(80, 1, "mixed")).size


def test_ranges_that_never_meet_share_their_bytes() -> None:
    found = plan([Range(100, k, k) for k in range(50)])
    assert found == MemoryPlan((0,) * 50, 128)


def test_a_step_shared_by_an_end_and_a_start_separates_them() -> None:
    found = plan([Range(64, 0, 3), Range(64, 3, 5)])
    assert found.size == 128 and sorted(found.offsets) == [0, 64]


def test_ranges_without_bytes_cost_nothing() -> None:
    assert plan([]) == MemoryPlan((), 0)
    assert plan([Range(0, 0, 9)] * 3) == MemoryPlan((0, 0, 0), 0)
    found = plan([Range(0, 0, 9), Range(65, 0, 9), Range(0, 4, 4), Range(1, 2, 3)])
    assert found.size == 192 and found.offsets[0] == found.offsets[2] == 0
    assert largest_live_set([]) == 0
    assert largest_live_set([Range(0, 0, 3), Range(1, 1, 1)]) == 64


def test_the_table_is_the_offsets() -> None:
    found = plan(drawn(20, 4))
    assert found.table.dtype == np.int64
    assert tuple(found.table.tolist()) == found.offsets


@pytest.mark.parametrize("bad", [Range(-1, 0, 1), Range(8, 3, 2), Range(8, -1, 2)])
def test_impossible_ranges_are_refused(bad: Range) -> None:
    with pytest.raises(ArgumentError, match="no such range"):
        plan([Range(8, 0, 1), bad])


def overlap(offsets: list[int], ranges: list[Range]) -> bool:
    """By comparing all pairs."""
    return any(
        a.first <= b.last
        and b.first <= a.last
        and x < y + b.bytes
        and y < x + a.bytes
        and a.bytes > 0
        and b.bytes > 0
        for i, (x, a) in enumerate(zip(offsets, ranges, strict=True))
        for y, b in list(zip(offsets, ranges, strict=True))[i + 1 :]
    )


@settings(max_examples=400, deadline=None)
@given(lifetimes, st.randoms(use_true_random=False))
def test_the_checker_agrees_with_all_pairs(
    ranges: list[Range], draw: random.Random
) -> None:
    ranges = ranges[:8]
    offsets = [64 * draw.randrange(0, 120) for _ in ranges]
    size = max((o + r.bytes for o, r in zip(offsets, ranges, strict=True)), default=0)
    wrong = check(MemoryPlan(tuple(offsets), size), ranges)
    assert bool(wrong) == overlap(offsets, ranges), wrong


def test_the_checker_names_what_is_wrong() -> None:
    ranges = [Range(64, 0, 2), Range(64, 1, 3)]
    assert check(MemoryPlan((0, 64), 128), ranges) == []
    (sentence,) = check(MemoryPlan((0, 0), 64), ranges)
    assert sentence == (
        "range 0 (bytes 0 to 64) is overwritten by [1] before step 2 ends"
    )
    assert (
        "outside the arena of 100 bytes" in check(MemoryPlan((0, 64), 100), ranges)[0]
    )
    assert "outside" in check(MemoryPlan((-64, 0), 128), ranges)[0]
    assert "not aligned" in check(MemoryPlan((0, 72), 136), ranges)[0]
    assert check(MemoryPlan((0,), 64), ranges) == ["2 ranges have 1 offsets"]
    assert "before it starts" in check(MemoryPlan((0,), 64), [Range(8, 2, 1)])[0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30))
def test_owners_are_those_of_an_array_of_bytes(
    writes: list[tuple[int, int]],
) -> None:
    owners, bytes = Owners(), np.full(80, -1)
    for owner, (begin, count) in enumerate(writes):
        owners.write(begin, begin + count, owner)
        bytes[begin : begin + count] = owner
        for low, high in ((0, 80), (begin, begin + count), (begin // 2, begin + 1)):
            seen = {who for *_, who in owners.among(low, high)}
            assert seen == set(bytes[low:high].tolist()) - {-1}
            for who in seen:
                whole = bool((bytes[low:high] == who).all())
                assert owners.owns(low, high, who) == whole


def replayed(load: Workload, offsets: dict[int, int], size: int) -> list[str]:
    made = {b for step in load.makes for b in step}
    return replay(
        [offsets.get(b, 0) for b in range(len(load.size))],
        load.size,
        size,
        load.uses,
        load.makes,
        elsewhere=load.outputs | set(range(len(load.size))) - made,
        kept=load.outputs,
    )


@pytest.mark.parametrize(
    "build",
    [lambda: chain(12), lambda: residual(4), lambda: u_shape(3), lambda: dag(9)],
)
def test_programs_replayed_on_their_plans_read_what_was_written(
    build: Callable[[], Workload],
) -> None:
    load = build()
    made = [b for step in load.makes for b in step if b not in load.outputs]
    found = plan(load.ranges())
    offsets = dict(zip(made, found.offsets, strict=True))
    assert replayed(load, offsets, found.size) == []
    for step, (out,) in enumerate(load.makes):
        for x in load.uses[step]:
            if x in offsets and out in offsets and load.size[x] and load.size[out]:
                wrong = replayed(load, offsets | {out: offsets[x]}, 1 << 40)
                assert any(f"step {step} writes buffer {out}" in w for w in wrong)


def any_order(load: Workload, seed: int) -> list[int]:
    """The steps of a workload in some order in which they can run."""
    maker = {b: s for s, made in enumerate(load.makes) for b in made}
    rng, left, turns = random.Random(seed), list(range(len(load.makes))), []
    while left:
        ready = [s for s in left if not any(maker.get(b) in left for b in load.uses[s])]
        turns.append(rng.choice(ready))
        left.remove(turns[-1])
    return turns


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 25), st.integers(0, 10_000), st.booleans())
def test_reordered_programs_replay_right(steps: int, seed: int, train: bool) -> None:
    load = dag(steps, seed, train)
    turns = any_order(load, seed)
    load.uses = [load.uses[s] for s in turns]
    load.makes = [load.makes[s] for s in turns]
    found = plan(load.ranges())
    made = [b for step in load.makes for b in step if b not in load.outputs]
    assert replayed(load, dict(zip(made, found.offsets, strict=True)), found.size) == []


def test_a_replay_tells_overwriting_unwritten_and_in_place() -> None:
    uses, makes = [[], [0], [1]], [[0], [1], [2]]
    same = ([0, 0, 64], [64, 64, 64], 128)
    (sentence,) = replay(*same, uses, makes)
    assert sentence == "step 1 writes buffer 1 over buffer 0, which it reads"
    assert replay(*same, uses, makes, in_place=[(1, 0, 1)]) == []
    assert "kept" not in str(replay(*same, uses, makes, in_place=[(1, 0, 1)], kept=[2]))
    lost = replay(*same, uses, makes, in_place=[(1, 0, 1)], kept=[0])
    assert lost == ["buffer 0 is read at the end after [1] overwrote it"]
    assert "never written" in replay([0], [8], 64, [[0]], [[]])[0]
    both = replay([0, 0], [64, 64], 64, [[]], [[0, 1]])
    assert both == [
        "buffer 0 is read after step 0, which made it, after [1] overwrote it"
    ]
    assert "outside" in replay([64], [64], 64, [[]], [[0]])[0]
