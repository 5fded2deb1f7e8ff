"""Two optimizers on one forward pass: old versions stand in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

nn, F = td.nn, td.nn.functional
RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((40, 2)).astype(np.float32)
NOISE = RNG.standard_normal((40, 3)).astype(np.float32)
BCE = F.binary_cross_entropy_with_logits
Net = Callable[[Any], Any]
Losses = tuple[Any, Any, Any]  # d_loss, g_loss (or what makes it), what else is held


def ones(y: Any) -> Any:
    return BCE(y, np.ones(y.shape, np.float32))


def zeros(y: Any) -> Any:
    return BCE(y, np.zeros(y.shape, np.float32))


def stopped(g: Net, d: Net) -> Losses:
    fake = g(NOISE)
    loss = ones(d(REAL)) + zeros(d(td.stop_gradient(fake)))
    return loss, lambda: ones(d(fake)), None


def whole(g: Net, d: Net) -> Losses:
    """The discriminator's loss leads to both."""
    fake = g(NOISE)
    return ones(d(REAL)) + zeros(d(fake)), lambda: ones(d(fake)), None


def shared(g: Net, d: Net) -> Losses:
    """One answer for both, and both losses are there before a step."""
    answer = d(g(NOISE))
    return ones(d(REAL)) + zeros(answer), ones(answer), None


def named(g: Net, d: Net) -> Losses:
    fake = g(NOISE)
    answer, real = d(fake), d(REAL)
    return ones(real) + zeros(answer), ones(answer), (fake, answer, real)


def looked_at(g: Net, d: Net) -> Losses:
    fake = g(NOISE)
    answer = d(fake)
    loss = ones(d(REAL)) + zeros(answer)
    fake.numpy(), float(loss)
    return loss, ones(answer), (fake, answer)


def by_rows(g: Net, d: Net) -> Losses:
    """An example at a time: what does the same is done as rows."""
    fakes = [g(z) for z in NOISE]
    answers = [d(x) for x in fakes]
    loss = td.stack([ones(d(x)) for x in REAL] + [zeros(y) for y in answers]).mean()
    return loss, td.stack([ones(y) for y in answers]).mean(), (fakes, answers)


def rows_later(g: Net, d: Net) -> Losses:
    fakes = [g(z) for z in NOISE]
    loss = td.stack([zeros(d(td.stop_gradient(x))) for x in fakes]).mean()
    return loss, lambda: td.stack([ones(d(x)) for x in fakes]).mean(), fakes


SPELLINGS = (stopped, whole, shared, named, looked_at, by_rows, rows_later)


def nets(function: bool) -> tuple[Net, Net, Any, Any]:
    with td.options(seed=1):
        g = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
        d = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    params = list(g.parameters()), list(d.parameters())
    return (td.function(g), td.function(d), *params) if function else (g, d, *params)


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize("make", SPELLINGS)
def test_both_train_as_their_gradients_say(make: Any, function: bool) -> None:
    g, d, gp, dp = nets(function)
    od, og = td.optim.SGD(dp, lr=0.5), td.optim.SGD(gp, lr=0.5)
    for _ in range(5):
        # The judge: gradients of a graph of its own. What reads the discriminator
        # after its step reads what it is then.
        loss, then, _ = make(g, d)
        moved = zip(dp, td.grad(loss, dp), strict=True)
        want = [p.numpy() - 0.5 * x.numpy() for p, x in moved]
        late = callable(then)
        if not late:
            more = [x.numpy() for x in td.grad(then, gp)]
        before = [p.numpy() for p in gp]
        loss, other, held = make(g, d)
        value = float(loss) if make is looked_at else None
        got = float(od.step(loss))
        assert value is None or value == got
        for p, x in zip(dp, want, strict=True):
            np.testing.assert_allclose(p.numpy(), x, rtol=1e-4, atol=1e-6)
        if late:
            g_loss = other()
            more = [x.numpy() for x in td.grad(then(), gp)]
            og.step(g_loss)
        else:
            og.step(other)
        for p, old, x in zip(gp, before, more, strict=True):
            np.testing.assert_allclose(p.numpy(), old - 0.5 * x, rtol=1e-4, atol=1e-6)
        del held


def test_what_only_the_step_has_trained_is_cut() -> None:
    net = nn.Linear(3, 2)
    y = net(NOISE)
    td.optim.SGD(lr=0.1).step((y * y).mean())
    with pytest.raises(td.GradientError, match="was let go"):
        td.grad(y.sum(), list(net.parameters()))


@pytest.mark.parametrize("many", [8, 4200])
def test_a_loss_keeps_its_gradient_whatever_is_evaluated_after_it(many: int) -> None:
    w = td.param("w", init=np.ones(3))
    loss = (w * w).sum()
    assert float(loss) == 3.0
    for k in range(many):
        float(w.sum() + k)
    td.optim.SGD(lr=0.5).step(loss)
    assert w.numpy().tolist() == [0.0] * 3


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_a_second_head_trains_on_a_trunk_that_a_step_has_used(
    rows: bool, look: bool, engine: str
) -> None:
    with td.options(engine=engine, seed=1):
        trunk, actor, critic = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)
        own = [*trunk.parameters(), *actor.parameters()]
        first, second = td.optim.SGD(own, lr=0.5), td.optim.SGD(critic, lr=0.5)
        for _ in range(4):
            inputs = [x[None] for x in NOISE[:6]] if rows else [NOISE]
            hidden = [td.tanh(trunk(x)) for x in inputs]
            policy = sum((td.square(actor(h)).mean() for h in hidden), td.asarray(0.0))
            value = sum((td.square(critic(h)).mean() for h in hidden), td.asarray(0.0))
            if look:
                float(policy)
            at_once = [x.numpy() for x in td.grad(value + 0, list(critic.parameters()))]
            want = [
                p.numpy() - 0.5 * g
                for p, g in zip(critic.parameters(), at_once, strict=True)
            ]
            del hidden
            first.step(policy)
            second.step(value)
            for p, x in zip(critic.parameters(), want, strict=True):
                np.testing.assert_allclose(p.numpy(), x, rtol=1e-4, atol=1e-6)


def test_what_was_let_go_twice_is_known_to_lead_to_both() -> None:
    a, b, c = (td.param(name, init=np.ones(3)) for name in "abc")
    h = td.exp(a)
    td.optim.SGD([a], lr=0.1).step((h * h).sum())
    z = h * b
    td.optim.SGD([b], lr=0.1).step((z * z).sum())
    for p in (a, b):
        with pytest.raises(td.GradientError, match="was let go"):
            td.grad((z * c).sum(), [p])
    with pytest.raises(td.GradientError, match="was let go"):
        td.grad((z * c).sum(), [c, a])
    np.testing.assert_allclose(td.grad((z * c).sum(), [c])[0].numpy(), z.numpy())
    td.optim.SGD([c], lr=1.0).step((z * c).sum())
    np.testing.assert_allclose(c.numpy(), 1 - z.numpy())
    with pytest.raises(td.GradientError, match="was let go"):
        td.optim.SGD(lr=1.0).step((z * c).sum())


def test_a_loss_that_others_are_behind_is_lost_to_them() -> None:
    a, b = td.param("a", init=np.ones(3)), td.param("b", init=np.ones(3))
    first = td.optim.SGD([a], lr=0.1)
    for _ in range(4):  # also as a plan
        loss = (a * b).sum()
        first.step(loss)
        with pytest.raises(td.GradientError, match="was let go"):
            td.grad(loss * b.sum(), [b])


def test_a_subset_trains_on_what_a_step_of_another_has_used() -> None:
    a, b = td.param("a", init=np.ones(3)), td.param("b", init=np.ones(3))
    optimizer, h = td.optim.SGD(lr=0.1), td.exp(a)
    first, second = (h * h).sum(), (h * b).sum()
    optimizer.update_subset([a], first)
    optimizer.update_subset([b], second)
    np.testing.assert_allclose(b.numpy(), 1 - 0.1 * np.exp(np.ones(3)))
