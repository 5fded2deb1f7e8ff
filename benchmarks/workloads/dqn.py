"""dqn: updates of a small network of values from a replay memory.

4-64-64-2, batches of 32 drawn from 1,000 transitions; what the next state is worth is
told by a network without gradients, which takes the weights over each 100 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import (
    Array,
    arrays,
    case,
    layers,
    learn,
    loaded,
    of_both,
    program,
)
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]

RATE, DISCOUNT = 1e-3, 0.98


@dataclass(frozen=True)
class Sizes:
    """Extents, and after how many steps the weights are taken over."""

    batch: int = 32
    hidden: int = 64
    memory: int = 1000
    every: int = 100


@dataclass(frozen=True)
class Data:
    """Transitions by their parts, and the first weights."""

    before: Array
    actions: Array
    rewards: Array
    after: Array
    ended: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Transitions at random."""
    rng, n = np.random.default_rng(2), sizes.memory
    before, after = rng.standard_normal((2, n, 4)).astype(np.float32)
    ended = (rng.random(n) < 0.1).astype(np.float32)
    rewards = (before.sum(1) > 0).astype(np.float32)
    shapes = {"0": (sizes.hidden, 4), "2": (sizes.hidden,) * 2, "4": (2, sizes.hidden)}
    actions = rng.integers(0, 2, n)
    return Data(before, actions, rewards, after, ended, layers(3, shapes))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, F = lib.nn, lib.nn.functional

    def net() -> Any:
        model = nn.Sequential(
            nn.Linear(4, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, 2),
        )
        return loaded(lib, model, given.weights)

    model, target = net(), net()
    optimizer = lib.optim.Adam(model.parameters(), lr=RATE)
    rng = np.random.default_rng(4)

    def best(values: Any) -> Any:
        return lib.amax(values, 1) if lib.__name__ == "torch" else values.max(1)

    def of(values: Any, actions: Any) -> Any:
        if lib.__name__ == "torch":
            return values.gather(1, actions[:, None])[:, 0]
        return lib.take_along_axis(values, actions[:, None], 1)[:, 0]

    def step(k: int) -> Any:
        if k % sizes.every == 0:
            target.load_state_dict(model.state_dict())
        rows = rng.integers(0, sizes.memory, sizes.batch)
        before, actions, rewards, after, ended = arrays(
            lib,
            *(given.before[rows], given.actions[rows], given.rewards[rows]),
            *(given.after[rows], given.ended[rows]),
        )
        with lib.no_grad():
            wanted = rewards + DISCOUNT * (1.0 - ended) * best(target(after))
        loss = F.mse_loss(of(model(before), actions), wanted)
        return learn(lib, optimizer, loss)

    yield case("step", step)


WORKLOAD = program(
    "dqn",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=3, hidden=4, memory=20, every=3),
    },
    data=data,
    steps=400,
    implementations=of_both(cases),
)
