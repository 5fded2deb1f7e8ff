"""State: order of effects, temporary Variables, first values, assignments by name."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

ENGINES = ["native", "reference", "device"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sequence_is_done_in_order(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with td.options(engine=engine):
        w, seen = td.Variable(1.0), []
        with td.explicit_updates():
            y = td.sequential(
                [
                    lambda: td.print(w, "before"),
                    lambda: w.assign(w * 10),
                    lambda: td.callback(lambda x: seen.append(float(x)), w),
                    lambda: td.print(w, "after"),
                    lambda: w + 1,
                ]
            )
        assert float(w) == 1.0 and not seen  # nothing happens before it is asked for
        f = td.computation(y)
        assert [float(f()) for _ in range(2)] == [11.0, 101.0]
        assert float(w) == 100.0 and seen == [10.0, 100.0]
    labels = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert labels == ["before", "after"] * 2


def test_outside_a_guard_the_assignments_of_a_sequence_are_ordinary_ones() -> None:
    w = td.Variable(1.0)
    y = td.sequential([w.assign(w + 1), w * 10])
    assert float(w) == 2.0 and float(y) == 20.0


@pytest.mark.parametrize("engine", ENGINES)
def test_doall_does_all_whatever_is_asked_for(engine: str) -> None:
    with td.options(engine=engine):
        a, b, told = td.Variable(1.0), td.Variable(2.0), []
        with td.explicit_updates():
            items = td.doall(
                [
                    a.assign(a + b),
                    b.assign(a * b),
                    td.callback(lambda x: told.append(1), a),
                ]
            )
        f = td.computation(items[0])
        assert float(f()) == 3.0 and [float(a), float(b)] == [3.0, 2.0]
        assert told == [1]


def test_gradients_pass_a_sequence() -> None:
    x = td.param("x", init=3.0)
    y = td.sequential([x * 5.0, x * x])
    assert float(td.grad(y, [x])[0]) == 6.0


def test_a_sequence_in_a_function_a_loop_and_by_rows() -> None:
    seen: list[float] = []

    def told(x: Any) -> Any:
        return td.sequential([td.callback(lambda v: seen.append(float(v)), x), x * 2])

    x = td.asarray([1.0, 2.0])
    assert float(td.function(told)(x[0])) == 2.0
    assert td.map(told, x).tolist() == td.vmap(told)(x).tolist() == [2.0, 4.0]
    assert seen == [1.0, 1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda v: td.sequential([]), td.ArgumentError, "nothing in this sequential"),
        (lambda v: td.doall([]), td.ArgumentError, "nothing in this doall"),
        (lambda v: td.assign(v + 1, 2.0), td.ArgumentError, "not Tensor"),
        (lambda v: td.fill(v, [1.0, 2.0]), td.ShapeError, "with a scalar"),
        (lambda v: td.set_item(3.0, 0, 1.0), td.ArgumentError, "not float"),
        (lambda v: td.assign(v, np.ones(7)), td.ShapeError, "cannot be assigned"),
    ],
)
def test_wrong_assignments_are_refused(make: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        make(td.Variable([1.0, 2.0]))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda v: td.assign(v, 5.0), [5.0, 5.0, 5.0]),
        (lambda v: td.assign(v[1], 5.0), [0.0, 5.0, 2.0]),
        (lambda v: td.assign(v, td.value_of(v)[::-1]), [2.0, 1.0, 0.0]),
        (lambda v: td.fill(v, 7), [7.0, 7.0, 7.0]),
        (lambda v: td.fill(v[1:], 7), [0.0, 7.0, 7.0]),
        (lambda v: td.set_item(v, 2, 9.0), [0.0, 1.0, 9.0]),
        (lambda v: td.set_item(v, slice(0, 2), [8.0, 9.0]), [8.0, 9.0, 2.0]),
    ],
)
def test_assign_fill_set_item_and_value_of(change: Any, expected: Any) -> None:
    v = td.Variable([0.0, 1.0, 2.0])
    before = td.value_of(v)
    change(v)
    assert v.tolist() == expected and before.tolist() == [0.0, 1.0, 2.0]


# -- temporary and persistent Variables ----------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_temporary_variable_begins_anew_with_each_run(engine: str) -> None:
    with td.options(engine=engine):
        t, p = td.Temporary(np.zeros(3)), td.Variable(np.zeros(3))
        x = td.placeholder((3,), "float64")
        for v in (t, p):
            v += x
            v *= 2
        f = td.computation([t, p, t + p], x)
        first, second = f([1, 2, 3]), f([1, 2, 3])
        assert first[0].tolist() == second[0].tolist() == [2.0, 4.0, 6.0]
        assert second[1].tolist() == [6.0, 12.0, 18.0]
        assert second[2].tolist() == [8.0, 16.0, 24.0]
        assert t.tolist() == [0.0] * 3 and p.tolist() == [6.0, 12.0, 18.0]


def test_without_a_computation_a_run_is_what_carries_the_assignment_out() -> None:
    t = td.Temporary(1.0)
    t += 1
    y = t * 10
    assert float(t) == 2.0 and float(y) == 20.0  # after the run that asked for it
    assert float(t) == 1.0
    t += 5
    assert td.evaluate(t, t + 1) == (6.0, 7.0) and float(t) == 1.0


def test_a_step_leaves_the_initial_value_whole() -> None:
    t, w = td.Temporary(np.ones(1000)), td.param("w", init=1.0)
    for _ in range(3):
        t += w
        td.optim.SGD(lr=0.1).step((t * w).mean())
    assert t.numpy().sum() == 1000.0 and copy.deepcopy(t).numpy().sum() == 1000.0


def test_a_temporary_variable_stays_one_in_a_file(tmp_path: Path) -> None:
    t = td.Temporary(1.0, name="t")
    t += 1
    td.save(tmp_path / "f.safetensors", td.computation(t))
    f = td.load_computation(tmp_path / "f.safetensors")
    assert [float(f()) for _ in range(3)] == [2.0] * 3


# -- first values that are graphs ----------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_first_value_runs_once_before_the_first_use(engine: str) -> None:
    runs: list[int] = []

    def made() -> Any:
        return td.callback(lambda x: runs.append(1), td.random.normal((3,)))

    with td.options(engine=engine, seed=4):
        w = td.deferred(made, name="w", trainable=True)
        y = (w * w).sum()
        assert not runs and [u.op.variable for u in td.initializers(y)] == [w]
        assert td.initialize(y) == [w] and runs == [1] and td.initializers(y, w) == []
        assert td.initialize(y) == [] and runs == [1]
        first = w.numpy()
        assert isinstance(w, td.Parameter)
        np.testing.assert_allclose(td.grad(y, [w])[0].numpy(), 2 * first, rtol=1e-6)
        td.optim.SGD(lr=0.5).step((w * w).sum())
        np.testing.assert_allclose(w.numpy(), 0 * first, atol=1e-6)
        assert runs == [1]


def test_first_values_are_found_wherever_they_are_read() -> None:
    a = td.deferred(td.constant(2.0), name="a")
    b = td.deferred(a * 3.0, name="b")
    b += 1.0
    f = td.computation({"b": b, "sum": a + b})
    assert [u.op.variable.name for u in td.initializers(f, [b])] == ["a", "b"]
    assert float(f()["sum"]) == 9.0 and float(f()["b"]) == 8.0
    g = td.function(lambda x: x * td.value_of(a))
    assert float(g(td.constant(2.0))) == 4.0


def test_a_first_value_may_be_asked_for_in_any_thread() -> None:
    w = td.deferred(td.random.normal((100,)), name="w")
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append((w * 1).numpy().tobytes()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_a_deferred_variable_is_not_made_in_a_trace() -> None:
    with pytest.raises(td.TraceError, match="make it outside"):
        td.function(lambda x: td.deferred(x * 2.0) + x)(td.constant(1.0))


def test_in_a_transaction_a_first_value_stays() -> None:
    w = td.deferred(td.constant([1.0, 2.0]) * 2.0)
    with pytest.raises(ValueError), td.transaction():
        w += 1.0
        assert w.tolist() == [3.0, 5.0]
        raise ValueError
    assert w.tolist() == [2.0, 4.0]
