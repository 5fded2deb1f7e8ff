"""scan: many scalar states over many steps, its value and gradient by four numbers.

60 states in a dictionary, each pulled towards what the one before it says, over 614
steps in float64; what goes in and the four numbers are given at each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, case, program
from benchmarks.workload import Case, Cases

__all__ = ["WORKLOAD"]


@dataclass(frozen=True)
class Sizes:
    """States, steps, and how many calls there are before they repeat."""

    states: int = 60
    steps: int = 614
    calls: int = 8


@dataclass(frozen=True)
class Data:
    """What goes in, and the four numbers of each call."""

    inputs: Array
    numbers: Array


def data(sizes: Sizes, part: str) -> Data:
    """Noise, and numbers about those of a line."""
    rng = np.random.default_rng(0)
    numbers = np.linspace(-1, 1, 4) + 0.01 * rng.standard_normal((sizes.calls, 4))
    return Data(rng.standard_normal(sizes.steps), numbers)


def loss(lib: Any, scan: Any, sizes: Sizes, p: Any, inputs: Any) -> Any:
    """The sum of the squares of what the last state says at each step."""
    first = {f"s{i:02d}": p[i % 4] * 0.1 for i in range(sizes.states)}

    def step(states: Any, x: Any) -> Any:
        after, before = {}, x
        for name in first:
            v = states[name]
            v = v + 0.1 / (1 + lib.exp(-v)) * (before - v)
            after[name], before = v, lib.tanh(v)
        return after, before

    _, said = scan(step, first, inputs)
    return (said**2).sum()


def calls(sizes: Sizes, given: Data, call: Any) -> Case:
    """The case whose steps are calls with one set of numbers after another."""

    def step(k: int) -> float:
        value, gradient = call(given.numbers[k % sizes.calls])
        return float(value) + float(np.asarray(gradient).sum())

    return case("value and gradient", step)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a computation of a placeholder."""
    import treadle as td

    p = td.placeholder((4,), "float64", name="p")
    value = loss(td, td.scan, sizes, p, td.asarray(given.inputs))
    yield calls(sizes, given, td.computation((value, td.grad(value, p)), p))


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax, compiled."""
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    numpy, scan = jax.numpy, jax.lax.scan
    inputs = numpy.asarray(given.inputs)
    both = jax.value_and_grad(lambda p: loss(numpy, scan, sizes, p, inputs))
    yield calls(sizes, given, jax.jit(both))


WORKLOAD = program(
    "scan",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(states=37, steps=100),
        "tiny": Sizes(states=5, steps=4),
    },
    data=data,
    steps=60,
    implementations={"treadle": treadle, "jax": jax},
)
