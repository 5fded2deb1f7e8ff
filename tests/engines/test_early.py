"""Early results: told while the run goes on, final, however a graph is run."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.engines.early import Listener, listening
from treadle.runtime.again import Plans
from treadle.runtime.evaluate import run


def chain(depth: int) -> tuple[Any, list[Any]]:
    """A loss, and the gradients of so many layers, the last layer's first."""
    weights = [
        td.param(f"w{k}", init=np.full((90, 90), 0.01 * (k + 1), np.float32))
        for k in range(depth)
    ]
    x = td.ones((40, 90))
    for w in weights:
        x = td.tanh(x @ w)
    loss = x.sum()
    return loss, td.grad(loss, weights)[::-1]


def heard(depth: int) -> tuple[list[tuple[int, int]], int]:
    """Groups as they were told, with the steps until then, and those of all."""
    loss, gradients = chain(depth)
    told: list[tuple[int, int]] = []
    copies: dict[int, Any] = {}

    def tell(number: int, arrays: Any) -> None:
        told.append((number, steps()))
        (copies[number],) = (np.array(x) for x in arrays.values())

    def steps() -> int:
        return sum(e.kind == "kernel" for e in p.events)

    with td.profile() as p, listening(Listener([[g.serial] for g in gradients], tell)):
        values = td.evaluate(loss, *gradients)[1:]
    for number, x in copies.items():
        assert x.tobytes() == values[number].tobytes()
    return told, steps()


def test_results_are_told_in_the_order_in_which_they_come() -> None:
    with td.options(threads=1):
        for _ in range(3):  # compiled, planned, by the plan
            told, steps = heard(5)
            assert [number for number, _ in told] == [0, 1, 2, 3, 4]
            moments = [count for _, count in told]
            assert moments == sorted(set(moments)) and moments[0] < 0.7 * steps


def test_plans_of_later_runs_tell_as_the_first_run_does() -> None:
    """Nobody watches here, so that runs follow plans: told is what is not over yet."""
    weights = [
        td.param(f"w{k}", init=np.full((160, 160), 0.01 * (k + 1), np.float32))
        for k in range(4)
    ]
    plans, told = Plans(), list[int]()
    for turn in range(4):
        y = td.constant(np.full((40, 160), 1.0 + turn, np.float32))
        for w in weights:
            y = td.tanh(y @ w)
        loss = y.sum()
        gradients = td.grad(loss, weights)[::-1]
        told.clear()

        def tell(number: int, arrays: Any) -> None:
            told.append(number)
            assert all(isinstance(x, np.ndarray) for x in arrays.values())

        with listening(Listener([[g.serial] for g in gradients], tell)):
            run([loss, *gradients], cuts=True, plans=plans)
        assert told == [0, 1, 2, 3], turn
    assert plans.hits >= 2


def test_a_group_of_several_is_told_when_all_are_there() -> None:
    loss, gradients = chain(4)
    told: list[Any] = []
    groups = [[x.serial for x in group] for group in (gradients[:2], gradients[2:])]
    groups.append([])
    with listening(Listener(groups, lambda k, xs: told.append((k, sorted(xs))))):
        td.evaluate(loss, *gradients)
    assert told == [(k, sorted(group)) for k, group in enumerate(groups[:2])]


def test_bodies_of_loops_tell_nothing() -> None:
    x = td.ones((300, 300)) * td.asarray(1.5)
    told: list[Any] = []
    _, y = td.while_loop(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, state[1] * 2.0),
        (td.asarray(0), x),
    )
    with listening(Listener([[y.serial]], lambda k, xs: told.append(dict(xs)))):
        value = np.asarray(td.evaluate(y))
    assert value[0, 0] == 12.0
    for xs in told:
        np.testing.assert_array_equal(xs[y.serial], value)
