"""Claims: what they are held against, and what becomes of them."""

from __future__ import annotations

import pytest

from benchmarks.verdict import best_peer, judge, quartiles, verdict
from benchmarks.workload import Claim

TIMES = {
    ("step", "time"): {
        "treadle": [9.0, 4.0, 5.0],
        "torch": [10.0, 12.0, 8.0],
        "torch-compile": [6.0, 7.0, 900.0],
        "jax": [20.0, 20.0, 20.0],
    },
    ("step", "memory"): {"treadle": [30.0], "torch": [90.0], "jax": [10.0]},
    ("one", "time"): {"treadle": [2.0], "torch": [4.0]},
    ("two", "time"): {"treadle": [2.0], "torch": [1.0]},
    ("exp", "bound"): {"treadle": [0.9]},
}


@pytest.mark.parametrize(
    ("value", "floor", "goal", "higher", "expected"),
    [
        (0.5, 0.8, 0.5, False, "goal met"),
        (0.8, 0.8, 0.5, False, "floor met"),
        (0.81, 0.8, 0.5, False, "below the floor"),
        (0.95, 0.85, 0.95, True, "goal met"),
        (0.85, 0.85, 0.95, True, "floor met"),
        (0.84, 0.85, 0.95, True, "below the floor"),
        (0.4, None, 0.33, False, "goal not met"),
        (0.9, 0.8, None, False, "below the floor"),
        (0.7, 0.8, None, False, "floor met"),
        (7.0, None, None, False, ""),
    ],
)
def test_a_value_is_held_against_floor_and_goal(
    value: float, floor: float | None, goal: float | None, higher: bool, expected: str
) -> None:
    assert verdict(value, floor, goal, higher) == expected


def test_the_fastest_is_the_least_median_not_the_least_sample() -> None:
    found = judge(Claim("step", "time", "fastest", 0.8, 0.5), TIMES)
    assert (found.peer, found.ratio) == ("torch-compile", 4.0 / 7.0)
    assert found.verdict == "floor met"


def test_a_ratio_is_the_median_of_those_of_each_turn() -> None:
    """A machine that was slow in one turn was so for both."""
    claim = Claim("step", "time", "fastest", 0.8, 0.5)
    own, other = [1.0, 50.0, 60.0, 1.1], [2.0, 100.0, 100.0, 2.0]
    found = judge(claim, {("step", "time"): {"treadle": own, "torch": other}})
    assert found.ratio == pytest.approx(0.525)


def test_a_library_stands_for_its_variants_alone() -> None:
    assert best_peer(TIMES["step", "time"], "torch") == "torch-compile"
    assert best_peer(TIMES["step", "time"], "jax") == "jax"
    assert best_peer({"torch": [1.0], "torch-x": [2.0]}, "torch-x") == "torch-x"
    memory = judge(Claim("step", "memory", "torch", 0.5, 1 / 3), TIMES)
    assert (memory.peer, memory.verdict) == ("torch", "goal met")


def test_patterns_take_the_worst_or_the_geometric_mean() -> None:
    worst = judge(Claim("[ot][nw][eo]", "time", "fastest", 1.0, None), TIMES)
    assert (worst.ratio, worst.cases, worst.peer) == (2.0, 2, "torch")
    mean = judge(Claim("[ot][nw][eo]", "time", "fastest", 1.0, 0.9, "mean"), TIMES)
    assert mean.ratio == pytest.approx(1.0)
    assert mean.verdict == "floor met"


def test_of_a_bound_more_is_better() -> None:
    found = judge(Claim("*", "bound", "bound", 0.85, 0.95), TIMES)
    assert (found.ratio, found.verdict) == (0.9, "floor met")


def test_what_was_not_measured_is_said() -> None:
    claim = Claim("step", "time", "fastest", 0.8, 0.5)
    alone = {("step", "time"): {"treadle": [1.0]}}
    assert judge(claim, alone).verdict == "no peer was measured"
    assert judge(claim, {}).verdict == "treadle was not measured"
    other = Claim("step", "time", "dynet", 0.8, 0.5)
    assert judge(other, TIMES).verdict == "no dynet was measured"


def test_quartiles_of_few() -> None:
    assert quartiles([3.0]) == (3.0, 3.0)
    assert quartiles([4.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 4.0)
