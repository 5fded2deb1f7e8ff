"""Every spelling of a step follows plans, and comes to what it does without them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.runtime.conftest import in_parts
from treadle.engines.native.translation import residuals
from treadle.runtime import again, evaluate, steps

STEPS = 14


class Net:
    """A small network, its data and an optimizer, made anew from a seed."""

    def __init__(self) -> None:
        draw = np.random.default_rng(5)
        shapes = (6, 8), (8,), (8, 3), (3,)
        self.own = [
            td.param(init=draw.normal(size=s).astype("f") * 0.3) for s in shapes
        ]
        self.norm = td.nn.BatchNorm1d(8)
        self.layer = td.nn.LSTM(6, 8)
        for p in self.layer.parameters():
            p.assign(draw.normal(size=p.shape).astype("f") * 0.3)
        self.last: Any = None  # the state of the layer
        self.opt = td.optim.Adam(lr=0.01)
        self.data = [draw.normal(size=(5, 6)).astype("f") for _ in range(STEPS)]
        self.labels = draw.integers(0, 3, (STEPS, 5))
        self.seen: list[float] = []
        self.k = 0

        @td.function
        def step(x: Any, labels: Any) -> Any:
            return self.opt.step(td.cross_entropy(self.logits(x), labels))

        self.step = step

    def logits(self, x: Any, norm: bool = False) -> Any:
        a, b, c, d = self.own
        h = x @ a + b
        return td.relu(self.norm(h) if norm else h) @ c + d

    def batch(self) -> tuple[Any, Any]:
        self.k += 1
        return td.asarray(self.data[self.k - 1]), td.asarray(self.labels[self.k - 1])

    def loss(self, norm: bool = False) -> Any:
        x, labels = self.batch()
        return td.cross_entropy(self.logits(x, norm), labels)

    def carried(self) -> tuple[Any, Any]:
        """The loss of a sequence, and the layer's last state."""
        x, labels = self.batch()
        rows, state = self.layer(x[:, None, :], self.last)
        return td.cross_entropy(rows[:, 0] @ self.own[2] + self.own[3], labels), state

    def state(self) -> list[Any]:
        states = [self.norm.running_mean, self.norm.running_var, *self.opt.states()]
        states += self.layer.parameters()
        return [x.numpy().tolist() for x in (*self.own, *states)]


def plain(net: Net) -> None:
    net.opt.step(net.loss())


def looked_at(net: Net) -> None:
    loss = net.loss()
    net.seen.append(float(loss))
    net.opt.step(loss)


def backward(net: Net) -> None:
    net.loss().backward()
    net.opt.step()
    net.opt.zero_grad()


def looked_at_and_backward(net: Net) -> None:
    loss = net.loss()
    net.opt.zero_grad()
    net.seen.append(float(loss))
    loss.backward()
    net.opt.step()


def accuracy(net: Net) -> None:
    x, labels = net.batch()
    logits = net.logits(x)
    net.opt.step(td.cross_entropy(logits, labels))
    net.seen.append(float((logits.numpy().argmax(1) == labels.numpy()).mean()))


def logits_and_loss(net: Net) -> None:
    x, labels = net.batch()
    logits = net.logits(x)
    loss = td.cross_entropy(logits, labels)
    net.seen += [float(loss), float(logits.numpy().sum())]
    net.opt.step(loss)


def as_function(net: Net) -> None:
    net.seen.append(float(net.step(*net.batch())))


def normalized(net: Net) -> None:
    net.opt.step(net.loss(norm=True))


def normalized_and_looked_at(net: Net) -> None:
    loss = net.loss(norm=True)
    net.seen.append(float(loss))
    net.opt.step(loss)


def normalized_and_backward(net: Net) -> None:
    loss = net.loss(norm=True)
    loss.backward()
    net.opt.step()
    net.seen.append(float(loss))
    net.opt.zero_grad()


def normalized_twice(net: Net) -> None:
    loss = net.loss(norm=True)
    net.k -= 1
    (loss + net.loss(norm=True)).backward()
    net.seen.append(float(net.own[0].grad.sum()))
    net.opt.step()
    net.opt.zero_grad()


def gradients(net: Net) -> None:
    loss = net.loss()
    for x in td.evaluate(loss, *td.grad(loss, net.own)):
        net.seen.append(float(x.sum()))


def without_gradients(net: Net) -> None:
    with td.no_grad():
        net.seen.append(float(net.loss()))
    net.k -= 1
    net.opt.step(net.loss())


def truncated(net: Net) -> None:
    loss, state = net.carried()
    net.last = [td.stop_gradient(x) for x in state]
    net.seen.append(float(net.opt.step(loss)))


def truncated_by_value(net: Net) -> None:
    loss, state = net.carried()
    net.last = [x.numpy() for x in state]
    net.seen.append(float(net.opt.step(loss)))


def by_hand(net: Net) -> None:
    for p, g in zip(net.own, td.grad(net.loss(), net.own), strict=True):
        p.assign(p - 0.1 * g)
    net.seen.append(float(net.own[0].numpy().sum()))


def by_hand_and_evaluated(net: Net) -> None:
    loss = net.loss()
    for p, g in zip(net.own, td.grad(loss, net.own), strict=True):
        p.assign(p - 0.1 * g)
    net.seen += [float(x.sum()) for x in td.evaluate(loss, *net.own)]


def counted(net: Net) -> None:
    net.norm.num_batches_tracked += 1.0
    net.seen.append(float(net.loss()))


SPELLINGS: dict[str, Callable[[Net], None]] = {
    x.__name__: x
    for x in (
        *(plain, looked_at, backward, looked_at_and_backward, accuracy),
        *(logits_and_loss, as_function, normalized, normalized_and_looked_at),
        *(normalized_and_backward, normalized_twice),
        *(gradients, without_gradients, truncated, truncated_by_value, counted),
        *(by_hand, by_hand_and_evaluated),
    )
}


def followed(net: Net) -> int:
    """How many runs went by a plan."""
    plans = [net.opt._plans, evaluate._plans, net.own[0].plans]
    plans += [x.plans for x in net.step.traces.values()]
    return sum(x.hits for x in plans if x is not None)


def ran(spelling: Callable[[Net], None]) -> tuple[list[Any], list[float], int]:
    """States and what was seen, and how many runs followed a plan."""
    td.clear_cache()
    net = Net()
    before = followed(net)
    for _ in range(STEPS):
        spelling(net)
    return net.state(), net.seen, followed(net) - before


@pytest.mark.parametrize("name", SPELLINGS)
def test_plans_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, seen, hits = ran(SPELLINGS[name])
    runs = {"counted": 0, "truncated_by_value": 2}.get(name, 1)
    assert hits >= runs * (STEPS - 6)
    with monkeypatch.context() as patch:
        in_parts(patch)
        patch.setattr(again.Plans, "run", lambda *given: None)
        patch.setattr(again.Plans, "note", lambda *given: None)
        other, saw, none = ran(SPELLINGS[name])
    assert none == 0 and seen == saw and state == other
    with monkeypatch.context() as patch:  # the same plans, part by part
        in_parts(patch)
        patch.setattr(steps.RunPlan, "_run_at_once", lambda *given: None)
        other, saw, followed = ran(SPELLINGS[name])
    assert followed == hits and seen == saw and state == other


def test_spellings_in_turn_follow_plans_all_the_same() -> None:
    net, runs = Net(), 0
    for name in ("plain", "as_function", "normalized", "looked_at", "backward") * 6:
        if name == "plain":
            net.k = 0
        before = followed(net)
        SPELLINGS[name](net)
        runs += followed(net) > before
    assert runs >= 20


def test_a_value_no_gradient_follows_is_not_kept_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is kept for gradients is told by those that follow, plan or not."""
    monkeypatch.setattr(residuals, "IDLE", 8)
    net = Net()

    def kept() -> int:
        loss = net.loss()
        float(loss)
        every = [x for x in td.nodes(loss) if x.inputs and x.stored is not None]
        return len(every)

    for _ in range(4):
        looked_at(net)
    assert kept() > 1  # what the gradient reads
    net.data *= 3
    net.labels = np.concatenate([net.labels] * 3)
    for _ in range(12):
        last = kept()
    assert last == 1
    for _ in range(4):
        looked_at(net)
    assert kept() > 1


def test_what_was_assigned_is_seen_once_by_a_plan() -> None:
    net = Net()
    for k in range(8):
        net.opt.step(net.loss(norm=True))
        assert float(net.norm.num_batches_tracked) == k + 1
    held = net.norm.running_mean.node()
    before = held.numpy().copy()
    net.opt.step(net.loss(norm=True))
    np.testing.assert_array_equal(held.numpy(), before)
    assert (net.norm.running_mean.numpy() != before).any()


def test_an_expression_that_reads_what_was_assigned() -> None:
    net = Net()
    for _ in range(6):
        loss = net.loss(norm=True)
        later = net.norm.num_batches_tracked * 2.0
        net.opt.step(loss)
        assert float(later) == 2.0 * float(net.norm.num_batches_tracked)


def test_plans_keep_no_variable_alive() -> None:
    def use() -> list[Any]:
        found = []
        for _ in range(6):
            v, w = td.Variable(np.ones(3)), td.Parameter(np.ones(3))
            v.assign(v + 1.0)
            float((v * w).sum())
            x = (v * w).sum()
            x.backward()
            float(x)
            found += [weakref.ref(v), weakref.ref(w)]
        return found

    refs = use()
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_the_plan_that_was_used_last_goes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    xs = [td.constant(np.ones(n)) for n in (2, 3)]
    for x in xs:  # what they are made of is numbered then
        float(td.sum(x)), float(td.sum(x))
    plans = again.Plans()
    monkeypatch.setattr(evaluate, "_plans", plans)
    for _ in range(3):
        for x in xs:
            float(td.sum(x))
    first, second = plans._table
    float(td.sum(xs[0]))
    assert list(plans._table) == [second, first]
