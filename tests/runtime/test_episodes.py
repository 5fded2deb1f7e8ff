"""Episodes: what to do next is decided by values, each of which trains afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.core import native
from treadle.engines.base import engine
from treadle.ops.gather import Index

nn, F = td.nn, td.nn.functional
LENGTHS = (5, 24, 9, 24, 5, 9)  # as one program, and as rows


class Agent:
    """A policy, made anew from a seed, and what it has come to."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)
        self.policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        for p in self.policy.parameters():
            draw = self.rng.standard_normal(p.shape) * 0.5
            p.assign(draw.astype(np.float32))
        self.optimizer = td.optim.Adam(self.policy.parameters(), lr=0.01)
        self.actions: list[int] = []

    def episode(self, length: int, pick: Callable[[Any, int], Any]) -> float:
        chosen = []
        for _ in range(length):
            seen = self.rng.standard_normal(4).astype(np.float32)
            probabilities = F.softmax(self.policy(td.asarray(seen)), -1)
            shares = probabilities.tolist()
            action = int(self.rng.choice(3, p=np.array(shares) / sum(shares)))
            self.actions.append(action)
            chosen.append(td.log(pick(probabilities, action)))
        gained = self.rng.standard_normal(length).astype(np.float32)
        loss = -(td.stack(chosen) * gained).mean()
        return float(self.optimizer.step(loss))

    def weights(self) -> list[list[float]]:
        return [p.numpy().ravel().tolist() for p in self.policy.parameters()]


PICKS: dict[str, Callable[[Any, int], Any]] = {
    "by a number": lambda p, k: p[k],
    "of an array": lambda p, k: p[np.int64(k)],
    "in a row": lambda p, k: p[None][0, k],
    "twice": lambda p, k: p.reshape(1, 3)[0][k],
    "from the end": lambda p, k: p[k - 3],
}


@pytest.mark.parametrize("name", PICKS)
def test_an_episode_that_looks_like_one_before_follows_its_plan(name: str) -> None:
    td.clear_cache()
    agent, followed = Agent(), 0
    for k, length in enumerate(LENGTHS * 4):
        before = agent.optimizer._plans.hits
        agent.episode(length, PICKS[name])
        followed += k >= len(LENGTHS) and agent.optimizer._plans.hits > before
    assert len(set(agent.actions)) == 3
    assert followed == 3 * len(LENGTHS)


@pytest.mark.parametrize("name", PICKS)
def test_episodes_come_to_what_they_do_by_the_reference_engine(name: str) -> None:
    ran = []
    for wanted in ("native", "reference"):
        td.clear_cache()
        agent = Agent()
        with td.options(engine="auto" if wanted == "native" else wanted):
            losses = [agent.episode(length, PICKS[name]) for length in LENGTHS * 2]
        ran.append((losses, agent.weights(), agent.actions))
    (losses, weights, actions), others = ran[0], ran[1]
    assert actions == others[2]
    np.testing.assert_allclose(losses, others[0], rtol=2e-4)
    for w, other in zip(weights, others[1], strict=True):
        np.testing.assert_allclose(w, other, atol=2e-4)


def test_an_index_into_a_value_that_trains_is_data() -> None:
    w = td.param(init=np.arange(6.0).reshape(2, 3))
    y = td.exp(w / 8)
    assert not isinstance(y[1, 2].op, Index)  # it may yet be computed with its whole
    y.numpy()
    assert isinstance(y[1, 2].op, Index) and isinstance(y[-1].op, Index)
    np.testing.assert_array_equal(y[-1].numpy(), y.numpy()[-1])
    assert float(y[1, np.int64(-1)]) == y.numpy()[1, 2]
    assert engine("native").latest_linked() is not None  # type: ignore[attr-defined]
    (y[1, 2] * 3 + y[0, 0]).backward()
    wanted = np.zeros((2, 3))
    wanted[1, 2], wanted[0, 0] = 3 * np.exp(5 / 8) / 8, 1 / 8
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-6)  # type: ignore[union-attr]
    with pytest.raises(td.TreadleError, match="index 2 is out of range for extent 2"):
        y[2]


def test_an_element_of_a_value_that_trains_is_read_without_a_run() -> None:
    w = td.param(init=np.arange(6.0).reshape(2, 3))
    y = td.exp(w)
    y.numpy()
    with td.profile() as p:
        read = [[float(y[i, j]) for j in range(3)] for i in range(2)]
    assert not [e for e in p.events if e.kind == "kernel"]
    np.testing.assert_array_equal(read, y.numpy())


@pytest.mark.skipif(native is None, reason="plans are followed by the core")
def test_values_between_steps_that_write_weights_in_place_are_done_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights that one run after another writes over are read as plain arrays are."""
    td.clear_cache()
    agent, runs = Agent(), []
    kind = type(engine("native"))
    followed = kind.followed  # type: ignore[attr-defined]

    def told(*given: Any) -> None:
        runs.append(True)
        followed(*given)

    for _ in range(8):
        agent.episode(24, PICKS["by a number"])
    monkeypatch.setattr(kind, "followed", told)
    held = agent.policy(np.ones(4, np.float32))
    before = held.tolist()
    agent.episode(24, PICKS["by a number"])
    assert sum(runs) >= 23
    assert held.tolist() == before
