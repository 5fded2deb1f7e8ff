"""compile, newshape: how long it takes until a graph never seen before can run.

compile: a training step of an LSTM unrolled over 133 steps (hidden 64, batch 16, mean
squared error at each step), from a Python graph to a program that can run, in fresh
processes, with machine code on disk and without. newshape: the lenet step at batch
sizes never seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import treadle as td
from benchmarks.loop import lenet
from benchmarks.report import Row
from benchmarks.workloads import workload

__all__ = ["measure", "newshape"]

REPEATS = 5
LENGTH = {"plain": 133, "perturbed": 97, "tiny": 5}
PROGRAM = """
import json, time
import numpy as np
import treadle as td
td.set_options(threads=2)
rng = np.random.default_rng(0)
cell = td.nn.LSTMCell(64, 64)
optimizer = td.optim.SGD(lr=0.01)
inputs = rng.standard_normal(({length}, 16, 64), np.float32)
targets = rng.standard_normal(({length}, 16, 64), np.float32)
np.asarray(td.ones((2,)) + 1.0)  # engine, host and compiler are there


def loss():
    h = c = td.zeros((16, 64))
    total = td.constant(0.0)
    for x, y in zip(inputs, targets):
        h, c = cell(x, (h, c))
        total = total + ((h - y) ** 2).mean()
    return total


start = time.perf_counter()
first = loss()
built = time.perf_counter()
optimizer.step(first)
done = time.perf_counter()
steady = []
for _ in range(5):
    y = loss()
    begun = time.perf_counter()
    optimizer.step(y)
    steady.append(time.perf_counter() - begun)
run = sorted(steady)[2]
down = td.latest_program()


@td.function
def train(inputs, targets):
    h = c = td.zeros((16, 64))
    total = td.constant(0.0)
    for t in range({length}):
        h, c = cell(inputs[t], (h, c))
        total = total + ((h - targets[t]) ** 2).mean()
    return optimizer.step(total)


calls = []
for _ in range(25):
    begun = time.perf_counter()
    train(inputs, targets)
    calls.append(time.perf_counter() - begun)
call = sorted(calls)[12]
print(json.dumps([built - start, done - built - run, run, down.steps, call]))
"""


def fresh(length: int, cache: str) -> list[float]:
    """Seconds to build, to compile, to run; steps of the program; seconds of a call."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(length=length)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TREADLE_CACHE_DIR": cache},
    )
    found: list[float] = json.loads(done.stdout)
    return found


def measure(sizes: str) -> list[Row]:
    """The rows of compile."""
    length = LENGTH[sizes]
    cold, warm = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(fresh(length, cache))
            warm.append(fresh(length, cache))

    def column(found: list[list[float]], k: int, factor: float = 1.0) -> Any:
        return tuple(one[k] * factor for one in found)

    return [
        Row("graph in Python", "s", column(warm, 0)),
        Row("from the graph to a program, machine code on disk", "s",
            column(warm, 1), 1.0, 0.44),
        Row("from the graph to a program, cold", "s", column(cold, 1), 3.0, 1.5),
        Row("a step, with its graph known", "ms", column(warm, 2, 1e3)),
        Row("a step as a function", "ms", column(warm, 4, 1e3)),
        Row("kernels launched", "", column(warm, 3)),
    ]  # fmt: skip


def newshape(sizes: str) -> list[Row]:
    """The rows of newshape."""
    work = workload("lenet")
    chosen = work.sizes[sizes]
    given = work.data(chosen, work.parts[0])
    model = lenet(chosen)
    optimizer = td.optim.Adagrad(lr=0.005)

    def step(batch: int) -> float:
        images, labels = given.images[0][:batch], given.labels[0][:batch]
        start = time.perf_counter()
        loss = td.nn.functional.cross_entropy(model(images), labels)
        float(optimizer.step(loss))  # no later step waits for this one
        return time.perf_counter() - start

    batch = len(given.images[0])
    with td.options(threads=2):
        for _ in range(3):
            step(batch)
        before = td.cache_info().compiled + td.cache_info().from_disk
        taken = []
        for n in range(batch - 1, max(batch - 12, batch // 2), -1):
            first = step(n)
            taken.append((first - float(np.median([step(n) for _ in range(3)]))) * 1e3)
        kernels = td.cache_info().compiled + td.cache_info().from_disk - before
    return [
        Row("before a batch never seen runs", "ms", tuple(taken), 100.0, 20.0),
        Row("kernels compiled or loaded for them", "", (float(kernels),), 0.0),
    ]
