"""Loops as people write them: after a few steps none compiles anything and each run
follows a plan, whatever its data, labels, batches, rates and random numbers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.runtime import evaluate

nn, F = td.nn, td.nn.functional
Step = Callable[[int], Any]


class Task:
    """Data, a network and its optimizer, made anew for each program."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.images = self.rng.standard_normal((320, 12)).astype(np.float32)
        self.classes = self.rng.integers(0, 5, 320)
        self.x, self.y = td.asarray(self.images), td.asarray(self.classes)
        self.net = nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 5))
        self.optimizer = td.optim.Adam(self.net.parameters(), lr=0.01)

    def batch(self, k: int, size: int = 8) -> tuple[Any, Any]:
        first = k * size % (320 - size)
        return self.x[first : first + size], self.y[first : first + size]

    def loss(self, k: int) -> Any:
        x, y = self.batch(k)
        return F.cross_entropy(self.net(x), y)

    def learn(self, loss: Any, optimizer: Any = None) -> float:
        optimizer = optimizer or self.optimizer
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)


def slices(t: Task) -> Step:
    return lambda k: t.learn(t.loss(k))


def shuffled(t: Task) -> Step:
    def step(k: int) -> float:
        ids = t.rng.permutation(320)[:8]
        return t.learn(F.cross_entropy(t.net(t.x[ids]), t.y[ids]))

    return step


def seen_first(t: Task) -> Step:
    def step(k: int) -> float:
        loss = t.loss(k)
        return loss.item() + t.learn(loss)

    return step


def annealed(t: Task) -> Step:
    def step(k: int) -> float:
        t.optimizer.lr = 0.1 / (k + 1)
        x, y = t.batch(k)
        out, part = t.net(x), 1 - k / 1000
        return t.learn(part * F.cross_entropy(out, y) + (1 - part) * (out**2).mean())

    return step


def counted(t: Task) -> Step:
    return lambda k: t.learn(t.loss(k) * (k + 1) / (k + 2))


def accumulated(t: Task) -> Step:
    def step(k: int) -> None:
        (t.loss(k) / 4).backward()
        if k % 4 == 3:
            t.optimizer.step()
            t.optimizer.zero_grad()

    return step


def by_hand(t: Task) -> Step:
    def step(k: int) -> float:
        loss, parameters = t.loss(k), [*t.net.parameters()]
        for p, g in zip(parameters, td.grad(loss, parameters), strict=True):
            p.assign(p - 0.1 * g)
        return float(loss)

    return step


def as_in_torch(t: Task) -> Step:
    def step(k: int) -> float:
        loss = t.loss(k)
        loss.backward()
        with td.no_grad():
            for p in t.net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return float(loss)

    return step


def averaged(t: Task) -> Step:
    mean = [p * 1.0 for p in t.net.parameters()]

    def step(k: int) -> float:
        found = t.learn(t.loss(k))
        with td.no_grad():
            for n, p in enumerate(t.net.parameters()):
                mean[n] = 0.9 * mean[n] + 0.1 * p
        return found + float(mean[0].sum())

    return step


def mean_of_activations(t: Task) -> Step:
    """What a step has let go of is read by the next one, without gradients."""
    mean = [td.zeros((5,))]

    def step(k: int) -> float:
        x, y = t.batch(k)
        out = t.net(x)
        found = t.learn(F.cross_entropy(out - mean[0], y))
        with td.no_grad():
            mean[0] = 0.9 * mean[0] + 0.1 * out.mean(0)
        return found

    return step


def stepped_with_a_mean(t: Task) -> Step:
    mean = [td.zeros((5,))]

    def step(k: int) -> float:
        x, y = t.batch(k)
        out = t.net(x)
        found = t.optimizer.step(F.cross_entropy(out - mean[0], y))
        with td.no_grad():
            mean[0] = 0.9 * mean[0] + 0.1 * out.mean(0)
        return float(found)

    return step


def learned_by_a_loss(t: Task) -> Step:
    """What is assigned is made of what a step has trained others by."""
    w = td.param("w", init=np.zeros((12, 1), np.float32))
    loss_of = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = td.optim.Adam(loss_of.parameters(), lr=0.01)

    def step(k: int) -> float:
        x, y = t.batch(k)
        inner = loss_of(x @ w).mean()
        (g,) = td.grad(inner, [w])
        moved = w - 0.1 * g
        found = t.learn((((x @ moved)[:, 0] - y) ** 2).mean(), optimizer)
        with td.no_grad():
            w.assign(moved.detach())
        return found + float(inner)

    return step


def noisy(t: Task) -> Step:
    def step(k: int) -> float:
        x, y = t.batch(k)
        x = x + 0.1 * td.random.normal(x.shape)
        return t.learn(F.cross_entropy(t.net(x), y))

    return step


def penalized(t: Task) -> Step:
    def step(k: int) -> float:
        x, _ = t.batch(k)
        (g,) = td.grad(t.net(x).sum(), [x])
        return t.learn((((g**2).sum(1) ** 0.5 - 1.0) ** 2).mean())

    return step


def one_by_one(t: Task) -> Step:
    w = td.param("w", init=np.ones(12, np.float32))
    optimizer = td.optim.SGD([w], lr=1e-3)

    def step(k: int) -> float:
        loss = 0.0
        for i in range(8):
            row = (8 * k + i) % 320
            loss = loss + (t.x[row] @ w - float(t.classes[row])) ** 2
        return t.learn(loss, optimizer)

    return step


def labels_of_zero_and_one(t: Task) -> Step:
    w = td.param("w", init=np.zeros(12, np.float32))
    optimizer = td.optim.SGD([w], lr=1e-2)

    def step(k: int) -> float:
        loss: Any = 0
        for i in range(4):
            row = (4 * k + i) % 320
            y, p = float(t.classes[row] > 2), td.sigmoid(t.x[row] @ w)
            loss = loss - (y * td.log(p) + (1 - y) * td.log(1 - p))
        return t.learn(loss, optimizer)

    return step


def labels_as_indices(t: Task) -> Step:
    table = td.param("table", init=np.zeros((5, 5), np.float32))
    optimizer = td.optim.SGD([*t.net.parameters(), table], lr=1e-2)

    def step(k: int) -> float:
        loss: Any = 0
        for i in range(6):
            row = (6 * k + i) % 320
            before, y = int(t.classes[row - 1]), t.classes[row]
            logits = td.log_softmax(t.net(t.images[row : row + 1]))
            loss = loss - logits[0, int(y)] - 0.1 * logits[0][y - 5] - table[before, y]
        return t.learn(loss, optimizer)

    return step


def target_network(t: Task) -> Step:
    target = nn.Linear(12, 5)
    own = nn.Linear(12, 5)
    optimizer = td.optim.SGD(own.parameters(), lr=0.01)

    def step(k: int) -> float:
        x, _ = t.batch(k)
        with td.no_grad():
            goal = target(x).max(1)
        found = t.learn(((own(x).max(1) - goal) ** 2).mean(), optimizer)
        with td.no_grad():
            for a, b in zip(target.parameters(), own.parameters(), strict=True):
                a.assign(0.99 * a + 0.01 * b)
        return found

    return step


def carried_state(t: Task) -> Step:
    cell, head = nn.LSTMCell(12, 6), nn.Linear(6, 5)
    optimizer = td.optim.Adam([*cell.parameters(), *head.parameters()])
    state: list[Any] = [None]

    def step(k: int) -> float:
        own, loss = state[0], 0.0
        for i in range(3):
            x, y = t.batch(3 * k + i)
            own = cell(x, own)
            loss = loss + F.cross_entropy(head(own[0]), y)
        found = t.learn(loss, optimizer)
        state[0] = tuple(v.detach() for v in own)
        return found

    return step


def branching(t: Task) -> Step:
    def step(k: int) -> float:
        loss = t.loss(k)
        if loss.item() > 1.5 or k % 3 == 0:
            t.learn(loss)
        return float(loss)

    return step


def evaluated(t: Task) -> Step:
    def step(k: int) -> float:
        found = t.learn(t.loss(k))
        t.net.eval()
        with td.no_grad():
            right = (t.net(t.x).argmax(1) == t.y).astype("float32").mean()
            found += float(right)
        t.net.train()
        return found

    return step


def cropped(t: Task) -> Step:
    conv = nn.Conv2d(1, 2, 3)
    optimizer = td.optim.SGD(conv.parameters(), lr=0.01)
    images = td.asarray(t.images.reshape(20, 1, 16, 12))

    def step(k: int) -> float:
        i, j = t.rng.integers(0, 4, 2)
        part = images[k % 5 : k % 5 + 4, :, i : i + 9, j : j + 9]
        return t.learn((conv(part) ** 2).mean(), optimizer)

    return step


PROGRAMS = [
    slices, shuffled, seen_first, annealed, counted, accumulated, by_hand, as_in_torch,
    averaged, mean_of_activations, stepped_with_a_mean, learned_by_a_loss, noisy,
    penalized, one_by_one, labels_of_zero_and_one, labels_as_indices,
    target_network, carried_state, branching, evaluated, cropped,
]  # fmt: skip
WARM, STEPS = 12, 36


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many roots each run had that followed no plan."""
    runs, run_anew = list[int](), evaluate._run_anew

    def counted(roots: Any, *rest: Any) -> Any:
        runs.append(len(roots))
        return run_anew(roots, *rest)

    monkeypatch.setattr(evaluate, "_run_anew", counted)
    return runs


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_after_a_few_steps_nothing_is_compiled(
    program: Callable[[Task], Step], anew: list[int]
) -> None:
    step = program(Task())
    for k in range(WARM):
        step(k)
    anew.clear()
    before = td.cache_info()
    for k in range(WARM, STEPS):
        step(k)
    after = td.cache_info()
    assert (after.misses, after.compiled) == (before.misses, before.compiled)
    assert not anew
