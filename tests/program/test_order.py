"""Orders of steps: always valid, with a peak near the lowest there is."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.program.workloads import Workload, chain, dag, residual, u_shape
from treadle.base.errors import ArgumentError
from treadle.program.order import order, peak


class Judge:
    """Dependence and lifetimes again, in the plainest way."""

    def __init__(self, load: Workload) -> None:
        self.load = load
        self.count = len(load.uses)
        maker = {b: s for s, made in enumerate(load.makes) for b in made}
        self.before = [
            {maker[b] for b in uses if b in maker} - {s}
            for s, uses in enumerate(load.uses)
        ]
        self.touching: list[tuple[int, set[int]]] = []
        for b, s in maker.items():
            if b not in load.outputs:
                readers = {t for t, uses in enumerate(load.uses) if b in uses}
                self.touching.append((load.size[b], {s, *readers}))

    def peak(self, found: Sequence[int]) -> int:
        place = {s: k for k, s in enumerate(found)}
        live = np.zeros(self.count + 1, np.int64)
        for size, steps in self.touching:
            places = [place[s] for s in steps]
            live[min(places) : max(places) + 1] += size
        return int(live.max())

    def valid(self, found: Sequence[int]) -> bool:
        place = {s: k for k, s in enumerate(found)}
        return sorted(found) == list(range(self.count)) and all(
            place[b] < place[s] for s in found for b in self.before[s]
        )

    def drawn(self, draw: random.Random) -> list[int]:
        """A random order: any of the ready steps next."""
        after: list[list[int]] = [[] for _ in self.before]
        for s, before in enumerate(self.before):
            for b in before:
                after[b].append(s)
        wait = [len(before) for before in self.before]
        ready = [s for s in range(self.count) if not wait[s]]
        found = []
        while ready:
            step = ready.pop(draw.randrange(len(ready)))
            found.append(step)
            for s in after[step]:
                wait[s] -= 1
                if not wait[s]:
                    ready.append(s)
        return found

    def lowest(self) -> int:
        """The lowest peak of all orders, by search over sets of steps done."""
        masks = [sum(1 << b for b in before) for before in self.before]
        touch = [(size, sum(1 << s for s in t)) for size, t in self.touching]
        best, heap, everything = {0: 0}, [(0, 0)], (1 << self.count) - 1
        while heap:
            height, done = heapq.heappop(heap)
            if done == everything:
                return height
            for step in range(self.count):
                bit = 1 << step
                if done & bit or masks[step] & done != masks[step]:
                    continue
                live = sum(
                    size for size, m in touch if m & bit or (m & done and m & done != m)
                )
                new = max(height, live)
                if new < best.get(done | bit, new + 1):
                    best[done | bit] = new
                    heapq.heappush(heap, (new, done | bit))
        raise AssertionError


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10_000), st.booleans())
def test_orders_are_valid_and_never_worse_than_creation(
    steps: int, seed: int, train: bool
) -> None:
    load = dag(steps, seed, train)
    judge = Judge(load)
    found = order(*load.all)
    assert judge.valid(found)
    assert peak(found, *load.all) == judge.peak(found)
    assert peak(found, *load.all) <= peak(range(judge.count), *load.all)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 20), st.integers(0, 10_000), st.data())
def test_steps_run_after_those_they_were_told_to(
    steps: int, seed: int, data: st.DataObject
) -> None:
    load = dag(steps, seed)
    count = len(load.uses)
    after: list[list[int]] = [[] for _ in range(count)]
    for _ in range(8):
        step = data.draw(st.integers(1, count - 1))
        after[step].append(data.draw(st.integers(0, step - 1)))
    found = order(*load.all, after)
    assert Judge(load).valid(found)
    place = {s: k for k, s in enumerate(found)}
    assert all(place[b] < place[s] for s in range(count) for b in after[s])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_peak_of_any_order_is_counted_right(
    steps: int, seed: int, draw: random.Random
) -> None:
    judge = Judge(dag(steps, seed))
    found = judge.drawn(draw)
    assert peak(found, *judge.load.all) == judge.peak(found)


LOADS = [
    lambda: chain(12),
    lambda: chain(20, 1, late=True),
    lambda: residual(5),
    lambda: residual(5, late=True),
    lambda: u_shape(3),
    lambda: u_shape(3, late=True),
    *(lambda seed=seed: dag(16, seed) for seed in range(4)),
    *(lambda seed=seed: dag(40, seed, train=False) for seed in range(4)),
]


@pytest.mark.parametrize("build", LOADS)
def test_orders_are_as_good_as_the_best_of_a_thousand_random_ones(
    build: Callable[[], Workload],
) -> None:
    load = build()
    judge, draw = Judge(load), random.Random(1)
    best = min(peak(judge.drawn(draw), *load.all) for _ in range(1000))
    assert peak(order(*load.all), *load.all) <= 1.1 * best


def test_small_graphs_come_close_to_the_lowest_peak() -> None:
    ratios = []
    for seed in range(60):
        load = dag(11, seed, train=False) if seed % 2 else dag(3, seed)
        if len(load.uses) <= 17:
            lowest = Judge(load).lowest()
            ratios.append(peak(order(*load.all), *load.all) / max(1, lowest))
    assert len(ratios) > 40
    assert min(ratios) >= 1 and max(ratios) < 1.25 and np.mean(ratios) < 1.02


def test_updates_left_to_the_end_move_to_their_gradients() -> None:
    load = chain(40, 2, late=True)
    created = peak(range(len(load.uses)), *load.all)
    assert peak(order(*load.all), *load.all) < 0.75 * created


def test_the_creation_order_stays_where_nothing_is_gained() -> None:
    load = u_shape(4)
    assert order(*load.all) == list(range(len(load.uses)))


def test_a_deep_chain_and_equal_results() -> None:
    load = chain(600, 4, late=True)
    found = order(*load.all)
    assert Judge(load).valid(found)
    assert order(*load.all) == found


def test_inputs_and_outputs_count_for_nothing() -> None:
    uses, makes = [[0], [1], [2]], [[1], [2], [3]]
    size = [10**9, 100, 50, 10**9]
    assert peak([0, 1, 2], uses, makes, size, {3}) == 150
    assert peak([0, 1, 2], uses, makes, size, {1, 3}) == 50
    assert peak([], [], [], [], set()) == 0
    assert order([], [], [], set()) == []


def test_a_buffer_nobody_reads_lives_in_its_step_only() -> None:
    assert peak([0, 1], [[], []], [[0], [1]], [100, 70], set()) == 100


def test_steps_that_write_one_buffer_keep_their_turns() -> None:
    """Readers between two writers see the first one's bytes."""
    uses: list[list[int]] = [[], [0], [], [0], [1, 2]]
    makes = [[0], [1], [0], [2], [3]]
    for size in ([1, 1000, 1, 1], [1000, 1, 1, 1], [1, 1, 1, 1000]):
        assert order(uses, makes, size, {3}) == [0, 1, 2, 3, 4]
    # An input overwritten in place after its reader; it never counts.
    found = order([[0], [], [1]], [[1], [0], [2]], [64, 8, 8], {2})
    assert found.index(0) < found.index(1)
    assert peak([0, 1, 2], [[0], [], [1]], [[1], [0], [2]], [64, 8, 8], {2}) == 8


def test_a_step_after_a_later_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match="step 0 comes before step 1"):
        order([[], []], [[0], [1]], [8, 8], set(), [[1], []])
