"""pinn: a network that is to solve Poisson's equation, by second derivatives of itself.

tanh MLP 2-32-32-1, the residual on 256 points and the value on 32 at the edge, Adam;
plain, and as a function.
"""

from __future__ import annotations

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

RATE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Points inside and at the edge, width, and how many sets of points there are."""

    inside: int = 256
    edge: int = 32
    hidden: int = 32
    batches: int = 16


@dataclass(frozen=True)
class Data:
    """Points of the unit square with the source there, points at its edge, weights."""

    inside: Array
    source: Array
    edge: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Points at random; the source of sin(pi x) sin(pi y)."""
    rng = np.random.default_rng(2)
    inside = rng.random((sizes.batches, sizes.inside, 2), np.float32)
    source = -2 * np.pi**2 * np.sin(np.pi * inside).prod(-1, keepdims=True)
    edge = rng.random((sizes.batches, sizes.edge, 2), np.float32)
    edge[:, ::2, 0] = np.round(edge[:, ::2, 0])
    edge[:, 1::2, 1] = np.round(edge[:, 1::2, 1])
    n = sizes.hidden
    shapes = {"0": (n, 2), "2": (n, n), "4": (1, n)}
    return Data(inside, source.astype(np.float32), edge, layers(3, shapes))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, n = lib.nn, sizes.hidden
    every = arrays(lib, given.inside, given.source, given.edge)

    def gradient(y: Any, x: Any) -> Any:
        if lib.__name__ == "torch":
            return lib.autograd.grad(y.sum(), x, create_graph=True)[0]
        return lib.grad(y.sum(), x)

    def points(x: Any) -> Any:
        if lib.__name__ == "torch":
            return x.clone().requires_grad_()
        return lib.asarray(x)

    def made(function: bool) -> Callable[[int], Any]:
        model = nn.Sequential(
            nn.Linear(2, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 1)
        )
        loaded(lib, model, given.weights)
        optimizer = lib.optim.Adam(model.parameters(), lr=RATE)

        def step(inside: Any, source: Any, edge: Any) -> Any:
            x = points(inside)
            slope = gradient(model(x), x)
            bent = [gradient(slope[:, k], x)[:, k : k + 1] for k in range(2)]
            residual = bent[0] + bent[1] - source
            at_edge = model(edge)
            loss = (residual * residual).mean() + (at_edge * at_edge).mean()
            return learn(lib, optimizer, loss)

        if function and lib.__name__ == "treadle":
            step = lib.function(step)
        return lambda k: step(*(x[k % sizes.batches] for x in every))

    yield case("plain", made(function=False))
    yield case("as a function", made(function=True))


WORKLOAD = program(
    "pinn",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(inside=100, edge=37, hidden=50),
        "tiny": Sizes(inside=5, edge=2, hidden=4),
    },
    data=data,
    steps=200,
    alike=("plain", "as a function"),
    implementations=of_both(cases),
)
