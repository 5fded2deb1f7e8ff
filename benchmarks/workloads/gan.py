"""gan: a small generator against a discriminator, an update of each in a step.

16-64-64-2 against 2-64-64-1, batch 64, two Adams. The picture that the generator has
made is held and used by both losses, in torch's order: the discriminator's update comes
between. "step" has an update in one call, "zero_grad, backward, step" torch's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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

RATE, SLOPE = 1e-3, 0.2


@dataclass(frozen=True)
class Sizes:
    """Extents, and how many batches there are before they repeat."""

    batch: int = 64
    noise: int = 16
    hidden: int = 64
    points: int = 2
    batches: int = 16


@dataclass(frozen=True)
class Data:
    """Points, noise, and the first weights of both networks."""

    real: Array
    noise: Array
    generator: dict[str, Array]
    discriminator: dict[str, Array]


def _shapes(first: int, hidden: int, last: int) -> dict[str, tuple[int, ...]]:
    return {"0": (hidden, first), "2": (hidden, hidden), "4": (last, hidden)}


def data(sizes: Sizes, part: str) -> Data:
    """Points of a normal distribution that is not round."""
    rng = np.random.default_rng(2)
    shape = sizes.batches, sizes.batch
    real = rng.standard_normal((*shape, sizes.points), np.float32) * 0.5 + 1
    noise = rng.standard_normal((*shape, sizes.noise), np.float32)
    generator = layers(3, _shapes(sizes.noise, sizes.hidden, sizes.points))
    discriminator = layers(4, _shapes(sizes.points, sizes.hidden, 1))
    return Data(real.astype(np.float32), noise, generator, discriminator)


def by_hand(optimizer: Any, loss: Any) -> float:
    """An update as torch's users write it."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library, in two spellings."""
    nn, F = lib.nn, lib.nn.functional
    ones, zeros = (
        np.ones((sizes.batch, 1), np.float32),
        np.zeros((sizes.batch, 1), "f4"),
    )
    real, noise, one, zero = arrays(lib, given.real, given.noise, ones, zeros)
    detached = lib.stop_gradient if lib.__name__ == "treadle" else lib.Tensor.detach
    criterion = F.binary_cross_entropy_with_logits

    def net(first: int, last: int) -> Any:
        return nn.Sequential(
            nn.Linear(first, sizes.hidden),
            nn.LeakyReLU(SLOPE),
            nn.Linear(sizes.hidden, sizes.hidden),
            nn.LeakyReLU(SLOPE),
            nn.Linear(sizes.hidden, last),
        )

    def made(update: Callable[[Any, Any], Any]) -> Callable[[int], float]:
        G = loaded(lib, net(sizes.noise, sizes.points), given.generator)
        D = loaded(lib, net(sizes.points, 1), given.discriminator)
        first = lib.optim.Adam(D.parameters(), lr=RATE)
        second = lib.optim.Adam(G.parameters(), lr=RATE)

        def step(k: int) -> float:
            k %= sizes.batches
            fake = G(noise[k])
            loss = criterion(D(real[k]), one) + criterion(D(detached(fake)), zero)
            found = float(update(first, loss))
            return found + float(update(second, criterion(D(fake), one)))

        return step

    yield case("step", made(partial(learn, lib)))
    yield case("zero_grad, backward, step", made(by_hand))


WORKLOAD = program(
    "gan",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=3, noise=4, hidden=5),
    },
    data=data,
    steps=200,
    alike=("step", "zero_grad, backward, step"),
    implementations=of_both(cases),
)
