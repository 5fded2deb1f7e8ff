"""`python -m benchmarks.one WORKLOAD IMPLEMENTATION`: one measurement, one JSON line.

The frame runs it in a fresh process for each measurement, with the interpreter that
has the implementation's library; nothing but NumPy and that library is imported. With
--turns it stays and is asked, by lines of its input, for one sample after another.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks import resident
from benchmarks.libraries import prepare, versions
from benchmarks.workload import SIZES, Bound, Case, Workload
from benchmarks.workloads import workload

__all__ = ["measure"]

SAMPLES = 5  # samples of a case, where the workload does not count iterations


def limit_threads(threads: int) -> None:
    """Let this process run on its first `threads` processors only."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:threads])


def processor_seconds() -> tuple[float, float]:
    """Seconds of processor time since the start: of this machine, of this process."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(n) for n in fields[:8]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # without idle time and waiting for disks
    own = os.times()
    return busy / os.sysconf("SC_CLK_TCK"), sum(own[:4])


def others(before: tuple[float, float], seconds: float) -> float:
    """Processors that other processes have kept busy since `before`."""
    machine, own = (b - a for a, b in zip(before, processor_seconds(), strict=True))
    return max(0.0, machine - own) / seconds


def timed(case: Case, count: int) -> float:
    """Seconds of one run, of `count` together."""
    start = time.perf_counter()
    case.run(count)
    return (time.perf_counter() - start) / count


def warmed(case: Case, work: Workload, quick: bool) -> int:
    """How many runs make a sample, after some that are not counted."""
    case.run(1 if quick else work.warm)
    if work.iterations is not None:
        return max(1, work.iterations // 10) if quick else work.iterations
    once = timed(case, 1)
    seconds = work.seconds / 4 if quick else work.seconds
    return max(1, min(10_000, math.ceil(seconds / max(once, 1e-7))))


def samples(
    case: Case, work: Workload, quick: bool, bounds: Iterable[Bound] = ()
) -> list[float]:
    """Seconds of a run, once for each sample, warm; bounds are measured in turn."""
    count = warmed(case, work, quick)
    resident.reset_peak()
    if work.iterations is not None:
        return [timed(case, count)]
    found = []
    for _ in range(2 if quick else SAMPLES):
        found.append(timed(case, count))
        for bound in bounds:
            bound.turn()
    return found


def by_steps(case: Case, count: int, quick: bool) -> list[float]:
    """Seconds of processor time of each step, without those of the first quarter."""
    found = []
    for _ in range(max(4, count // 10) if quick else count):
        start = time.process_time()
        case.run(1)
        found.append(time.process_time() - start)
    return found[len(found) // 4 :]


def chosen(cases: Iterable[Case], only: str) -> Iterator[Case]:
    """The cases that a pattern asked for names, in order; all where none was."""
    return (case for case in cases if fnmatchcase(case.name, only or "*"))


def measure(work: Workload, implementation: str, setting: Any) -> dict[str, Any]:
    """The figures of one implementation in this process, by case.

    `setting` has part, sizes, quick, check, only and threads.
    """
    sizes = work.sizes[setting.sizes]
    data = work.data(sizes, setting.part)
    prepare(implementation, setting.threads)
    before = resident.resident()
    cases = work.implementations[implementation](
        sizes, setting.part, data, setting.check
    )
    figures: dict[str, Any] = {}
    for case in chosen(cases, setting.only):
        figure: dict[str, Any] = {"work": case.work, "unit": case.unit}
        if work.counts and case.counts is not None:
            figure["counts"] = dict(case.counts())
        if setting.check:
            figure["values"] = [float(case.run(1)) for _ in range(work.check_steps)]
        elif work.steps is not None:
            figure["seconds"] = by_steps(case, work.steps, setting.quick)
        else:
            bounds = case.bounds() if case.bounds is not None else {}
            figure["seconds"] = samples(case, work, setting.quick, bounds.values())
            if work.memory:
                figure["megabytes"] = resident.peak() - before
            if bounds:
                figure["bounds"] = {k: b.seconds for k, b in bounds.items()}
        figures[case.name] = figure
    return figures


def serve(work: Workload, implementation: str, setting: Any) -> None:
    """Say each case, then a sample of it for each line of the input but "next"."""

    def tell(said: dict[str, Any]) -> None:
        print(json.dumps(said), flush=True)

    sizes = work.sizes[setting.sizes]
    data = work.data(sizes, setting.part)
    prepare(implementation, setting.threads)
    cases = work.implementations[implementation](sizes, setting.part, data, False)
    for case in chosen(cases, setting.only):
        count = warmed(case, work, setting.quick)
        tell({"case": case.name, "work": case.work, "unit": case.unit})
        for line in sys.stdin:
            if line.strip() == "next":
                break
            # Not counted: the data come back to the caches, threads awake.
            timed(case, -(-count // 2))
            before, start = processor_seconds(), time.perf_counter()
            found = {"seconds": timed(case, count)}
            tell(found | {"others": others(before, time.perf_counter() - start)})
    tell({"versions": versions()})


def main() -> None:
    """Measure what the command line names and print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one")
    parser.add_argument("workload", nargs="?")
    parser.add_argument("implementation", nargs="?")
    parser.add_argument("--part", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", choices=SIZES, default="plain")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", help="a pattern of cases")
    parser.add_argument("--turns", action="store_true", help="stay, sample when asked")
    parser.add_argument("--versions", action="store_true", help="print these only")
    setting = parser.parse_args()
    if setting.versions:
        print(json.dumps(versions()))
        return
    work = workload(setting.workload)
    setting.part = setting.part or work.parts[0]
    limit_threads(setting.threads)
    if setting.turns:
        serve(work, setting.implementation, setting)
        return
    before, start = processor_seconds(), time.perf_counter()
    figures = measure(work, setting.implementation, setting)
    disturbed = others(before, time.perf_counter() - start)
    print(json.dumps({"figures": figures, "others": disturbed, "versions": versions()}))


if __name__ == "__main__":
    main()
