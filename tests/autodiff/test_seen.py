"""Gradients of losses that look like one before, where assignments wait for the run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff import derivative, gradient
from treadle.base.errors import GradientError
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
    monkeypatch.setattr(gradient, "seen_loss", lambda *given: None)
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
    monkeypatch.setattr(gradient, "seen_loss", lambda *given: None)
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


# -- losses with derivatives inside ----------------------------------------------------

Step = Callable[[int], list[Any]]


def network() -> tuple[list[Any], Callable[..., Any]]:
    shapes = [(3, 8), (8,), (8, 2), (2,)]
    ps = [td.param(init=0.3 * values(*s, seed=k)) for k, s in enumerate(shapes)]

    def forward(x: Any, ps: Any = ps) -> Any:
        return td.tanh(x @ ps[0] + ps[1]) @ ps[2] + ps[3]

    return ps, forward


def trained(loss: Any, ps: list[Any], optimizer: Any) -> list[Any]:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return [float(loss), *[p.numpy().tolist() for p in ps]]


def maml() -> Step:
    """The loss after steps of gradient descent, by what these began at (Finn et al.
    2017)."""
    ps, forward = network()
    optimizer = td.optim.Adam(ps, lr=0.01)

    def step(k: int) -> list[Any]:
        total: Any = 0.0
        for task in range(2):
            fast = list(ps)
            for inner in range(2):
                x = td.asarray(values(5, 3, seed=100 * k + 10 * task + inner))
                gradients = td.grad((forward(x, fast) ** 2).mean(), fast)
                fast = [p - 0.1 * g for p, g in zip(fast, gradients, strict=True)]
            x = td.asarray(values(5, 3, seed=1000 + 10 * k + task))
            total = total + (forward(x, fast) ** 2).mean()
        return trained(total, ps, optimizer)

    return step


def penalty(evaluated: bool = False, part: bool = False) -> Step:
    """The penalty of a critic whose gradient is not of length one (Gulrajani et al.
    2017)."""
    ps, forward = network()
    optimizer = td.optim.Adam(ps, lr=0.01)
    data = td.asarray(values(40, 3, seed=5))

    def step(k: int) -> list[Any]:
        x = data[k : k + 5] if part else td.asarray(values(5, 3, seed=k))
        out = forward(x).sum()
        g = td.grad(out, x)
        if evaluated:
            td.evaluate(out, g)
        loss = out + (((g * g).sum(1) + 1e-3) ** 0.5 - 1).sum()
        return [*trained(loss, ps, optimizer), g.tolist()]

    return step


def products() -> Step:
    """Products with a Hessian, of a gradient that is there."""
    ps, forward = network()

    def step(k: int) -> list[Any]:
        loss = (forward(td.asarray(values(5, 3, seed=k))) ** 2).mean()
        gradients, along, products = td.grad(loss, ps), [p.numpy() for p in ps], []
        for _ in range(3):
            pairs = zip(gradients, along, strict=True)
            product: Any = sum((g * td.asarray(v)).sum() for g, v in pairs)
            along = [h.numpy() for h in td.grad(product, ps)]
            products += [v.tolist() for v in along]
        return products

    return step


def third() -> Step:
    w = td.param(init=values(4, seed=1))

    def step(k: int) -> list[Any]:
        y = (td.sin(w * td.asarray(values(4, seed=k))) ** 2).sum()
        (g,) = td.grad(y, [w])
        (h,) = td.grad((g * g).sum(), [w])
        return [x.tolist() for x in td.evaluate(h, td.grad((h * g).sum(), [w])[0])]

    return step


def by_hand() -> Step:
    """Steps written out, and what they come to by the rate and the start."""

    def step(k: int) -> list[Any]:
        start, rate = td.asarray(values(4, seed=k)), td.asarray(np.float32(0.05))
        x, w = td.asarray(values(6, 4, seed=50 + k)), start
        for _ in range(3):
            w = w - rate * td.grad(((x @ w) ** 2).mean(), w)
        loss = ((x @ w) ** 2).mean()
        return [loss.item(), *[g.tolist() for g in td.grad(loss, [start, rate])]]

    return step


def looked_up() -> Step:
    """Rows of a table, first derivatives by which stay rows."""
    table = td.lookup("table", (20, 3), init=1.0)
    table.assign(values(20, 3, seed=3))
    w = td.param(init=values(3, seed=4))
    optimizer = td.optim.SGD([table, w], lr=0.1)

    def step(k: int) -> list[Any]:
        ids = np.random.default_rng(k).integers(0, 20, 7)
        read = td.rows(table, td.asarray(ids))
        loss = td.tanh(read @ w).sum() + td.rows(table, [3]).sum()
        if k % 2:
            loss = loss + (td.grad(loss, read) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        assert table.grad is not None
        rows = td.sparse_rows(table.grad)
        assert rows is not None
        return [rows[0].tolist(), *trained(loss, [table, w], optimizer)]

    return step


def assigned() -> Step:
    """A Variable that is assigned by its gradient, looked at now and then."""
    w, x = td.Variable(values(4, seed=1)), td.asarray(values(6, 4, seed=2))

    def step(k: int) -> list[Any]:
        for _ in range(3):
            loss = ((x @ w) ** 2).mean() + (w**2).sum()
            w.assign(w - 0.05 * td.grad(loss, [w])[0])
            if k % 2:
                loss.item()
        return [w.tolist()]

    return step


INSIDE: dict[str, Callable[[], Step]] = {
    "maml": maml,
    "penalty": penalty,
    "penalty of what has a value": lambda: penalty(evaluated=True),
    "penalty by a part": lambda: penalty(part=True),
    "products": products,
    "third": third,
    "by hand": by_hand,
    "looked up": looked_up,
    "assigned": assigned,
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_loss_with_derivatives_inside_is_derived_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    td.clear_cache()
    analyzed: list[None] = []
    expanded: list[None] = []
    for module, attribute, calls in (
        ("treadle.autodiff.derivative", "analyze", analyzed),
        ("treadle.autodiff.gradient", "analyze", analyzed),
        ("treadle.rewrite.expand", "expansion", expanded),
    ):
        original: Callable[..., Any] = getattr(sys.modules[module], attribute)

        def counted(
            *given: Any, original: Any = original, calls: Any = calls, **more: Any
        ) -> Any:
            calls.append(None)
            return original(*given, **more)

        monkeypatch.setattr(f"{module}.{attribute}", counted)
    step = INSIDE[name]()
    results = []
    for k in range(10):
        if k == 6:
            analyzed.clear()
            expanded.clear()
        results.append(step(k))
    assert (len(analyzed), len(expanded)) == (0, 0)
    monkeypatch.setattr(gradient, "seen_loss", lambda *given: None)
    monkeypatch.setattr(derivative, "seen", lambda *given: None)
    other = INSIDE[name]()
    assert results == [other(k) for k in range(10)]


def test_what_is_reached_is_known_by_targets() -> None:
    """The same graph by other targets, and one of which the result is no more."""
    w, v = td.param(init=np.ones(3, np.float32)), td.param(init=np.ones(3, np.float32))
    for k in range(4):
        (g,) = td.grad((w * w).sum(), [w])
        y = (g * v).sum()
        a, b = td.grad(y, [w, v])
        assert (a.tolist(), b.tolist()) == ([2.0] * 3, [2.0] * 3)
        assert td.grad(y, [v])[0].tolist() == [2.0] * 3
        assert td.grad(y, [v, g])[1].tolist() == [1.0] * 3
        for _ in range(2):
            with pytest.raises(GradientError, match="does not depend"):
                td.grad(g.sum(), [w, v])
        zero = td.grad(g.sum(), [v, w], unused="zero")
        assert [x.tolist() for x in zero] == [[0.0] * 3, [2.0] * 3]
        squares = (w * w).sum()
        with td.no_grad():
            inner = td.grad(squares, [w])[0]
        assert td.grad((inner * w).sum(), [w])[0].tolist() == [2.0] * 3
        assert float((td.grad((w * w * k).sum(), w) ** 2).sum()) == 12.0 * k * k


@pytest.mark.parametrize("evaluated", [False, True])
def test_gradients_that_come_to_the_same_are_different_targets(evaluated: bool) -> None:
    w, v = td.param(init=values(3, seed=1)), td.param(init=values(3, seed=2))
    for _ in range(3):
        a, b, c = td.grad((w * w * v).sum(), [w, v, w])
        if evaluated:
            td.evaluate(a, b, c)
        z = (a * b + c).sum()
        by_a, by_c = td.grad(z, [a, c])
        assert by_a.tolist() == b.tolist() and by_c.tolist() == [1.0] * 3
        for _ in range(2):
            with pytest.raises(GradientError, match="does not depend"):
                td.grad(c.sum(), [a])


def test_values_that_are_there_change_no_bit_of_a_derivative() -> None:
    states = []
    for looks in (False, True):
        ps, forward = network()
        optimizer = td.optim.Adam(ps, lr=0.01)
        for k in range(4):
            total: Any = 0.0
            kept: list[Any] = []
            for task in range(2):
                x = td.asarray(values(5, 3, seed=10 * k + task))
                gradients = td.grad((forward(x) ** 2).mean(), ps)
                fast = [p - 0.1 * g for p, g in zip(ps, gradients, strict=True)]
                total = total + (forward(x, fast) ** 2).mean()
                kept = gradients if looks else []  # has values where the loss is read
            if looks:
                total.item()
            trained(total, ps, optimizer)
            assert not looks or kept[0].stored is not None
        states.append([p.numpy().tolist() for p in ps])
    assert states[0] == states[1]


def test_versions_of_one_variable_and_of_two_are_derived_apart() -> None:
    """Graphs look alike where they read two versions of one Variable, or two of it."""
    for _ in range(3):
        w = td.param(init=2.0)
        before = w.node()
        w.assign(3.0)
        td.evaluate(w)
        (before * w.node()).backward()
        assert w.grad is not None and float(w.grad) == 5.0
        a, b = td.param(init=2.0), td.param(init=3.0)
        (a.node() * b.node()).backward()
        assert a.grad is not None and b.grad is not None
        assert (float(a.grad), float(b.grad)) == (3.0, 2.0)
        assert [float(g) for g in td.grad(a * b, [b, a])] == [2.0, 3.0]
