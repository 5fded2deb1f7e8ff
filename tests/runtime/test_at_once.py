"""Small plans, which the core runs while it holds Python's lock."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from tests.runtime.conftest import in_parts
from treadle.engines.base import engine
from treadle.engines.native.engine import Native
from treadle.engines.native.execution.small import RESULT
from treadle.runtime import steps
from treadle.runtime.at_once import CallPlan

pytestmark = needs_core


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether runs that could be done at once were."""
    found: list[bool] = []
    run, followed = Native.at_once, Native.followed

    def told(self: Native, *given: Any) -> Any:
        made = run(self, *given)
        if made is None:
            found.append(False)
        return made

    def noted(self: Native, last: Any) -> None:
        found.append(True)
        followed(self, last)

    monkeypatch.setattr(Native, "at_once", told)
    monkeypatch.setattr(Native, "followed", noted)
    return found


def stepper(*shape: int) -> tuple[td.Parameter, Callable[[], Any]]:
    """A parameter, and what makes it one more."""
    w = td.param("w", init=np.zeros(shape, np.float32))
    optimizer = td.optim.SGD(lr=1.0)
    return w, lambda: optimizer.step(-td.sum(w))


# What somebody holds of a Variable over a step, and the array in it.
HELD: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "the version": (lambda v: v.node(), lambda x: x.array),
    "an expression": (lambda v: v * 1.0, lambda x: x.numpy()),
    "the array": (lambda v: v.numpy(), lambda x: x),
    "a part": (lambda v: v.numpy()[1:], lambda x: x),
    "a part of a part": (lambda v: v.numpy().T[1:][:, 1], lambda x: x),
    "a buffer": (lambda v: memoryview(v.numpy()), np.asarray),
    "a copy": (copy.deepcopy, lambda x: x.numpy()),
    "another shape": (lambda v: td.reshape(v, (12,)).numpy(), lambda x: x),
    "the same": (lambda v: td.evaluate(v), lambda x: x),
    "it twice": (lambda v: td.evaluate(td.reshape(v, (12,)), v.T)[1], lambda x: x),
}


@pytest.mark.parametrize(("hold", "array"), HELD.values(), ids=list(HELD))
def test_what_is_held_stays(at_once: list[bool], hold: Any, array: Any) -> None:
    w, step = stepper(3, 4)
    for k in range(5):
        hold(w)
        step()
        held = hold(w)
        step()
        assert np.unique(array(held)).tolist() == [2.0 * k + 1]
    assert (w.numpy() == 10.0).all()
    assert sum(at_once) >= 5


def test_it_is_written_over_where_nobody_looks(at_once: list[bool]) -> None:
    w, step = stepper(64, 64)
    step(), step()
    places = set()
    for _ in range(6):
        step()
        places.add(w.committed.array.ctypes.data)  # type: ignore[union-attr]
    assert len(places) == 1 and sum(at_once) >= 6


def test_a_large_result_is_no_small_run(at_once: list[bool]) -> None:
    w = td.param("w", init=np.zeros(RESULT // 4 + 1, np.float32))
    for k in range(5):
        assert td.evaluate(w * 2.0 + k).sum() == k * w.size
    assert not at_once


def test_a_large_table_is_changed_where_it_lies(at_once: list[bool]) -> None:
    """A step of some rows costs the same in a table of any size."""
    table = td.param("table", init=np.zeros((RESULT // 8, 4), np.float32), sparse=True)
    optimizer = td.optim.Adam([table], lr=1.0)
    for k in range(6):
        held = table.numpy() if k == 5 else None
        before = None if held is None else held.copy()
        optimizer.step(-td.sum(td.rows(table, [1, 1, 3])))
    assert sum(at_once) >= 3
    np.testing.assert_array_equal(held, before)
    rows = table.numpy()[[0, 1, 2, 3]].sum(1)
    assert (rows[[0, 2]] == 0).all() and (rows[[1, 3]] > 20).all()


@pytest.mark.parametrize("trains", [False, True])
def test_a_position_out_of_range_changes_nothing(
    at_once: list[bool], trains: bool
) -> None:
    table = td.param("table", init=np.ones((4, 3), np.float32))
    optimizer = td.optim.Adam([table], lr=0.5, sparse_updates=False)
    ids = td.Variable(np.array([0, 1, 2]), name="ids")

    def run() -> None:
        loss = td.sum(table[ids] * 2.0)
        optimizer.step(loss) if trains else float(loss)

    for _ in range(4):
        run()
    assert any(at_once)
    before = [v.numpy().copy() for v in (table, *optimizer.states())]
    ids.assign(np.array([0, 1, 9]))
    ids.numpy()
    with pytest.raises(td.TreadleError, match="9"):
        run()
    after = [v.numpy() for v in (table, *optimizer.states())]
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)
    ids.assign(np.array([3, 3, 3]))
    run()


def test_small_steps_between_large_ones(at_once: list[bool]) -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=(64, 64))
    rows = {n: rng.normal(size=(n, 64)) for n in (4, 4096)}

    def train(engine: str) -> Any:
        w = td.param("w", init=first)
        optimizer = td.optim.Adam(lr=1e-3)
        with td.options(engine=engine):
            for k in range(24):
                x = rows[4096 if k % 4 == 3 else 4]
                optimizer.step(td.mean(td.tanh(x @ w) ** 2))
        return w.numpy()

    found = train("native")
    assert sum(at_once[-12:]) >= 11  # a large step holds Variables, for no small one
    assert np.allclose(found, train("reference"), rtol=1e-9)


def test_a_transaction_has_what_was_there(at_once: list[bool]) -> None:
    w, step = stepper(5)
    for _ in range(4):
        step()
    count = len(at_once)
    with pytest.raises(ZeroDivisionError), td.transaction():
        step()
        step()
        raise ZeroDivisionError
    assert len(at_once) == count and (w.numpy() == 4.0).all()


def test_python_that_runs_at_the_end_of_what_was_there(at_once: list[bool]) -> None:
    """What a run lets go of may evaluate, step, or empty the caches."""
    w, step = stepper(7)
    _, other = stepper(7)
    seen: list[float] = []

    class Last:
        def __del__(self) -> None:
            seen.append(float(td.sum(w)))
            other()
            td.clear_cache()

    for _ in range(4):
        step(), other()
    for _ in range(4):
        last = Last()
        weakref.finalize(w.committed, lambda last=last: None)
        del last
        step()
        gc.collect()
    assert (w.numpy() == 8.0).all() and len(seen) >= 3
    assert all(x in {7.0 * k for k in range(9)} for x in seen)


def test_values_whose_arrays_lie_otherwise(at_once: list[bool]) -> None:
    """Arrays that are not in C order take the long way, and come to the same."""
    data = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for k in range(6):
        x = td.asarray(data.T.copy().T if k % 2 else data, copy=False)
        np.testing.assert_array_equal(td.sum(x, axis=0).numpy(), data.sum(0))


def test_another_thread_assigns_between_the_look_and_the_run(
    at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, step = stepper(3)
    for _ in range(4):
        step()
    run = steps.RunPlan.run

    def assigned(plan: Any, look: Any) -> Any:
        w.assign(np.full(3, 20.0, np.float32))
        w.numpy()
        return run(plan, look)

    with monkeypatch.context() as patch, pytest.raises(td.StateError, match="changed"):
        in_parts(patch)
        patch.setattr(steps.RunPlan, "run", assigned)
        step()
    assert (w.numpy() == 20.0).all()


def test_a_plan_that_is_not_what_is_wanted_any_more_is_made_anew(
    at_once: list[bool],
) -> None:
    w = td.param("w", init=np.zeros(3, np.float32))
    optimizer = td.optim.SGD(lr=1.0)
    for _ in range(5):
        optimizer.step(-td.sum(w))
    (plan,) = [x for x in optimizer._plans._table.values() if x is not True][-1:]
    assert at_once[-1] and isinstance(plan, steps.RunPlan) and plan.quick is not None
    vars(plan)["quick"] = (plan.small, (lambda: False,), (), plan.last, False)
    runs = len(at_once)
    optimizer.step(-td.sum(w))
    assert len(at_once) == runs and all(
        x is not plan for x in optimizer._plans._table.values()
    )
    for _ in range(2):
        optimizer.step(-td.sum(w))
    assert at_once[-1] and (w.numpy() == 8.0).all()


def test_plans_outlive_the_programs_that_are_kept(
    at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code stays while a plan leads to it."""
    w, step = stepper(11)
    for _ in range(4):
        step()
    native = engine("native")
    assert isinstance(native, Native)
    monkeypatch.setattr(native.programs, "limit", 1)
    for n in range(12, 16):  # which push it out
        float(td.sum(td.exp(td.asarray(np.ones((n, 3), np.float32)))))
    gc.collect()
    count = sum(at_once)
    for _ in range(4):
        step()
    assert sum(at_once) >= count + 4 and (w.numpy() == 8.0).all()


class Counted:
    """A function with a step, and what it trains."""

    def __init__(self) -> None:
        self.w = td.param("w", init=np.zeros(3, np.float32))
        optimizer = td.optim.SGD(lr=1.0)

        @td.function
        def step(x: Any, y: Any) -> Any:
            return optimizer.step(-td.sum(self.w * x) - 0.0 * td.sum(y)), x - y

        self.step = step


def test_calls_of_a_function_with_a_step(at_once: list[bool]) -> None:
    own = Counted()
    one, two = (td.asarray(np.full(3, k, np.float32)) for k in (1.0, 2.0))
    for _ in range(6):  # of the same operand first
        assert own.step(one, one)[1].tolist() == [0.0, 0.0, 0.0]
    for k in range(6):
        count = len(at_once)
        loss, apart = own.step(two, one)
        assert float(loss) == -3.0 * 2.0 * (6.0 + 2.0 * k)
        assert apart.tolist() == [1.0, 1.0, 1.0]
        assert loss.inputs == () and (k < 4 or sum(at_once[count:]) == 1)
    assert own.w.tolist() == [18.0, 18.0, 18.0]
    own.w.assign(np.ones(3, np.float32))  # what waits is carried out first
    own.step(one, two)
    assert own.w.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ZeroDivisionError), td.transaction():
        own.step(one, two)
        raise ZeroDivisionError
    assert own.w.tolist() == [2.0, 2.0, 2.0]
    own.w.trainable = False
    with pytest.raises(td.GradientError):
        own.step(one, two)
    own.w.trainable = True
    own.w.freeze_rows([0])
    own.step(one, two)
    assert own.w.tolist() == [2.0, 3.0, 3.0]


@pytest.mark.parametrize("way", ["held", "expression"])
def test_what_a_function_with_a_step_finds_held(at_once: list[bool], way: str) -> None:
    own, x = Counted(), td.asarray(np.ones(3, np.float32))
    for k in range(8):
        held = own.w.numpy() if way == "held" else own.w * 1.0
        own.step(x, x + 1.0 if k % 2 else x * 2.0)
        now = held if way == "held" else held.numpy()  # type: ignore[union-attr]
        assert now.tolist() == [float(k)] * 3


def test_computations_go_by_plans_without_their_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = td.placeholder((3,), name="x"), td.placeholder((), name="y")
    w = td.param("w", init=np.ones(3, np.float32))
    count = td.Variable(0)
    count.assign(count + 1)
    compute = td.computation([w * x + y, *td.grad((w * x * x).sum(), [x]), count], x, y)
    calls = []
    monkeypatch.setattr(
        CallPlan, "run", lambda *given, run=CallPlan.run: calls.append(0) or run(*given)
    )
    optimizer = td.optim.SGD(lr=1.0)
    for k in range(12):
        given = np.array([k, 1.0, 2.0], np.float32)
        value, slope, counted = compute(given, np.array(k, np.float32))
        weights = w.numpy()
        assert np.allclose(value, weights * given + k) and counted == k + 1
        assert np.allclose(slope, 2 * weights * given)
        kept = value.copy()
        if k % 3 == 0 and k < 7:
            optimizer.step((w * w).sum() * 0.1)
        if k == 7:
            w.trainable = False
        assert np.array_equal(value, kept)
    assert len(calls) >= 6
    with pytest.raises(td.ShapeError, match="placeholder 'x'"):
        compute(np.ones(4, np.float32), np.float32(1.0))
    with td.transaction():
        before = count.numpy()
        compute(given, np.array(1.0, np.float32))
    assert count.numpy() == before + 1
