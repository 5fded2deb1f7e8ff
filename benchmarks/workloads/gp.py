"""gp: the marginal likelihood of a Gaussian process, climbed by its hyperparameters.

200 points, float64, a Cholesky factor of 200 x 200; length scale, amplitude and noise
by their logarithms, Adam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, arrays, case, learn, of_both, program
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]

RATE = 0.02


@dataclass(frozen=True)
class Sizes:
    """How many points."""

    points: int = 200


@dataclass(frozen=True)
class Data:
    """Places and values."""

    x: Array
    y: Array


def data(sizes: Sizes, part: str) -> Data:
    """A sine with noise."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 10, sizes.points))
    return Data(x, np.sin(x) + 0.2 * rng.standard_normal(sizes.points))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    n = sizes.points
    x, y, eye = arrays(lib, given.x, given.y, np.eye(n))
    start = [np.array(v) for v in (0.0, 0.0, -1.0)]
    if lib.__name__ == "torch":
        logs = [lib.tensor(v, requires_grad=True) for v in start]
    else:
        logs = [lib.param(init=v, dtype="float64") for v in start]
        x = lib.asarray(x)
    optimizer = lib.optim.Adam(logs, lr=RATE)

    def solved(lower: Any, b: Any) -> Any:
        if lib.__name__ == "torch":
            return lib.linalg.solve_triangular(lower, b[:, None], upper=False)[:, 0]
        return lib.linalg.triangular_solve(lower, b)

    def step(k: int) -> Any:
        scale, amplitude, noise = (lib.exp(v) for v in logs)
        apart = (x[:, None] - x[None, :]) / scale
        covariance = amplitude * lib.exp(-0.5 * apart * apart) + noise * eye
        lower = lib.linalg.cholesky(covariance)
        white = solved(lower, y)
        loss = 0.5 * (white * white).sum() + lib.log(lib.diagonal(lower)).sum()
        return learn(lib, optimizer, loss + 0.5 * n * math.log(2 * math.pi))

    yield case("step", step)


WORKLOAD = program(
    "gp",
    sizes={"plain": Sizes(), "perturbed": Sizes(150), "tiny": Sizes(5)},
    data=data,
    steps=60,
    implementations=of_both(cases),
)
