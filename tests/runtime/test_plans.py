"""Programs as people write them follow plans, and come to the same without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.runtime.conftest import in_parts
from treadle.runtime import again, evaluate, steps

STEPS = 12


class Two:
    """Two small networks, with an optimizer each."""

    def __init__(self) -> None:
        draw = np.random.default_rng(3)
        sizes = ((4, 6), (6,), (6, 3), (3,))
        self.every = [td.param(init=0.3 * draw.normal(size=s)) for s in sizes * 2]
        self.g, self.d = self.every[:4], self.every[4:]
        self.og, self.od = td.optim.Adam(self.g, lr=0.1), td.optim.Adam(self.d, lr=0.1)
        self.x = td.asarray(draw.normal(size=(5, 4)).astype("f"))
        self.labels = td.asarray(draw.integers(0, 3, 5))
        self.seen: list[float] = []

    def net(self, own: list[Any], x: Any) -> Any:
        return td.relu(x @ own[0] + own[1]) @ own[2] + own[3]

    def loss(self, own: list[Any]) -> Any:
        return td.cross_entropy(self.net(own, self.x), self.labels)


def a_name_in_two_losses(two: Two) -> None:
    fake = self_joined = two.net(two.g, two.x)
    own = td.concat([td.stop_gradient(fake), two.x[:, :1]], axis=1)
    two.od.step(two.net(two.d, own).sum() * 0.01)
    joined = td.concat([self_joined, two.x[:, :1]], axis=1)
    loss = two.net(two.d, joined).mean()
    two.og.step(loss)
    two.seen.append(float(loss))


def two_optimizers_on_one_loss(two: Two) -> None:
    loss = two.loss(two.g) + two.loss(two.d)
    loss.backward()
    two.og.step(), two.od.step()
    two.og.zero_grad(), two.od.zero_grad()
    two.seen.append(float(loss))


def accumulated(two: Two) -> None:
    for k in range(3):
        (two.loss(two.g) * (k + 1.0)).backward()
    two.og.step(), two.og.zero_grad()


def norm_by_hand(two: Two) -> None:
    two.loss(two.g).backward()
    two.seen.append(sum(float((p.grad * p.grad).sum()) for p in two.g))
    two.og.step(), two.og.zero_grad()


def target_network(two: Two) -> None:
    with td.no_grad():
        best = two.net(two.d, two.x).max(1)
    error = two.net(two.g, two.x).max(1) - best
    two.og.step((error * error).mean())


def a_loss_that_stays(two: Two) -> None:
    loss = two.loss(two.g) * two.loss(two.d)
    two.og.step(loss)
    two.seen.append(float(loss))


PROGRAMS: dict[str, tuple[Callable[[Two], None], int]] = {
    f.__name__: (f, runs)
    for f, runs in (
        *((a_name_in_two_losses, 2), (two_optimizers_on_one_loss, 2)),
        *((accumulated, 1), (norm_by_hand, 5), (target_network, 1)),
        (a_loss_that_stays, 1),
    )
}


def ran(program: Callable[[Two], None]) -> tuple[list[bytes], list[float], int]:
    td.clear_cache()
    two, before = Two(), evaluate._plans.hits
    for _ in range(STEPS):
        program(two)
    hits = two.og._plans.hits + two.od._plans.hits + evaluate._plans.hits - before
    states = [*two.every, *two.og.states(), *two.od.states()]
    return [v.numpy().tobytes() for v in states], two.seen, hits


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_are_followed_and_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, runs = PROGRAMS[name]
    state, seen, hits = ran(program)
    assert hits >= runs * (STEPS - 4)
    with monkeypatch.context() as patch:
        in_parts(patch)
        patch.setattr(again.Plans, "run", lambda *given: None)
        patch.setattr(again.Plans, "note", lambda *given: None)
        other, saw, none = ran(program)
    assert none == 0 and seen == saw and state == other
    with monkeypatch.context() as patch:  # the same plans, part by part
        in_parts(patch)
        patch.setattr(steps.RunPlan, "_run_at_once", lambda *given: None)
        other, saw, followed = ran(program)
    # How many go before the first plan hangs on what has numbers already.
    assert followed >= runs * (STEPS - 4) and seen == saw and state == other


def test_a_plan_is_of_the_parameters_that_its_key_tells() -> None:
    """One optimizer of all that is read meets other parameters each time."""
    optimizer = td.optim.SGD(lr=0.5)
    for _ in range(3):
        a, b = td.param(init=2.0), td.param(init=4.0)
        assert float(optimizer.step(a * b)) == 8.0
        assert (float(a), float(b)) == (0.0, 3.0)
        w = td.param(init=2.0)
        before = w.node()
        w.assign(4.0)
        td.evaluate(w)
        optimizer.step(before * w.node())
        assert float(w) == 1.0
