"""`python -m benchmarks.sums [LENGTH ...]`: how exact long folds of float32 are.

Errors over the sum of magnitudes, in units of half the last place, beside those of a
sum by halves: sums, sums of squares, products and means over either axis, and a
variance of data far from 0. First runs are timed: none takes longer to compile.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import treadle as td

__all__ = ["errors", "main"]

LENGTHS = (1, 2, 3, 65537, 10**7, 9999991, 2 * 4999999, 16777259, 20000003, 3 * 10**8)
WIDE = 2 * 10**8  # elements, past which no array of several columns is made
UNIT = 2.0**-24


def by_halves(x: Any) -> float:
    """The sum of halves that are added, down to single elements."""
    while len(x) > 1:
        half = len(x) // 2
        x = np.concatenate([x[:half] + x[half : 2 * half], x[2 * half :]])
    return float(x[0])


def errors(n: int) -> Iterator[tuple[str, float, float]]:
    """What is computed of n numbers, its error, and that of a sum by halves."""
    x = np.random.default_rng(n).uniform(0, 1, n).astype(np.float32)
    node, columns = td.asarray(x), x[: WIDE // 3]
    whole = float(x.sum(dtype=np.float64))
    squares = math.fsum(
        float(np.square(part, dtype=np.float64).sum())
        for part in np.array_split(x, 1 + n // 10**7)
    )
    halves = abs(by_halves(x) - whole) / whole
    ways: dict[str, tuple[Callable[[], Any], float]] = {
        "sum": (node.sum, whole),
        "mean": (node.mean, whole / n),
        "of squares": (lambda: (node * node).sum(), squares),
        "vecdot": (lambda: td.vecdot(node, node), squares),
        "up to the last": (lambda: td.cumulative_sum(node)[-1], whole),
    }
    for name, (way, want) in ways.items():
        yield name, abs(float(way()) - want) / want, halves
    y = np.stack([columns, 1 - columns, np.ones_like(columns)], 1)
    means = y.mean(0, dtype=np.float64)
    found = td.asarray(y).mean(0).numpy()
    yield "of rows", float((abs(found - means) / means).max()), halves
    far = np.resize(np.array([1e6, 1e6 + 1], np.float32), (len(columns), 1))
    want = float(far[:, 0].var(dtype=np.float64))
    yield "variance far from 0", abs(float(td.var(td.asarray(far), 0)[0]) - want), 0.0


def main(arguments: list[str] | None = None) -> None:
    """Print the errors for some lengths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    for n in parser.parse_args(arguments).lengths:
        begun = time.perf_counter()
        found = [
            f"{name} {own / UNIT:.1f} ({halves / UNIT:.1f})"
            for name, own, halves in errors(n)
        ]
        print(f"{n}: {'; '.join(found)}; {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
