"""ranks: what one rank of DataParallel costs over the loop of an optimizer that sums
the same shards, and how the time of an update falls from 1 rank to 2, a thread each.

The two loops take turns in one process, in processor time: a ratio is that of a pair of
neighbors; of small networks it tells what DataParallel does in Python. For 2 ranks over
1, launches take turns; a time is the median of a process's updates, on the clock, and
in processor time of the rank that needs more of it. On a machine whose processors are
busy otherwise only the latter tells anything; it counts the waiting for the other rank
too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks.loop import lenet
from benchmarks.report import Row
from benchmarks.workloads import workload

__all__ = ["measure"]

SHARDS = 4
PAIRS = {"plain": 9, "perturbed": 9, "tiny": 2}
SMALL = 20  # times as many pairs of small networks
WARM = 3
SHORT = 5  # updates of a small network in a pair; of a large one it is one
SETTLED = 10  # updates of a small network before
UPDATES = 7  # of a rank, of which the median counts
ROUNDS = {"plain": 4, "perturbed": 4, "tiny": 1}
ROOT = Path(__file__).resolve().parents[1]

Made = tuple[td.nn.Module, Callable[[int], Any]]


def dense(sizes: str) -> Made:
    """Three wide layers, and the loss of a shard by its number."""
    width, rows = {"plain": (1024, 128), "perturbed": (900, 100), "tiny": (8, 4)}[sizes]
    layers = [td.nn.Linear(width, width) for _ in range(3)]
    net = td.nn.Sequential(layers[0], td.nn.Tanh(), layers[1], td.nn.Tanh(), layers[2])
    draws = np.random.default_rng(0)
    data = draws.normal(size=(8, rows, width)).astype(np.float32)

    def loss(shard: int) -> Any:
        y = net(td.constant(data[shard % 8]))
        return (y * y).mean()

    return net, loss


def images(sizes: str) -> Made:
    """The lenet workload, of which a shard has a batch, and its loss."""
    work = workload("lenet")
    chosen = work.sizes[sizes]
    given = work.data(chosen, work.parts[0])
    net = lenet(chosen, given.weights)

    def loss(shard: int) -> Any:
        k = shard % len(given.images)
        return td.nn.functional.cross_entropy(net(given.images[k]), given.labels[k])

    return net, loss


def _classified(net: td.nn.Module, sizes: str, inputs: Callable[..., Any]) -> Made:
    rows = {"plain": 16, "perturbed": 13, "tiny": 4}[sizes]
    draws = np.random.default_rng(0)
    data, labels = inputs(draws, rows), draws.integers(0, 10, (8, rows))

    def loss(shard: int) -> Any:
        logits = net(data[shard % 8])
        return td.nn.functional.cross_entropy(logits, labels[shard % 8])

    return net, loss


def _vectors(draws: Any, rows: int) -> Any:
    return draws.normal(size=(8, rows, 32)).astype(np.float32)


def layers(sizes: str) -> Made:
    """Three small layers."""
    linear, relu = td.nn.Linear, td.nn.ReLU
    every = linear(32, 32), relu(), linear(32, 32), relu(), linear(32, 10)
    return _classified(td.nn.Sequential(*every), sizes, _vectors)


def normalized(sizes: str) -> Made:
    """Three small layers with a BatchNorm after each of the first two."""
    linear, norm, relu = td.nn.Linear, td.nn.BatchNorm1d, td.nn.ReLU
    every = [x for _ in range(2) for x in (linear(32, 32), norm(32), relu())]
    return _classified(td.nn.Sequential(*every, linear(32, 10)), sizes, _vectors)


def looked_up(sizes: str) -> Made:
    """Rows of a sparse table, and two small layers."""
    table, linear = td.nn.Embedding(200, 16, sparse=True), td.nn.Linear
    net = td.nn.Sequential(table, linear(16, 32), td.nn.ReLU(), linear(32, 10))
    return _classified(net, sizes, lambda draws, n: draws.integers(0, 200, (8, n)))


LARGE: dict[str, Callable[[str], Made]] = {"dense": dense, "lenet": images}
NETWORKS = {**LARGE, "three layers": layers, "BatchNorm": normalized,
            "sparse rows": looked_up}  # fmt: skip


def loops(name: str, sizes: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """An update of an optimizer that sums shards, and one of DataParallel."""

    def loop(wrapped: bool) -> Callable[[], object]:
        net, loss = NETWORKS[name](sizes)
        opt: Any = td.optim.Adam(lr=1e-3, accumulate=1 if wrapped else SHARDS)
        if wrapped:
            opt = td.distributed.DataParallel(opt, net, shards=SHARDS)

        def update() -> None:
            for shard in range(SHARDS):
                float(opt.step(loss(shard)))

        return update

    return loop(False), loop(True)


def overhead(name: str, sizes: str) -> list[float]:
    """Of neighbors in turn, the time of DataParallel over that of the plain loop."""
    turns = loops(name, sizes)

    def seconds(update: Callable[[], object], count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            update()
        return time.process_time() - start

    large = name in LARGE
    warm, updates, times = (WARM, 1, 1) if large else (SETTLED, SHORT, SMALL)
    with td.options(threads=1):
        for update in turns:
            seconds(update, warm)
        found = []
        for k in range(times * PAIRS[sizes]):
            order = turns[:: 1 - k % 2 * 2]
            first, second = (seconds(update, updates) for update in order)
            found.append(second / first if k % 2 == 0 else first / second)
    return found


def rank(sizes: str, folder: str) -> None:
    """One rank of trainings: of each its times of an update, on both clocks."""
    every = {name: _times(name, sizes) for name in LARGE}
    number = td.distributed.rank()
    (Path(folder) / str(number)).write_text(json.dumps(every))


def _times(name: str, sizes: str) -> list[float]:
    net, loss = NETWORKS[name](sizes)
    opt = td.distributed.DataParallel(td.optim.Adam(lr=1e-3), net, shards=SHARDS)
    number, size, _ = opt.shard
    own = SHARDS // size
    clocks = time.perf_counter, time.process_time
    times = []
    for update in range(WARM + UPDATES):
        before = [clock() for clock in clocks]
        for k in range(own):
            float(opt.step(loss(number * own + k)))
        if update >= WARM:
            times.append([c() - b for c, b in zip(clocks, before, strict=True)])
    return [statistics.median(t) for t in zip(*times, strict=True)]


def update_of(sizes: str, ranks: int) -> dict[str, tuple[float, ...]]:
    """The seconds of an update of so many ranks, on the clock and of a processor, of
    each network."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "treadle", "launch", "-n", str(ranks)]
        subprocess.run(
            [*words, "-m", "benchmarks.ranks", sizes, folder],
            env={**os.environ, "TREADLE_THREADS": "1"}, cwd=ROOT, check=True,
        )  # fmt: skip
        every = [json.loads(p.read_text()) for p in Path(folder).iterdir()]
    of = {name: [times[name] for times in every] for name in LARGE}
    return {name: tuple(map(max, zip(*x, strict=True))) for name, x in of.items()}


def measure(sizes: str) -> list[Row]:
    """The rows of this workload."""
    rows = []
    for name in NETWORKS:
        what = f"{name}: DataParallel on one rank over the plain loop"
        rows.append(Row(what, "ratio", tuple(overhead(name, sizes)), floor=1.03))
    rounds = [(update_of(sizes, 1), update_of(sizes, 2)) for _ in range(ROUNDS[sizes])]
    for name in LARGE:
        what = f"{name}: an update of 2 ranks over that of 1"
        for k, clock in ((1, "processor time"), (0, "on the clock")):
            ratios = tuple(two[name][k] / one[name][k] for one, two in rounds)
            rows.append(Row(f"{what}, {clock}", "ratio", ratios, 1 / 1.7, 1 / 1.9))
    return rows


if __name__ == "__main__":
    rank(*sys.argv[1:])
