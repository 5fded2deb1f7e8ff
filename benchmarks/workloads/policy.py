"""policy: an episode of up to 40 steps by a small policy, and one gradient of it.

A pole on a cart, 4 numbers; policy 4-32-2. At each step the action is drawn from the
value of its probabilities; after the episode "reinforce" follows the returns less their
mean, "actor-critic" those less what a network of the same form expects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

RATE, DISCOUNT = 3e-3, 0.98


@dataclass(frozen=True)
class Sizes:
    """Width of the networks, and the longest episode."""

    hidden: int = 32
    longest: int = 40


@dataclass(frozen=True)
class Data:
    """First weights of the policy and of the critic."""

    policy: dict[str, Array]
    critic: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Weights alone: what is seen depends on what is done."""
    front = (sizes.hidden, 4)
    policy = layers(3, {"0": front, "2": (2, sizes.hidden)})
    return Data(policy, layers(4, {"0": front, "2": (1, sizes.hidden)}))


class Cart:
    """A pole on a cart that is pushed left or right (Barto et al., 1983)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.state = rng.uniform(-0.05, 0.05, 4)

    def seen(self) -> Array:
        return self.state.astype(np.float32)

    def push(self, action: int) -> bool:
        """Whether the pole has fallen, a fiftieth of a second later."""
        _, v, angle, turn = self.state
        force, sin, cos = (10.0 if action else -10.0), math.sin(angle), math.cos(angle)
        pushed = (force + 0.05 * turn * turn * sin) / 1.1
        turned = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        moved = pushed - 0.05 * turned * cos / 1.1
        change = np.array([v, moved, turn, turned])
        self.state = self.state + 0.02 * change
        return abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


def returns(count: int) -> Array:
    """What is still to come at each step of an episode, a point for each."""
    found = np.zeros(count, np.float32)
    total = 0.0
    for k in reversed(range(count)):
        found[k] = total = 1.0 + DISCOUNT * total
    return found


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library, without and with a critic."""
    nn, F = lib.nn, lib.nn.functional
    detached = lib.stop_gradient if lib.__name__ == "treadle" else lib.Tensor.detach

    def net(last: int, weights: dict[str, Array]) -> Any:
        model = nn.Sequential(
            nn.Linear(4, sizes.hidden), nn.ReLU(), nn.Linear(sizes.hidden, last)
        )
        return loaded(lib, model, weights)

    def made(critical: bool) -> Callable[[int], Any]:
        policy, critic = net(2, given.policy), net(1, given.critic)
        trained = [*policy.parameters(), *(critic.parameters() if critical else ())]
        optimizer = lib.optim.Adam(trained, lr=RATE)

        def episode(k: int) -> Any:
            rng = np.random.default_rng(k)
            cart, chosen, expected = Cart(rng), [], []
            for _ in range(sizes.longest):
                (seen,) = arrays(lib, cart.seen())
                probabilities = F.softmax(policy(seen), -1)
                action = int(rng.random() > float(probabilities[0]))
                chosen.append(lib.log(probabilities[action]))
                if critical:
                    expected.append(critic(seen)[0])
                if cart.push(action):
                    break
            (gained,) = arrays(lib, returns(len(chosen)))
            logs = lib.stack(chosen)
            if not critical:
                loss = -(logs * (gained - gained.mean())).mean()
                return learn(lib, optimizer, loss)
            values = lib.stack(expected)
            ahead = gained - values
            loss = (ahead * ahead).mean() - (logs * detached(ahead)).mean()
            return learn(lib, optimizer, loss)

        return episode

    yield case("reinforce", made(critical=False))
    yield case("actor-critic", made(critical=True))


WORKLOAD = program(
    "policy",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(hidden=50, longest=25),
        "tiny": Sizes(hidden=3, longest=4),
    },
    data=data,
    steps=100,
    implementations=of_both(cases),
)
