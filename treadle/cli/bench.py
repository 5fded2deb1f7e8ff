"""`treadle bench`: what this machine does, measured in a few seconds."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.options import options
from treadle.base.sizes import as_text
from treadle.cli.parser import CommandError, UsageError, command, show
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.variable import Variable
from treadle.runtime.computation import computation

ABOUT = """Measure this machine as Treadle uses it: how fast memory is copied, products
and functions are computed, nodes are built, programs run and the library starts.

Each row is the median of what was seen within --seconds; other programs that run at the
same time make it slower."""
SIZE = 1 << 26  # bytes of what is copied: more than caches hold
WIDTH, SMALL = 1024, 64  # of matrices
NODES = 2000  # built in one go

Row = tuple[str, float, str]


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "bench", "small measurements of this machine", ABOUT)
    words = parser.add_argument
    words("--seconds", type=float, default=0.5, metavar="S", help="a row takes (0.5)")
    words("--threads", type=int, default=0, metavar="N", help="used (0: all)")
    words("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=bench)


def bench(arguments: argparse.Namespace) -> int:
    """Measure and show, a row for each."""
    if not 0 < arguments.seconds <= 60:
        raise UsageError("--seconds is more than 0, and at most 60")
    with options(threads=max(arguments.threads, -1)):
        measured = list(rows(arguments.seconds))
    if arguments.json:
        print(
            json.dumps({name: {"value": x, "unit": unit} for name, x, unit in measured})
        )
    else:
        show(
            [(name, f"{x:,.4g}", unit) for name, x, unit in measured],
            ("measured", "", ""),
            right=(1,),
        )
    return 0


def rows(seconds: float) -> Iterator[Row]:
    """The measurements, one after the other: name, value, unit."""
    values = np.linspace(-4, 4, SIZE // 4, dtype=np.float32)
    large = Variable(values, name="large", copy=False)
    copying = _median(computation(-large), seconds)
    yield f"copy, {as_text(SIZE)}", 2 * SIZE / copying / 1e9, "GB/s"
    taken = _median(computation(functions.exp(large)), seconds)
    yield "exp of float32", SIZE / 4 / taken / 1e9, "G/s"
    for dtype in ("float32", "float64"):
        matrix = Variable(np.ones((WIDTH, WIDTH), dtype), name="matrix")
        taken = _median(computation(matrix @ matrix), seconds)
        yield f"product, {WIDTH} x {WIDTH} {dtype}", 2e-9 * WIDTH**3 / taken, "GFLOP/s"
    small = Variable(np.ones((SMALL, SMALL), np.float32), name="small")
    taken = _median(computation(functions.tanh(small @ small)), seconds)
    yield "run of a small program", taken * 1e6, "us"
    yield "building of a node", _median(_chain, seconds) / NODES * 1e6, "us"
    yield "import treadle", _started("import treadle", seconds) * 1e3, "ms"
    first = "import treadle as td; (td.ones((8,)) * 2.0).numpy()"
    yield "import and the first value", _started(first, seconds) * 1e3, "ms"


def _median(call: Callable[[], object], seconds: float) -> float:
    """Seconds of a call, once it has been made."""
    call()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _chain() -> None:
    """Build nodes one on the other; none is run."""
    x = constant_node(np.ones(8, np.float32))
    for _ in range(NODES):
        x = x + x


def _started(program: str, seconds: float) -> float:
    """Seconds of a process of its own, less those of one that does nothing."""
    places = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")]
    more = {"PYTHONPATH": os.pathsep.join(filter(None, places))}

    def start(text: str) -> None:
        words = [sys.executable, "-c", text]
        done = subprocess.run(
            words, env={**os.environ, **more}, capture_output=True, text=True
        )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise CommandError(f"{text!r} failed by itself", hint=" ".join(last))

    bare = _median(lambda: start("pass"), seconds / 2)
    return max(_median(lambda: start(program), seconds / 2) - bare, 0.0)
