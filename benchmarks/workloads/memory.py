"""memory: the planned arena of whole steps, beside the most that is alive at once.

Trees are eight in one program, without batching: as rows they keep all values at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import treadle as td
from benchmarks.orders import least_of_random, peak
from benchmarks.programs import latest
from benchmarks.report import Row
from benchmarks.workloads import workload

__all__ = ["footprint", "measure"]

STEPS = (
    ("lenet", "step"),
    ("gpt", "step"),
    ("resnet", "forward 16"),
    ("resnet", "train"),
    ("tree", "cells"),
)
TREES = 8
ORDERS = 1000
ARENA = {"lenet": 13.0}  # megabytes that are a goal of their own


def footprint(name: str, part: str, sizes: str) -> Any:
    """The memory of the program that one step of a workload runs.

    Raises RuntimeError where the engine plans nothing or tells nothing.
    """
    work = workload(name)
    chosen = work.sizes[sizes]
    if name == "tree":
        chosen = replace(chosen, batch=min(TREES, chosen.batch))
    given = work.data(chosen, part)
    with td.options(autobatch=name != "tree"):
        for case in work.implementations["treadle"](chosen, part, given, False):
            case.run(1)
    program = getattr(td, "latest_program", lambda: None)()
    memory = getattr(program, "memory", None)
    if not (hasattr(memory, "arena") and hasattr(memory, "largest_live_set")):
        raise RuntimeError(
            "this engine tells no planned memory: td.latest_program().memory with "
            "arena and largest_live_set is needed; run with TREADLE_ENGINE=native"
        )
    return memory


def _rows(sizes: str) -> Iterator[Row]:
    for name, part in STEPS:
        label = name if part in ("step", "cells") else f"{name} {part}"
        memory = footprint(name, part, sizes)
        ratio = memory.arena / max(memory.largest_live_set, 1)
        over = f"{label}: arena over largest live set"
        yield Row(over, "x", (ratio,), 1.15, 1.05)
        goal = ARENA.get(name) if sizes == "plain" else None
        yield Row(f"{label}: arena", "MB", (memory.arena / 1e6,), None, goal)
        program = latest().program
        least = least_of_random(program, ORDERS if sizes == "plain" else 10)
        over = f"{label}: peak over the best of {ORDERS:,} random orders"
        yield Row(over, "x", (peak(program) / max(least, 1),), 1.2, 1.1)


def measure(sizes: str = "plain") -> list[Row]:
    """The rows of this workload."""
    return list(_rows(sizes))
