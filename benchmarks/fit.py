"""fit: the lenet steps made by Model.fit, beside a plain loop that makes the same.

Two networks take turns in one process; a ratio is that of a pair of neighbors. Fit is
called anew for each turn: its beginning and end are in its time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import treadle as td
from benchmarks.loop import PAIRS, STEPS, THREADS, WARM, lenet
from benchmarks.report import Row
from benchmarks.workloads import workload

__all__ = ["measure"]

Turn = Callable[[int], float]


def turns(sizes: str, metrics: tuple[str, ...] = ()) -> tuple[Turn, Turn]:
    """So many steps of a plain loop, and of fit; both return the mean loss."""
    work = workload("lenet")
    chosen = work.sizes[sizes]
    given = work.data(chosen, work.parts[0])

    def batches() -> Iterator[tuple[Any, Any]]:
        return itertools.cycle(zip(given.images, given.labels, strict=True))

    network, optimizer = lenet(chosen, given.weights), td.optim.Adagrad(lr=0.005)
    ours, others = batches(), batches()

    def loop(count: int) -> float:
        total = 0.0
        for images, labels in itertools.islice(ours, count):
            loss = td.nn.functional.cross_entropy(network(images), labels)
            total += float(optimizer.step(loss))
        return total / count

    model = td.Model(
        lenet(chosen, given.weights),
        "cross_entropy",
        td.optim.Adagrad(lr=0.005),
        metrics,
    )

    def fit(count: int) -> float:
        return model.fit(others, steps_per_epoch=count, verbose=0)["loss"][0]

    return loop, fit


def milliseconds(turn: Turn, count: int) -> float:
    """Of one step, of `count` together."""
    start = time.perf_counter()
    turn(count)
    return (time.perf_counter() - start) / count * 1e3


def pairs(turns: tuple[Turn, Turn], count: int) -> list[tuple[float, float]]:
    """The times of both, in turn, the first to go changing."""
    found = []
    for turn in turns:
        milliseconds(turn, WARM)
    for k in range(count):
        first, second = (milliseconds(turn, STEPS) for turn in turns[:: 1 - k % 2 * 2])
        found.append((first, second) if k % 2 == 0 else (second, first))
    return found


def measure(sizes: str) -> list[Row]:
    """The rows of this workload."""
    with td.options(threads=THREADS):
        bare = pairs(turns(sizes), PAIRS[sizes])
        counted = pairs(turns(sizes, ("accuracy",)), PAIRS[sizes])
    return [
        Row("lenet as a plain loop", "ms", tuple(a for a, _ in bare)),
        Row("lenet by Model.fit", "ms", tuple(b for _, b in bare)),
        Row("fit over plain loop, of a pair", "x",
            tuple(b / a for a, b in bare), 1.03),
        Row("the same with accuracy in fit alone", "x",
            tuple(b / a for a, b in counted)),
    ]  # fmt: skip
