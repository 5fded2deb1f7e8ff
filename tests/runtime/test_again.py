"""Steps that look like one before: the same bits as by the long way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.runtime.conftest import in_parts
from treadle.graph import look
from treadle.runtime import evaluate, steps

F = td.nn.functional
O = td.optim  # noqa: E741
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: O.SGD(lr=0.1),
    "momentum": lambda: O.Momentum(lr=0.1),
    "adam": lambda: O.Adam(lr=0.01),
    "adamw": lambda: O.AdamW(lr=0.01),
    "clipped": lambda: O.Adam(lr=0.01, clip_norm=0.5, clip_value=0.1),
    "accumulated": lambda: O.SGD(lr=0.1, accumulate=2),
    "skipping": lambda: O.SGD(lr=0.1, on_nan="skip"),
    "scheduled": lambda: O.SGD(lr=O.schedules.step(0.1, 2, 0.5)),
    "kahan": lambda: O.SGD(lr=0.1, kahan=True),
    "scaled": lambda: O.SGD(lr=0.1, loss_scale=8.0),
}


def network(rng: np.random.Generator) -> tuple[Any, Any]:
    layers = td.nn.Linear(5, 7), td.nn.Linear(7, 3)
    for layer in layers:
        shape = layer.weight.shape
        weight = rng.normal(size=shape).astype(np.float32)
        layer.load_state_dict({"weight": weight, "bias": np.zeros(shape[0], "f")})
    return layers


def trained(make: Callable[[], Any], way: str, steps: int = 7) -> list[Any]:
    """All that can be seen of some steps of training."""
    rng = np.random.default_rng(1)
    first, second = network(rng)
    optimizer, seen = make(), []
    for _ in range(steps):
        x = td.asarray(rng.normal(size=(4, 5)).astype(np.float32))
        logits = second(td.relu(first(x)))
        loss = F.cross_entropy(logits, td.asarray(rng.integers(0, 3, 4)))
        if way != "held":
            del logits
        if way == "gradients":
            optimizer.scaled(loss).backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.numpy())
        else:
            seen.append(optimizer.step(loss))
        if way == "held":
            assert not logits.inputs
            seen.append(logits.numpy())
    states = optimizer.state_dict()
    weights = [p.numpy() for m in (first, second) for p in m.parameters()]
    return [*seen, *states, *states.values(), *weights]


@pytest.mark.parametrize("way", ["loss", "held", "gradients"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_bits(
    name: str, way: str, hits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = trained(OPTIMIZERS[name], way)
    # The first has no states yet, the second is noted.
    assert len(hits) == (0 if name == "scaled" else 5)
    monkeypatch.setattr(look, "MOST", 0)
    del hits[:]
    long = trained(OPTIMIZERS[name], way)
    assert not hits
    assert len(known) == len(long)
    for a, b in zip(known, long, strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)


def stepper(**settings: Any) -> tuple[Any, Any, Callable[..., Any]]:
    w, optimizer = td.param("w", init=[1.0, -2.0]), O.SGD(lr=0.25, **settings)

    def step(x: Any = 1.0) -> Any:
        return optimizer.step(td.sum(w * w * td.asarray([x, 3.0])))

    return w, optimizer, step


def test_what_others_hold_stays(hits: list[Any]) -> None:
    w, _, step = stepper()
    for _ in range(5):
        step()
    before, node = w.numpy(), w * 2
    copy = before.copy()
    step()
    assert len(hits) == 4
    np.testing.assert_array_equal(before, copy)
    np.testing.assert_array_equal(node.numpy(), copy * 2)


def test_what_is_changed_between_counts(hits: list[Any]) -> None:
    w, optimizer, step = stepper()
    for _ in range(5):
        step()
    assert len(hits) == 3
    w.assign([4.0, 8.0])  # runs with the next step, which is another run
    step(0.0)
    np.testing.assert_array_equal(w.numpy(), [4.0, 8.0 - 0.25 * 48.0])
    optimizer.lr = 0.0
    before = w.numpy()
    step()
    np.testing.assert_array_equal(w.numpy(), before)
    optimizer.lr = 0.25
    w.trainable = False
    with pytest.raises(td.GradientError, match="trainable"):
        step()
    w.trainable = True
    optimizer.controls.clip_value = 0.5
    step()
    np.testing.assert_array_equal(w.numpy(), before - 0.125 * np.sign(before))


def test_errors_are_those_of_the_long_way(hits: list[Any]) -> None:
    table, optimizer = td.param("table", init=np.ones((3, 2), "f")), O.SGD(lr=0.25)

    def step(k: int) -> Any:
        return optimizer.step(td.sum(td.take(table, td.asarray([k, 1]), 0) ** 2))

    for k in (0, 1, 2, 1, 0):
        step(k)
    before, count = table.numpy().copy(), int(optimizer.count)
    assert len(hits) == 3
    for _ in range(2):
        with pytest.raises(td.TreadleError, match="7"):
            step(7)
    np.testing.assert_array_equal(table.numpy(), before)
    assert int(optimizer.count) == count
    step(2)


def test_transactions_undo_them(hits: list[Any]) -> None:
    w, optimizer, step = stepper()
    for _ in range(5):
        step()
    before = w.numpy().copy()
    with pytest.raises(ValueError, match="no"), td.transaction():
        step()
        step()
        raise ValueError("no")
    assert len(hits) == 5
    np.testing.assert_array_equal(w.numpy(), before)
    assert int(optimizer.count) == 5


def test_profiles_and_checks_take_the_long_way(hits: list[Any]) -> None:
    w, _, step = stepper()
    for _ in range(5):
        step()
    del hits[:]
    with td.options(check_numerics=True):
        step()
        with pytest.raises(td.TreadleError, match=r"finite|nan|NaN"):
            step(float("nan"))
    with td.options(eager=True):
        step()
    with td.options(engine="reference"):
        step()
    assert not hits
    step()
    assert len(hits) == 1
    assert np.isfinite(w.numpy()).all()


def test_cleared_caches(hits: list[Any]) -> None:
    _, _, step = stepper()
    for _ in range(5):
        step()
    td.clear_cache()
    step()
    assert len(hits) == 3  # its program is gone: it is noted
    step()
    assert len(hits) == 4


def test_derivatives_to_come_are_not_lost(hits: list[Any]) -> None:
    w, optimizer = td.param("w", init=3.0), O.SGD(lr=0.25)
    found = []
    for _ in range(5):
        loss = w * w
        (g,) = td.grad(loss, [w])
        optimizer.step(loss)
        found.append(float(g))
    np.testing.assert_allclose(found, [6.0, 3.0, 1.5, 0.75, 0.375])


def test_rows_frozen_later(hits: list[Any]) -> None:
    table = td.param("table", init=np.ones((3, 2), "f"))
    optimizer = O.SGD([table], lr=0.5)

    def step() -> None:
        table.grad = td.asarray(np.ones((3, 2), np.float32))
        optimizer.step()
        table.zero_grad()

    for _ in range(5):
        step()
    assert len(hits) == 4  # a first step begins states, and is followed, too
    table.freeze_rows([1])
    before = table.numpy()
    step()
    np.testing.assert_array_equal(table.numpy(), before - [[0.5], [0.0], [0.5]])


def test_one_program_and_no_more_memory(hits: list[Any]) -> None:
    weight, optimizer = td.param("weight", init=np.ones((64, 64), "f")), O.Adam()
    places = set()
    for _ in range(8):
        optimizer.step(td.sum(weight * weight))
        places.add(weight.committed.array.ctypes.data)  # type: ignore[union-attr]
    assert len(hits) == 6
    assert len(places) <= 2  # it is written over what it was


@pytest.mark.parametrize("backward", [False, True])
def test_what_is_assigned_before_a_step_is_written_by_it(
    hits: list[Any], backward: bool
) -> None:
    """The step is made from the version that waits, which is never committed."""
    found = []
    for waits in (True, False):
        w, v = (td.param(x, init=[1.0, 3.0]) for x in "wv")
        optimizer = O.SGD(lr=0.25, momentum=0.5)
        for k in range(7):
            for p in (w, v)[: k % 4]:
                p.assign(p * 0.5)
                assert waits or p.numpy().any()
            loss = (w * w * v * (k + 1.0)).sum()
            if backward:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            else:
                optimizer.step(loss)
            del loss
        found.append([x.numpy() for x in (w, v, *optimizer.states())])
        assert hits or not waits
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_a_variable_changed_by_another_thread(
    hits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, _, step = stepper()
    for _ in range(5):
        step()
    parts = steps.RunPlan._run_parts

    def meddling(plan: Any, values: Any) -> None:
        other = threading.Thread(target=change)
        other.start()
        other.join()
        parts(plan, values)

    def change() -> None:
        w.assign([5.0, 5.0])
        w.numpy()

    in_parts(monkeypatch)
    monkeypatch.setattr(steps.RunPlan, "_run_at_once", lambda plan, look: None)
    monkeypatch.setattr(steps.RunPlan, "_run_parts", meddling)
    with pytest.raises(td.StateError, match="was changed since"):
        step()
    np.testing.assert_array_equal(w.numpy(), [5.0, 5.0])


def test_many_nodes_made_between_cost_one_plan(hits: list[Any]) -> None:
    _, _, step = stepper()
    for _ in range(5):
        step()
    assert len(hits) == 3
    x = td.asarray(1.0)
    for _ in range(look.MADE + 1):
        x = x + 1.0
    step()  # what was made since might all be its graph
    assert len(hits) == 3
    step()
    assert len(hits) == 4


def test_plans_are_made_at_the_first_sight_again_in_cleared_caches() -> None:
    def run(n: int) -> float:
        return float(td.sum(td.asarray(np.ones(n, "f")) * 2.0))

    def hits() -> int:
        before = evaluate._plans.hits
        assert [run(3), run(3)] == [6.0, 6.0]
        return int(evaluate._plans.hits - before)

    td.clear_cache()
    for n in range(5, 40):  # none comes again
        td.evaluate(td.stack([td.asarray(1.0)] * n).sum(), td.asarray(2.0) * n)
    td.clear_cache()
    assert hits() == 1
