"""loop: the lenet step built anew at each iteration, beside the same as a function.

Two networks, one trained by a plain Python loop and one by a `@td.function`, take turns
in one process; a ratio is that of a pair of neighbors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import treadle as td
from benchmarks.report import Row
from benchmarks.workloads import workload

__all__ = ["PAIRS", "STEPS", "THREADS", "WARM", "lenet", "measure"]

PAIRS = {"plain": 21, "perturbed": 21, "tiny": 3}
STEPS = 20  # of each in a pair
WARM = 5
THREADS = 2

Step = Callable[[Any, Any], Any]


def lenet(chosen: Any, weights: Any = None) -> td.nn.Module:
    """The network of the lenet workload, at its first weights if they are given."""
    model = td.nn.Sequential(
        td.nn.Conv2d(1, chosen.channels, 5, padding=2),
        td.nn.ReLU(),
        td.nn.MaxPool2d(2),
        td.nn.Dropout(0.1),
        td.nn.Flatten(),
        td.nn.Linear(chosen.channels * chosen.pooled**2, chosen.hidden),
        td.nn.ReLU(),
        td.nn.Linear(chosen.hidden, 10),
    )
    if weights is not None:
        model.load_state_dict(weights)
    return model


def steps(sizes: str) -> tuple[Step, Step, Any]:
    """A step of a plain loop, one as a function, and the data."""
    work = workload("lenet")
    chosen = work.sizes[sizes]
    given = work.data(chosen, work.parts[0])

    def made() -> Step:
        model = lenet(chosen, given.weights)
        optimizer = td.optim.Adagrad(lr=0.005)

        def step(images: Any, labels: Any) -> Any:
            loss = td.nn.functional.cross_entropy(model(images), labels)
            return optimizer.step(loss)

        return step

    traced = made()

    @td.function
    def function(images: td.Tensor, labels: td.Tensor) -> Any:
        return traced(images, labels)

    return made(), function, given


def milliseconds(step: Step, given: Any, count: int) -> float:
    """Of one step, of `count` together; the last loss is fetched."""
    batches = len(given.images)
    start = time.perf_counter()
    for k in range(count):
        last = step(given.images[k % batches], given.labels[k % batches])
    float(last)
    return (time.perf_counter() - start) / count * 1e3


def measure(sizes: str) -> list[Row]:
    """The rows of this workload."""
    found: list[tuple[float, float]] = []
    with td.options(threads=THREADS):
        plain, function, given = steps(sizes)
        for step in (plain, function):
            milliseconds(step, given, WARM)
        for k in range(PAIRS[sizes]):
            order = (plain, function) if k % 2 == 0 else (function, plain)
            first, second = (milliseconds(step, given, STEPS) for step in order)
            found.append((first, second) if k % 2 == 0 else (second, first))
    return [
        Row("lenet as a plain loop", "ms", tuple(a for a, _ in found)),
        Row("lenet as a function", "ms", tuple(b for _, b in found)),
        Row("plain loop over function, of a pair", "x",
            tuple(a / b for a, b in found), 1.1),
    ]  # fmt: skip
