"""node: microseconds to build a graph node, in chains z = z * x + y."""

from __future__ import annotations

import time

import treadle as td
from benchmarks.report import Row
from treadle.engines.native.keys import structure
from treadle.engines.native.linked import Linked
from treadle.engines.native.programs import Programs
from treadle.graph.traversal import pending
from treadle.program.program import Program

REPEATS = 15
LENGTH = 20_000


def chain(x: td.Tensor | td.Parameter, y: td.Tensor) -> float:
    """Microseconds a node of one chain, with the default collector running."""
    z = x * y
    start = time.perf_counter()
    for _ in range(LENGTH):
        z = z * x + y
    return (time.perf_counter() - start) / (2 * LENGTH) * 1e6


def gradient(x: td.Parameter, y: td.Tensor) -> float:
    """Microseconds a forward node to derive a chain."""
    z = x * y
    for _ in range(LENGTH):
        z = z * x + y
    start = time.perf_counter()
    td.grad(z, [x])
    return (time.perf_counter() - start) / (2 * LENGTH) * 1e6


def lookup(x: td.Parameter, y: td.Tensor) -> float:
    """Microseconds a node to find the program of a chain that is known."""
    z = x * y
    for _ in range(LENGTH):
        z = z * x + y
    programs, entry = Programs(), (Linked(Program((), (), (), (), ())), [])
    keep = {z.serial}

    def find() -> None:
        key = structure(pending([z]), {}, keep).key(keep)
        programs.get(key, lambda: entry)

    find()
    start = time.perf_counter()
    find()
    return (time.perf_counter() - start) / (2 * LENGTH) * 1e6


def measure() -> list[Row]:
    """The rows of this workload."""
    x, y = td.param("x", init=0.5), td.constant(0.5)
    chain(x, y)
    tensors = tuple(chain(x.node(), y) for _ in range(REPEATS))
    variables = tuple(chain(x, y) for _ in range(REPEATS))
    derived = tuple(gradient(x, y) for _ in range(5))
    found = tuple(lookup(x, y) for _ in range(5))
    return [
        Row("node of two tensors", "us", tensors, 3.0, 1.5),
        Row("node of a tensor and a Variable", "us", variables, 3.0, 1.5),
        Row("derivative, a forward node", "us", derived),
        Row("key and cache look-up", "us", found, 2.0, 1.0),
    ]
