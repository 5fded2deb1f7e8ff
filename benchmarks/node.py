"""node: microseconds to build a graph node: chains z = z * x + y, cells, look-ups.

Of a process that has run nothing yet, what it loads on the way included, and after the
first run, as in any loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import treadle as td
from benchmarks.report import Row
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation.keys import structure
from treadle.engines.native.translation.programs import Programs
from treadle.graph.traversal import pending
from treadle.program.program import Program

REPEATS = 15
LENGTH = 20_000
RECORDED = 5_000


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


def cells() -> dict[str, Callable[[], object]]:
    """What a network of cells records, each as it stands in a user's program."""
    table = td.param("table", shape=(100, 8), sparse=True)
    w, b = td.param("w", shape=(8, 16)), td.param("b", shape=(16,))

    @td.function
    def cell(h: td.Tensor, c: td.Tensor) -> tuple[td.Tensor, td.Tensor]:
        a, g = td.split((h + c) @ w + b, 2)
        c = c + td.tanh(a)
        return td.sigmoid(g) * c, c

    layer = td.nn.Linear(8, 8)

    @td.function
    def layered(h: td.Tensor) -> td.Tensor:
        return td.tanh(layer(h))

    h, c = cell(table[1], table[2])
    row = h * 1.0
    return {
        "call of a cell with two results": lambda: cell(h, c),
        "call of a cell around a module": lambda: layered(h),
        "row of a table by a number": lambda: table[3],
        "embedding by a number": lambda: td.embedding(table, 3),
        "part of a tensor by a number": lambda: row[3],
        "cross entropy with a number": lambda: td.cross_entropy(row, 3),
        "stack of 16 tensors": lambda: td.stack([row] * 16),
    }


def recorded(make: Callable[[], object]) -> float:
    """Microseconds to record one thing, while all that was recorded is kept."""
    make()
    found: list[object] = [None] * RECORDED
    start = time.perf_counter()
    for k in range(RECORDED):
        found[k] = make()
    return (time.perf_counter() - start) / RECORDED * 1e6


def lookup(x: td.Parameter, y: td.Tensor) -> float:
    """Microseconds a node to find the program of a chain that is known."""
    z = x * y
    for _ in range(LENGTH):
        z = z * x + y
    linked = Linked(Program((), (), (), (), ()))
    linked.link()
    programs, entry = Programs(), (linked, [])
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
    first = (chain(x.node(), y),)  # once in a process
    (x * y).numpy()
    chain(x, y)
    tensors = tuple(chain(x.node(), y) for _ in range(REPEATS))
    variables = tuple(chain(x, y) for _ in range(REPEATS))
    derived = tuple(gradient(x, y) for _ in range(5))
    found = tuple(lookup(x, y) for _ in range(5))
    cell = [
        Row(name, "us", tuple(recorded(make) for _ in range(REPEATS)))
        for name, make in cells().items()
    ]
    return [
        Row("node, before anything has run", "us", first, 3.0, 1.5),
        Row("node of two tensors", "us", tensors, 3.0, 1.5),
        Row("node of a tensor and a Variable", "us", variables, 3.0, 1.5),
        Row("derivative, a forward node", "us", derived),
        Row("key and cache look-up", "us", found, 2.0, 1.0),
        *cell,
    ]
