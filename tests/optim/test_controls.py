"""Accumulation, Kahan's sum, gradients that are not finite, loss scale, norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import treadle as td

Array = np.ndarray[Any, Any]
START = np.array([1.5, -2.0, 0.25])


def fresh(dtype: str = "float64", init: Any = START) -> td.Variable:
    return td.param("p", init=init, dtype=dtype)


def slope(p: td.Variable, g: Any) -> td.Tensor:
    """A loss with the gradient g."""
    return (p * td.asarray(np.asarray(g, p.dtype))).sum()


@pytest.mark.parametrize(
    ("every", "due"), [(2, [1, 3, 5, 7, 9]), (2.5, [2, 4, 7, 9]), (3, [2, 5, 8])]
)
@pytest.mark.parametrize("traced", [False, True])
def test_accumulation_updates_by_the_mean(
    every: float, due: list[int], traced: bool
) -> None:
    p, q = fresh(), fresh()
    optimizer = td.optim.Adam([p], 0.1, accumulate=every)
    plain = td.optim.Adam([q], 0.1)
    rng = np.random.default_rng(0)
    waiting: list[Array] = []

    def step(g: Any) -> Any:
        return optimizer.step((p * g).sum())

    run = td.function(step) if traced else step
    for k in range(10):
        g = rng.normal(size=3)
        waiting.append(g)
        before = p.numpy().copy()
        run(td.asarray(g))
        if k in due:
            plain.step(slope(q, np.mean(waiting, 0)))
            waiting = []
        else:
            assert p.numpy().tobytes() == before.tobytes()
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-12)
    assert int(optimizer.count) == len(due)


def test_accumulation_of_rows() -> None:
    table, whole = (td.param("t", init=np.ones((5, 2))) for _ in range(2))
    optimizer = td.optim.SGD([table], 1.0, accumulate=2)
    optimizer.step(td.rows(table, [1, 1]).sum())
    assert table.numpy().min() == 1.0
    optimizer.step(td.rows(table, [3]).sum())
    td.optim.SGD([whole], 0.5).step(td.rows(whole, [1, 1, 3]).sum())
    assert table.tolist() == whole.tolist()


def test_accumulated_gradients_are_kept() -> None:
    p, q = fresh(), fresh()
    first = td.optim.SGD([p], 0.1, accumulate=2)
    first.step(slope(p, [1.0, 2.0, 3.0]))
    again = td.optim.SGD([q], 0.1, accumulate=2)
    again.load_state_dict(first.state_dict())
    for optimizer, x in ((first, p), (again, q)):
        optimizer.step(slope(x, [3.0, 2.0, 1.0]))
    assert p.numpy().tobytes() == q.numpy().tobytes() != START.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kahan_keeps_what_rounding_loses(dtype: str) -> None:
    p, q = fresh(dtype, [1.0]), fresh(dtype, [1.0])
    tiny = 2.0**-26 if dtype == "float32" else 2.0**-11
    kahan = td.optim.SGD([p], lr=tiny, kahan=True)
    plain = td.optim.SGD([q], lr=tiny, masters=False)
    for _ in range(64):
        kahan.step(slope(p, [-1.0]))
        plain.step(slope(q, [-1.0]))
    assert float(q[0]) == 1.0
    assert float(p[0]) == 1.0 + 64 * tiny


def test_kahan_on_rows_and_under_momentum() -> None:
    table = td.param("t", init=np.ones((4, 2), np.float32))
    optimizer = td.optim.SGD([table], lr=2.0**-26, kahan=True)
    for _ in range(64):
        optimizer.step(-td.rows(table, [2]).sum())
    assert table.numpy()[2, 0] == np.float32(1 + 2.0**-20)
    assert table.numpy()[1, 0] == 1.0
    assert "t/compensation" in optimizer.state_dict()
    with pytest.raises(td.ArgumentError, match="rules that subtract"):
        td.optim.ExponentiatedGradient(kahan=True)


def test_weights_are_clipped_after_the_update() -> None:
    p = fresh()
    td.optim.SGD([p], 1.0, clip_weights=0.5).step(slope(p, [-1.0, 0.0, 0.0]))
    assert p.tolist() == [0.5, -0.5, 0.25]


def test_exponentiated_gradient() -> None:
    p = fresh(init=[0.2, 0.3, 0.5])
    optimizer = td.optim.ExponentiatedGradient([p], 0.5, momentum=0.9)
    want, v = np.array([0.2, 0.3, 0.5]), np.zeros(3)
    for _ in range(4):
        g = np.array([1.0, -1.0, 0.5]) * want
        v = 0.9 * v + g
        want = want * np.exp(-0.5 * v)
        want /= want.sum()
        optimizer.step((p * p * np.array([1.0, -1.0, 0.5])).sum() * 0.5)
        np.testing.assert_allclose(p.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("policy", ["skip", "raise", "scale down"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing(
    policy: str, sparse: bool
) -> None:
    table = td.param("t", init=np.ones((4, 2)), dtype="float64")
    optimizer = td.optim.Adam([table], 0.1, on_nan=policy)

    def loss(factor: float) -> td.Tensor:
        part = td.rows(table, [1, 2]) if sparse else table
        return (part * td.asarray(factor)).sum()

    optimizer.step(loss(1.0))
    before = {k: v.tobytes() for k, v in optimizer.state_dict().items()}
    values = table.numpy().tobytes()
    for bad in (math.nan, math.inf):
        if policy == "raise":
            with pytest.raises(td.RunError, match="of step 2 are not finite"):
                optimizer.step(loss(bad))
        else:
            optimizer.step(loss(bad))
    after = {k: v.tobytes() for k, v in optimizer.state_dict().items()}
    changed = {k for k in after if after[k] != before[k]}
    assert changed <= {"skipped", "loss_scale", "loss_scale_steps"}
    assert table.numpy().tobytes() == values and optimizer.skipped == 2
    if policy == "scale down":
        assert optimizer.loss_scale is not None
        assert optimizer.loss_scale.value == 65536.0 / 4
    optimizer.step(loss(1.0))
    assert int(optimizer.count) == 2 and np.isfinite(table.numpy()).all()


def test_raising_is_refused_in_a_traced_function() -> None:
    p = fresh()
    optimizer = td.optim.SGD([p], 0.1, on_nan="raise")
    with pytest.raises(td.ArgumentError, match="traced"):
        td.function(lambda: optimizer.step((p * p).sum()))()


def test_the_loss_scale_grows_and_backs_off() -> None:
    scale = td.optim.LossScale(8.0, interval=2, largest=16.0)
    p = fresh("float32")
    optimizer = td.optim.SGD([p], 0.0, loss_scale=scale)
    found = []
    for factor in (1.0, 1.0, 1.0, math.nan, 1.0, math.nan, 1.0, 1.0):
        optimizer.step(slope(p, [factor] * 3))
        found.append(scale.value)
    assert found == [8.0, 16.0, 16.0, 8.0, 8.0, 4.0, 4.0, 8.0]


def test_a_loss_scale_saves_what_float16_loses() -> None:
    p, q = (fresh("float16", [1.0]) for _ in range(2))
    x = np.array([2.0**-26], np.float32)

    def loss(v: td.Variable) -> td.Tensor:
        return ((v * td.asarray(1.0).astype("float16")).astype("float32") * x).sum()

    td.optim.SGD([p], 2.0**24, loss_scale=4096.0).step(loss(p))
    td.optim.SGD([q], 2.0**24).step(loss(q))
    assert float(p[0]) == 0.75
    assert float(q[0]) == 1.0


def test_accumulation_leaves_out_what_is_not_finite() -> None:
    p = fresh()
    optimizer = td.optim.SGD([p], 1.0, accumulate=2, on_nan="skip")
    for g in ([1.0] * 3, [math.nan] * 3, [3.0] * 3):
        optimizer.step(slope(p, g))
    np.testing.assert_allclose(p.numpy(), START - 2.0, rtol=1e-15)


@pytest.mark.parametrize("log", [False, True])
def test_norm_averages(log: bool) -> None:
    p = fresh()
    norms = td.optim.NormAverage(window=4, deviations=2.0, log=log)
    optimizer = td.optim.SGD([p], 1.0, norms=norms)
    mean = variance = 0.0
    for k, size in enumerate([3.0, 4.0, 3.5, 3.0, 4.0, 100.0]):
        before = p.numpy().copy()
        optimizer.step(slope(p, [size, 0.0, 0.0]))
        moved = before[0] - p.numpy()[0]
        usual = math.exp(mean) if log else mean
        assert moved == pytest.approx(usual if size == 100.0 else size)
        seen = math.log(size) if log else size
        part = 2.0 / (min(k + 1, 4) + 1.0)
        away = seen - mean
        mean, variance = mean + part * away, (1 - part) * (variance + part * away**2)
    assert norms.last == 100.0
    assert norms.mean == pytest.approx(math.exp(mean) if log else mean)
    assert norms.deviation == pytest.approx(math.sqrt(variance))


def test_a_restart_is_a_new_optimizer() -> None:
    p, q = fresh(), fresh()
    old = td.optim.Adam([p], 0.5, kahan=True)
    for _ in range(3):
        old.step(slope(p, [1.0, 2.0, 3.0]))
    p.assign(START)
    old.restart(0.1)
    new = td.optim.Adam([q], 0.1, kahan=True)
    for _ in range(2):
        old.step(slope(p, [3.0, 1.0, 2.0]))
        new.step(slope(q, [3.0, 1.0, 2.0]))
    assert p.numpy().tobytes() == q.numpy().tobytes()


def test_wrong_settings() -> None:
    for wrong, text in (
        ({"on_nan": "ignore"}, "skip, raise, scale down"),
        ({"accumulate": 0.5}, "Model.fit"),
    ):
        with pytest.raises(td.ArgumentError, match=text):
            td.optim.SGD(**wrong)
    with pytest.raises(td.ArgumentError, match="lies within"):
        td.optim.LossScale(0.5)


def test_penalties_have_their_gradients() -> None:
    p = fresh()
    penalty = td.optim.penalty
    for made, want in (
        (penalty.l1([p], 0.5), 0.5 * np.sign(START)),
        (penalty.l2([p], 0.5), START),
        (penalty.l2_norm([p], 2.0), 2.0 * START / np.linalg.norm(START)),
        (penalty.elastic_net([p], 2.0, 0.25), 0.5 * np.sign(START) + 1.5 * START),
    ):
        np.testing.assert_allclose(td.grad(made, [p])[0].numpy(), want, rtol=1e-14)
    zero = fresh(init=[0.0, 0.0])
    assert td.grad(penalty.l2_norm([zero]), [zero])[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "settings", [{}, {"kahan": True}, {"on_nan": "skip"}, {"clip_norm": 0.1}]
)
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_flush_applies_the_mean_of_what_waits(name: str, settings: Any) -> None:
    made: Any = getattr(td.optim, name)
    p, q = td.param("p", (3,), init=1.0), td.param("q", (3,), init=1.0)
    waits, at_once = made(lr=0.1, accumulate=4, **settings), made(lr=0.1, **settings)
    assert not waits.flush() and not at_once.flush()
    for k in range(6):
        waits.step((p * np.arange(k, k + 3, dtype="f4")).sum())
    for first in (0, 4):
        rows = [
            np.arange(k, k + 3, dtype="f4") for k in range(first, min(first + 4, 6))
        ]
        at_once.step((q * np.mean(rows, 0)).sum())
    assert waits.flush() and not waits.flush()
    np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-6)
    assert int(waits.count) == int(at_once.count) == 2
    before = p.numpy()
    for _ in range(3):
        waits.step(p.sum())
        assert p.numpy().tobytes() == before.tobytes(), "it waits for four again"
    waits.step(p.sum())
    assert p.numpy().tobytes() != before.tobytes()


def test_flush_leaves_out_what_is_frozen_and_keeps_bad_steps_out() -> None:
    p, q = td.param("p", init=1.0), td.param("q", init=1.0)
    optimizer = td.optim.SGD(lr=0.5, accumulate=3, on_nan="skip")
    optimizer.step(p * 2 + q * 2)
    optimizer.step(p * np.float32("nan") + q)
    q.trainable = False
    assert optimizer.flush()
    assert float(p) == 0.0 and float(q) == 1.0 and optimizer.skipped == 1


def test_flush_in_a_function() -> None:
    p = td.param("p", init=1.0)
    optimizer = td.optim.SGD(lr=0.5, accumulate=3)

    @td.function
    def end() -> None:
        optimizer.flush()

    optimizer.step(p * 2)
    end()
    assert float(p) == 0.0
    end()
    assert float(p) == 0.0 and int(optimizer.count) == 1
