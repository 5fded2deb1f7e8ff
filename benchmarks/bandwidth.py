"""What a machine allows: how fast it copies, and an extrapolation without overhead.

A bound is measured in turns, between the samples of what it is a bound of.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Copy", "InCache"]

Array = np.ndarray[Any, Any]


@dataclass
class Copy:
    """Copying `count` float32 between warm arrays, on all processors allowed.

    NumPy's copy releases the interpreter's lock, so a thread takes each part. Threads
    note the time themselves: whoever waits for them may not be woken before they end.
    `scale` is how much of a copy the work moves.
    """

    count: int
    scale: float = 1.0
    repeats: int = 3
    found: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        source, target = np.ones(self.count, np.float32), np.zeros(self.count, "f4")
        threads = len(os.sched_getaffinity(0))
        halves = (np.array_split(a, threads) for a in (target, source))
        self.parts = list(zip(*halves, strict=True))

    @property
    def seconds(self) -> float:
        """The median of all copies so far."""
        return statistics.median(self.found) * self.scale

    def turn(self) -> None:
        """Copy a few times, after one that is not counted."""
        barrier = threading.Barrier(len(self.parts))
        noted: list[list[tuple[float, float]]] = [[] for _ in self.parts]

        def work(to: Array, of: Array, own: list[tuple[float, float]]) -> None:
            for _ in range(self.repeats + 1):
                barrier.wait()
                start = time.perf_counter()
                np.copyto(to, of)
                own.append((start, time.perf_counter()))

        workers = [
            threading.Thread(target=work, args=(*part, own))
            for part, own in zip(self.parts, noted, strict=True)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for turn in list(zip(*noted, strict=True))[1:]:
            self.found.append(max(e for _, e in turn) - min(s for s, _ in turn))


@dataclass
class InCache:
    """What `count` elements would take at the rate found where all data are in cache.

    `make(n)` gives what runs n elements a number of times. The slope of a straight line
    through some sizes leaves out what a call costs at any size.
    """

    make: Callable[[int], Callable[[int], float]]
    sizes: Sequence[int]
    count: int
    found: dict[int, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = {n: self.make(n) for n in self.sizes}
        self.found = {n: [] for n in self.sizes}
        self.counts = {n: self._count(run) for n, run in self.runs.items()}

    @staticmethod
    def _count(run: Callable[[int], float]) -> int:
        """How many runs take about 10 ms."""
        run(3)
        start = time.perf_counter()
        run(10)
        return max(1, min(2000, int(0.1 / (time.perf_counter() - start))))

    @property
    def seconds(self) -> float:
        """By the medians of all turns so far."""
        typical = [statistics.median(self.found[n]) for n in self.sizes]
        slope = statistics.linear_regression(self.sizes, typical).slope
        return max(slope, 0.0) * self.count

    def turn(self) -> None:
        """Run each size for some 10 ms, a few times in turn."""
        for _ in range(4):
            for n, run in self.runs.items():
                start = time.perf_counter()
                run(self.counts[n])
                self.found[n].append((time.perf_counter() - start) / self.counts[n])
