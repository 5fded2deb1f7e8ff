"""What is assigned and not asked for runs with the rows that read it, and once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import WORDS, Net, trees

F = td.nn.functional


class Assigned:
    """A net whose weights are assigned before each use, and what is seen of it."""

    def __init__(self, force: bool) -> None:
        self.net, self.force = Net(), force
        self.opt = td.optim.SGD(lr=0.1, momentum=0.9)
        self.best = td.Variable(np.zeros(()), name="best")
        self.seen: list[Any] = []

    def assign(self, times: int = 1) -> None:
        for p in (self.net.parameters[1], self.net.top):
            for _ in range(times):
                p.assign(p * 0.5)
                if self.force:
                    p.numpy()

    def loss(self, word: int = 2) -> Any:
        forest = [*trees(0, 12, 5), (word, 3)]
        scores = [self.net.encode(t)[0] @ self.net.top for t in forest]
        return F.cross_entropy(td.stack(scores), [n % 3 for n in range(13)])

    def told(self) -> dict[str, Any]:
        every = [*self.net.parameters, self.best, *self.opt.states()]
        seen = {f"seen {k}": x for k, x in enumerate(self.seen)}
        return {**seen, **{v.name: v.numpy().copy() for v in every}}


def step(own: Assigned) -> None:
    own.seen.append(float(own.opt.step(own.loss())))


def assigned_twice(own: Assigned) -> None:
    own.assign(2)
    step(own)


def value(own: Assigned) -> None:
    own.seen.append(own.loss().numpy())


def gradient(own: Assigned) -> None:
    found = td.grad(own.loss(), own.net.parameters)
    own.seen += [g.numpy() for g in found]


def accumulated(own: Assigned) -> None:
    own.loss().backward()
    own.opt.step()
    own.opt.zero_grad()


def rows_assigned(own: Assigned) -> None:
    loss = own.loss()
    own.best.assign(loss)
    if own.force:
        own.best.numpy()
    own.seen.append(float(own.opt.step(loss)))


@pytest.mark.parametrize(
    "use", [step, assigned_twice, value, gradient, accumulated, rows_assigned]
)
def test_as_if_it_had_been_asked_for(use: Any) -> None:
    found = []
    for force in (False, True):
        own = Assigned(force)
        for k in range(6):
            if k != 3:
                own.assign()
            use(own)
        found.append(own.told())
    assert found[0].keys() == found[1].keys()
    for name, x in found[0].items():
        np.testing.assert_allclose(x, found[1][name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("steps", [0, 4])
def test_what_fails_assigns_nothing(steps: int) -> None:
    own = Assigned(False)
    for _ in range(steps):
        step(own)
    before = own.told()
    own.assign()
    with pytest.raises(td.TreadleError, match="out of range"):
        own.opt.step(own.loss(word=WORDS))
    after = own.told()
    for name, x in before.items():
        np.testing.assert_array_equal(x, after[name])
    step(own)


def test_a_variable_assigned_at_each_step_of_rows() -> None:
    """Rows have read its versions, so the step does not make the last one."""

    def trained() -> list[Any]:
        draw = np.random.default_rng(3)
        w, u = (td.param(init=draw.normal(size=(4, 4)) * 0.5) for _ in range(2))
        opt, seen = td.optim.SGD([w, u], lr=0.1), []
        for length in (7, 8, 7, 9, 5, 8, 3, 7):
            state = td.Variable(np.zeros(4))
            x = td.tanh(td.asarray(draw.normal(size=(3, length, 4))) @ w)
            h = x[:, 0]
            for t in range(length):
                context = (x * h[:, None]).sum(1)
                h = td.tanh(x[:, t] + (h + context) @ u)
                state.assign(state * 0.9 + td.stop_gradient(h.mean(0)))
            loss = (h**3).mean() + (state * h).sum()
            seen += [float(opt.step(loss)), state.numpy().copy()]
        return [*seen, w.numpy(), u.numpy()]

    native = trained()
    with td.options(engine="reference"):
        wanted = trained()
    for x, y in zip(native, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)
