"""What a machine allows: how fast it copies, and an extrapolation without overhead."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["copy_seconds", "per_element"]

Array = np.ndarray[Any, Any]


def copy_seconds(count: int, repeats: int = 9) -> float:
    """Seconds to copy `count` float32 between warm arrays, on all processors allowed.

    NumPy's copy releases the interpreter's lock, so a thread takes each part. Threads
    note the time themselves: whoever waits for them may not be woken before they end.
    """
    threads = len(os.sched_getaffinity(0))
    source, target = np.ones(count, np.float32), np.zeros(count, np.float32)
    parts = list(
        zip(
            np.array_split(target, threads),
            np.array_split(source, threads),
            strict=True,
        )
    )
    barrier = threading.Barrier(threads)

    def work(to: Array, of: Array, own: list[tuple[float, float]]) -> None:
        for _ in range(repeats + 1):
            barrier.wait()
            start = time.perf_counter()
            np.copyto(to, of)
            own.append((start, time.perf_counter()))

    noted: list[list[tuple[float, float]]] = [[] for _ in parts]
    workers = [
        threading.Thread(target=work, args=(*part, own))
        for part, own in zip(parts, noted, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    times = [
        max(end for _, end in turn) - min(start for start, _ in turn)
        for turn in zip(*noted, strict=True)
    ]
    return statistics.median(times[1:])


def per_element(
    make: Callable[[int], Callable[[int], float]], sizes: Sequence[tuple[int, int]]
) -> float:
    """Seconds an element costs where all data are in cache.

    `make(n)` gives what runs n elements a number of times. The slope between a small
    and a large size leaves out what a call costs at any size; the least slope of all
    pairs of sizes is taken, so that a size too small for all threads flatters nobody.
    """
    slopes = []
    for small, large in sizes:
        seconds = _typical(make(large)) - _typical(make(small))
        slopes.append(max(seconds, 0.0) / (large - small))
    return min(slopes)


def _typical(run: Callable[[int], float]) -> float:
    """The median seconds of a run, over several repetitions of about 10 ms."""
    run(3)
    start = time.perf_counter()
    run(10)
    once = (time.perf_counter() - start) / 10
    count = max(1, min(2000, int(0.01 / once)))
    times = []
    for _ in range(9):
        start = time.perf_counter()
        run(count)
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)
