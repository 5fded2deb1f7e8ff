"""logp: the logarithm of a posterior and its gradient, one call for each proposal.

A hierarchical regression like that of radon in houses: 919 rows in 85 groups with an
intercept and a slope each, 175 numbers, float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, case, program
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]


@dataclass(frozen=True)
class Sizes:
    """Rows, groups, and how many proposals there are before they repeat."""

    rows: int = 919
    groups: int = 85
    proposals: int = 16


@dataclass(frozen=True)
class Data:
    """The group of each row, whether it is the ground floor, what was measured."""

    group: Array
    floor: Array
    measured: Array
    proposals: Array


def data(sizes: Sizes, part: str) -> Data:
    """Rows at random."""
    rng, n = np.random.default_rng(0), sizes.rows
    group, floor = rng.integers(0, sizes.groups, n), rng.integers(0, 2, n).astype(float)
    shape = sizes.proposals, 2 * sizes.groups + 5
    return Data(group, floor, rng.standard_normal(n), rng.standard_normal(shape) * 0.1)


def posterior(lib: Any, sizes: Sizes, q: Any, group: Any, floor: Any, y: Any) -> Any:
    """The logarithm of the density at q, less a constant; `lib` has an exp."""
    n = sizes.groups
    center, slope, *logs = (q[k] for k in range(5))
    a, b = q[5 : 5 + n], q[5 + n : 5 + 2 * n]
    wide, steep, noise = (lib.exp(x) for x in logs)
    intercepts, slopes = center + wide * a, slope + steep * b
    left = (y - (intercepts[group] + slopes[group] * floor)) / noise
    likely = -0.5 * (left * left).sum() - sizes.rows * logs[2]
    priors = -0.5 * ((a * a).sum() + (b * b).sum() + center * center + slope * slope)
    spreads = -0.5 * (wide * wide + steep * steep + noise * noise)
    return likely + priors + spreads + logs[0] + logs[1] + logs[2]


def calls(given: Data, call: Callable[[Array], tuple[Any, Any]]) -> Cases:
    """The case whose steps call with one proposal after another."""

    def step(k: int) -> float:
        value, gradient = call(given.proposals[k % len(given.proposals)])
        return float(value) + float(np.asarray(gradient)[0])

    yield case("value and gradient", step)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a computation of a placeholder."""
    import treadle as td

    q = td.placeholder((2 * sizes.groups + 5,), "float64", name="q")
    rows = (td.asarray(x) for x in (given.group, given.floor, given.measured))
    value = posterior(td, sizes, q, *rows)
    yield from calls(given, td.computation((value, td.grad(value, q)), q))


def torch(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In torch, as written."""
    torch: Any = import_module("torch")
    rows = [torch.from_numpy(x) for x in (given.group, given.floor, given.measured)]

    def call(proposal: Array) -> tuple[Any, Any]:
        q = torch.tensor(proposal, requires_grad=True)
        value = posterior(torch, sizes, q, *rows)
        value.backward()
        return value.item(), q.grad.numpy()

    yield from calls(given, call)


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax, compiled."""
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    numpy = jax.numpy
    rows = [numpy.asarray(x) for x in (given.group, given.floor, given.measured)]
    call = jax.jit(
        jax.value_and_grad(lambda q: posterior(numpy, sizes, q, *rows)),
    )
    yield from calls(given, call)


WORKLOAD = program(
    "logp",
    sizes={"plain": Sizes(), "perturbed": Sizes(700, 37), "tiny": Sizes(7, 3)},
    data=data,
    steps=2000,
    implementations={"treadle": treadle, "torch": torch, "jax": jax},
)
