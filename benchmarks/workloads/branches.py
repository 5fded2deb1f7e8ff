"""branches: two branches of small steps in one graph, beside one after the other.

Chains of products and tanh, and the two directions of an LSTM cell by cell, forward and
with the gradients of all weights. A pair runs each branch as a graph of its own and
then both as one, all with two threads; nothing is learnt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from benchmarks.report import Row

__all__ = ["measure"]

THREADS = 2
PAIRS, RUNS = {"plain": 21, "perturbed": 21, "tiny": 3}, 5
FLOOR = 1 / 1.6

Branch = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Sizes:
    """Extents: rows, their width, products of a chain, and steps of an LSTM."""

    rows: int = 16
    width: int = 64
    chain: int = 400
    steps: int = 133


SIZES = {
    "plain": Sizes(),
    "perturbed": Sizes(rows=7, width=100, chain=300, steps=90),
    "tiny": Sizes(rows=2, width=8, chain=3, steps=3),
}


def _products(sizes: Sizes) -> list[Branch]:
    """x = tanh(x w) again and again, with other weights in each branch."""
    rng = np.random.default_rng(4)

    def branch() -> Branch:
        w = rng.standard_normal((sizes.width, sizes.width), np.float32)
        weights = td.param(init=w / np.float32(np.sqrt(sizes.width)))
        first = td.asarray(rng.standard_normal((sizes.rows, sizes.width), np.float32))

        def run() -> tuple[Any, ...]:
            x = first
            for _ in range(sizes.chain):
                x = td.tanh(x @ weights)
            return (x,)

        return run

    return [branch(), branch()]


def _directions(sizes: Sizes, gradients: bool) -> list[Branch]:
    """An LSTM forwards and one backwards over a sequence."""
    shape = sizes.steps, sizes.rows, sizes.width
    xs = np.random.default_rng(5).standard_normal(shape, np.float32)

    def branch(order: Sequence[Any]) -> Branch:
        cell: Any = td.nn.LSTMCell(sizes.width, sizes.width)
        inputs = [td.asarray(x) for x in order]
        zero = td.zeros((sizes.rows, sizes.width))

        def run() -> tuple[Any, ...]:
            state, found = (zero, zero), []
            for x in inputs:
                state = cell(x, state)
                found.append(state[0])
            y = td.stack(found)
            if not gradients:
                return (y,)
            return (y, *td.grad((y * y).sum(), list(cell.parameters())))

        return run

    return [branch(xs), branch(xs[::-1])]


def _traced(*branches: Branch) -> Callable[[], None]:
    """What runs branches as one graph, which is traced once."""

    @td.function
    def traced() -> Any:
        return tuple(x for branch in branches for x in branch())

    def run() -> None:
        td.evaluate(*traced())

    return run


def _milliseconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(RUNS):
        run()
    return (time.perf_counter() - start) / RUNS * 1e3


def _pairs(branches: Sequence[Branch], count: int) -> list[tuple[float, float]]:
    """The times of one after the other and of both in one graph, in turn."""
    first, second = (_traced(branch) for branch in branches)
    both = _traced(*branches)
    for run in (first, second, both):
        run()
        run()
    found = []
    for _ in range(count):
        apart = _milliseconds(first) + _milliseconds(second)
        found.append((apart, _milliseconds(both)))
    return found


def _rows(sizes: str) -> Iterator[Row]:
    chosen = SIZES[sizes]
    cases: list[tuple[str, list[Branch], float | None]] = [
        ("chains of products", _products(chosen), FLOOR),
        ("LSTM, two directions", _directions(chosen, False), None),
        ("the same with gradients", _directions(chosen, True), None),
    ]
    for name, branches, floor in cases:
        with td.options(threads=THREADS, autobatch=False):
            found = _pairs(branches, PAIRS[sizes])
        yield Row(f"{name}: one after the other", "ms", tuple(a for a, _ in found))
        yield Row(f"{name}: in one graph", "ms", tuple(b for _, b in found))
        ratios = tuple(b / a for a, b in found)
        yield Row(f"{name}: in one graph over that, of a pair", "x", ratios, floor)


def measure(sizes: str) -> list[Row]:
    """The rows of this workload."""
    return list(_rows(sizes))
