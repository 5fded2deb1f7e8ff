"""Runs written down and run again: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.runtime import rows


def data(seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((8, 6)).astype(np.float32)


@pytest.mark.parametrize("engine", ["native", "reference", "device"])
def test_training_steps_are_replayed_to_the_bit(engine: str) -> None:
    with td.options(engine=engine, seed=4):
        net = td.nn.Sequential(td.nn.Linear(6, 4), td.nn.Dropout(0.5))
        optimizer = td.optim.Adam(lr=0.1)
        with td.record() as log:
            for k in range(3):
                optimizer.step((net(data(k)) ** 2).sum())
    after = {k: np.array(v) for k, v in net.state_dict().items()}
    assert log.replay() >= 3
    assert log.replay(threads=1) == log.replay(threads=2)
    assert all(np.array_equal(after[k], v) for k, v in net.state_dict().items())
    results = [x for run in log.runs for x in run.results]
    assert any(np.array_equal(after["0.weight"], x) for x in results)


def test_another_engine_gives_the_same_within_a_tolerance() -> None:
    w = td.param("w", init=data())
    with td.record() as log:
        y = (td.exp(w) + td.random.normal((8, 6))).sum().numpy()
    (run,) = log.runs
    (native,), (found,) = run.results, run.replay(engine="reference")
    assert native.tobytes() == y.tobytes()
    np.testing.assert_allclose(found, native, rtol=1e-5)


def test_what_is_assigned_afterwards_does_not_matter() -> None:
    w = td.param("w", init=1.0)
    with td.record() as log:
        assert float(w * 2.0) == 2.0
        w.assign(w + 5.0)
        assert float(w) == 6.0
    w.assign(100.0)
    float(w)
    assert log.replay() == 2
    assert float(w) == 100.0


def test_values_before_gradients_are_replayed() -> None:
    w = td.param("w", init=data())
    with td.record() as log:
        loss = (td.tanh(w) ** 2).sum()
        float(loss)
        td.grad(loss, [w])[0].numpy()
    assert log.replay() == 2


def test_batched_runs_are_replayed() -> None:
    cell = td.nn.LSTMCell(6, 6)
    before = rows.counts.runs
    with td.record() as log:
        ends = []
        for k in range(10):
            state = td.zeros((1, 6)), td.zeros((1, 6))
            for _ in range(3 + k % 4):
                state = cell(td.asarray(data()[:1]), state)
            ends.append(state[0].sum())
        total = ends[0]
        for end in ends[1:]:
            total = total + end
        float(total)
    assert rows.counts.runs > before
    assert log.replay() >= 1


def test_computations_and_functions_are_replayed() -> None:
    p = td.placeholder((8, 6), name="p")
    count = td.Variable(0.0)
    count += p.sum()
    run = td.computation(count, p)
    with td.record() as log:
        run(data(1))
        td.function(lambda x: td.sin(x) * 2.0)(td.asarray(data(2))).numpy()
    assert log.replay() == 2


def test_the_seed_and_the_draws_are_told() -> None:
    with td.options(seed=9), td.record() as log:
        td.random.normal((2,)).numpy()
        td.random.normal((2,)).numpy()
    assert [(run.seed, run.draws) for run in log.runs] == [(9, 1), (9, 2)]


def test_a_run_that_comes_out_otherwise_is_told() -> None:
    x = td.asarray(data())
    with td.record() as log:
        td.exp(x).numpy()
    log.runs[0].results[0][3, 2] += 1.0
    with pytest.raises(td.RunError) as caught:
        log.replay()
    text = str(caught.value)
    assert "run 0 is not what it was: Exp" in text
    assert "1 of 48 elements, by at most 1" in text


def test_nothing_recorded_is_told_and_a_failing_run_is_left_out() -> None:
    with td.record() as log:
        pass
    with pytest.raises(td.ArgumentError, match="nothing was recorded"):
        log.replay()
    with td.record() as log, pytest.raises(td.TreadleError):
        td.placeholder((2,), name="p").numpy()
    assert not log.runs and repr(log) == "<recording of 0 runs>"
