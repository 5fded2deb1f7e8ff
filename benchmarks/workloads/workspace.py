"""workspace: the gpt step in less and less memory, by computing values again.

At all of the arena it takes by itself, at 80 and 60 % of it, and in the least that it
is said to need; the losses must be the same to the last bit.
"""

from __future__ import annotations

import time
from typing import Any

import treadle as td
from benchmarks.programs import latest
from benchmarks.report import Row
from benchmarks.workloads import workload
from treadle.program.alias import overwrites

__all__ = ["measure"]

SHARES = (0.8, 0.6)
STEPS = 7
THREADS = 2


def run(sizes: str, limit: int) -> tuple[tuple[float, ...], int, list[float]]:
    """Milliseconds of steps, the bytes of the workspace, and the losses."""
    work = workload("gpt")
    chosen = work.sizes[sizes]
    part = work.parts[0]
    given = work.data(chosen, part)
    with td.options(workspace=limit, seed=1, threads=THREADS):
        (case,) = work.implementations["treadle"](chosen, part, given, False)
        losses = [case.run(1), case.run(1)]
        taken = []
        for _ in range(STEPS):
            start = time.perf_counter()
            losses.append(case.run(1))
            taken.append((time.perf_counter() - start) * 1e3)
    return tuple(taken), latest().workspace(THREADS), losses


def largest_step(linked: Any) -> int:
    """The bytes of the arena that the step which touches the most has to hold."""
    program = linked.program
    over = overwrites(program)
    place = dict(zip(linked.placed.tolist(), linked.places.tolist(), strict=True))
    most = 0
    for k, step in enumerate(program.steps):
        touched = {n for n in (*step.read, *step.written) if n in place}
        touched -= {n for n in step.written if over.get(n) in touched}
        if k in linked.workspaces:
            touched.add(linked.workspaces[k])
        most = max(most, sum(linked.sizes[place[n]] for n in touched))
    return most


def measure(sizes: str) -> list[Row]:
    """The rows of this workload."""
    taken, natural, losses = run(sizes, 0)
    rows = [Row(f"{natural / 1e6:.1f} MB, by itself", "ms", taken)]
    least = 0
    try:
        run(sizes, 1)
    except td.WorkspaceError as error:
        least = error.needed
    limits = [(f"{s:.0%}", int(natural * s)) for s in SHARES] + [("least", least)]
    for name, limit in limits:
        taken, used, found = run(sizes, limit)
        if found != losses or used > limit:
            raise RuntimeError(f"in {limit} bytes: {used} taken, losses {found}")
        rows.append(Row(f"{used / 1e6:.1f} MB, {name}", "ms", taken))
    linked = latest()
    need = largest_step(linked) + linked.scratch * THREADS
    rows.append(Row("least over the largest step", "x", (least / need,), 1.1))
    return rows
