"""start: a fresh process imports the library, and takes a first training step."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.report import Row

REPEATS = 9
IMPORT = """
import time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
with open("/proc/self/status") as status:
    fields = dict(line.split(":", 1) for line in status)
print(seconds, int(fields["VmRSS"].split()[0]) / 1024)
"""
STEP = """
import time
start = time.perf_counter()
import numpy as np
import treadle as td
from treadle.train.networks import network
model = network("lenet", (1, 28, 28), 10)
images = np.zeros((100, 1, 28, 28), np.float32)
loss = td.nn.functional.cross_entropy(model(images), np.zeros(100, np.int64))
td.optim.Adagrad(lr=0.005).step(loss)
print(time.perf_counter() - start, 0)
"""


def fresh(program: str) -> tuple[float, float]:
    """The two numbers a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    if done.stderr:
        raise RuntimeError(f"the process is not silent: {done.stderr}")
    seconds, size = done.stdout.split()
    return float(seconds), float(size)


def measure() -> list[Row]:
    """The rows of this workload; the processes are run in turn."""
    programs = {
        "numpy": IMPORT.format(module="numpy"),
        "treadle": IMPORT.format(module="treadle"),
        "step": STEP,
    }
    for program in programs.values():
        fresh(program)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(REPEATS):
        for name, program in programs.items():
            found[name].append(fresh(program))

    def column(name: str, k: int) -> tuple[float, ...]:
        return tuple(sample[k] for sample in found[name])

    return [
        Row("import treadle", "s", column("treadle", 0), 0.35, 0.25),
        Row("memory after import treadle", "MB", column("treadle", 1), 100, 80),
        Row("import numpy, for comparison", "s", column("numpy", 0)),
        Row("memory after import numpy", "MB", column("numpy", 1)),
        Row("fresh process to the first lenet step", "s", column("step", 0), 2.0, 1.0),
    ]
