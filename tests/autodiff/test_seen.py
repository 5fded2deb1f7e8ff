"""Gradients of losses that look like one before, where assignments wait for the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff import gradient
from treadle.runtime import again

nn, F = td.nn, td.nn.functional


def values(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Task:
    """A network that is normalized, or followed by the mean of what it was."""

    def __init__(self, normalized: bool) -> None:
        middle = [nn.BatchNorm1d(6)] if normalized else []
        self.net = nn.Sequential(nn.Linear(4, 6), *middle, nn.Tanh(), nn.Linear(6, 3))
        self.target = nn.Linear(4, 3)
        for k, p in enumerate([*self.net.parameters(), *self.target.parameters()]):
            p.assign(values(*p.shape, seed=k))
        self.optimizer = td.optim.Adam(self.net.parameters(), lr=0.01)

    def step(self, k: int, follows: bool) -> float:
        x = td.asarray(values(5, 4, seed=100 + k))
        loss = ((self.net(x) - self.target(x).detach()) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if follows:
            with td.no_grad():
                for p in self.target.parameters():
                    p.assign(p * 0.9 + 0.1 * p.mean())
        return float(loss)

    def state(self) -> list[Any]:
        every = {**self.net.state_dict(), **self.target.state_dict()}
        return [np.asarray(x).tolist() for x in every.values()]


CASES = {"normalized": (True, False), "followed": (False, True), "both": (True, True)}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_beside_assignments_is_derived_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    normalized, follows = CASES[name]
    td.clear_cache()
    task, analyzed = Task(normalized), 0
    analyze: Callable[..., Any] = gradient.analyze

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal analyzed
        analyzed += 1
        return analyze(*given, **more)

    monkeypatch.setattr(gradient, "analyze", counted)
    losses = [task.step(k, follows) for k in range(10)]
    assert 1 <= analyzed <= 3
    monkeypatch.setattr(gradient, "seen", lambda loss: None)
    other = Task(normalized)
    assert losses == [other.step(k, follows) for k in range(10)]
    assert task.state() == other.state()


def test_a_loss_that_reads_what_was_assigned_is_derived_by_that() -> None:
    w = td.param(init=np.ones(3, np.float32))
    optimizer = td.optim.SGD([w], lr=0.5)
    for k in range(4):
        w.assign(w * 0 + float(k))
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        assert w.numpy().tolist() == [0.0] * 3
    a, b = td.Variable(1.0), td.Variable(1.0)
    for k in range(4):  # which of them is assigned is no other graph for the loss
        (a if k % 2 else b).assign(2.0 + k)
        optimizer.zero_grad()
        (w - a * b).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [1.0] * 3
    assert (float(a), float(b)) == (5.0, 4.0)


class Accumulated(Task):
    """Gradients of three minibatches for each step, whose statistics follow in turn."""

    def step(self, k: int, follows: bool) -> float:
        self.optimizer.zero_grad()
        total = 0.0
        for part in range(3):
            x = td.asarray(values(5, 4, seed=10 * k + part))
            loss = (self.net(x) ** 2).mean() / 3
            loss.backward()
            total += float(loss) if follows else 0.0
        self.optimizer.step()
        return total + float(loss)


@pytest.mark.parametrize("read", [False, True])
def test_a_variable_assigned_twice_before_a_step_follows_a_plan(
    read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    td.clear_cache()
    task, hits = Accumulated(normalized=True), []
    losses = []
    for k in range(10):
        before = task.optimizer._plans.hits
        losses.append(task.step(k, read))
        hits.append(task.optimizer._plans.hits - before)
    assert hits[4:] == [1] * 6
    monkeypatch.setattr(again.Plans, "note", lambda *given: None)
    monkeypatch.setattr(gradient, "seen", lambda loss: None)
    other = Accumulated(normalized=True)
    assert losses == [other.step(k, read) for k in range(10)]
    assert task.state() == other.state()


def test_versions_between_assignments_keep_their_values() -> None:
    v = td.Variable(1.0)
    for k in range(6):
        first = v.assign(v + 1)
        between = v * 10
        v.assign(v * 2)
        wanted = float(v.numpy())
        v.assign(v - wanted + k)
        if k % 2:
            del first, between
            assert float(v) == k
        else:
            assert float(v) == k
            assert (float(first), float(between)) == (wanted / 2, wanted * 5)
        v.assign(1.0 + k)
    assert float(v) == 6  # nothing waits for who comes after
