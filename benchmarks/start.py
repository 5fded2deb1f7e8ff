"""start: a fresh process imports the library, and takes a first training step."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

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


PACKAGES = (
    *("numpy", "ml_dtypes", "llvmlite", "platformdirs"),
    *("rich", "markdown-it-py", "mdurl", "pygments"),
)


def fresh(program: str, cache: str) -> tuple[float, float]:
    """The two numbers a program prints in a process of its own.

    Bytecode is kept in a folder of this run: an installed package has it, a checkout
    that was never imported, or is told not to write it, has not.
    """
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**settings, "PYTHONPYCACHEPREFIX": cache},
    )
    if done.stderr:
        raise RuntimeError(f"the process is not silent: {done.stderr}")
    seconds, size = done.stdout.split()
    return float(seconds), float(size)


def package() -> list[Path]:
    """The files of the package and of what it depends on, without bytecode."""
    import_root = Path(__file__).resolve().parents[1] / "treadle"
    found = [path for path in import_root.rglob("*") if path.is_file()]
    for name in PACKAGES:
        try:
            found += [Path(str(f.locate())) for f in files(name) or ()]
        except PackageNotFoundError:
            continue
    return [f for f in found if f.suffix != ".pyc" and f.exists()]


def wheels(found: list[Path]) -> float:
    """Megabytes of the files in wheels, which are compressed as zip files are."""
    return sum(len(zlib.compress(f.read_bytes(), 6)) for f in found) / 1e6


def measure() -> list[Row]:
    """The rows of this workload; the processes are run in turn."""
    programs = {
        "numpy": IMPORT.format(module="numpy"),
        "treadle": IMPORT.format(module="treadle"),
        "step": STEP,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as cache:
        for program in programs.values():
            fresh(program, cache)
        for _ in range(REPEATS):
            for name, program in programs.items():
                found[name].append(fresh(program, cache))

    found_files = package()

    def column(name: str, k: int) -> tuple[float, ...]:
        return tuple(sample[k] for sample in found[name])

    return [
        Row("import treadle", "s", column("treadle", 0), 0.35, 0.25),
        Row("memory after import treadle", "MB", column("treadle", 1), 100, 80),
        Row("import numpy, for comparison", "s", column("numpy", 0)),
        Row("memory after import numpy", "MB", column("numpy", 1)),
        Row("fresh process to the first lenet step", "s", column("step", 0), 2.0, 1.0),
        Row("wheels, with what it needs", "MB", (wheels(found_files),), 120, 100),
        Row("installed", "MB", (sum(f.stat().st_size for f in found_files) / 1e6,)),
    ]
