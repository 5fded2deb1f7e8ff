"""`python -m benchmarks WORKLOAD [--peer NAME ...]`: measure, print, keep."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import compile, fit, loop, node, ranks, start
from benchmarks.frame import check, compare
from benchmarks.report import Row, report
from benchmarks.rounds import Setting, find, interpreters
from benchmarks.tables import RESULTS, keep, kept_name, show
from benchmarks.workloads import NAMES, branches, memory, workload, workspace

# Workloads without peers, as functions of the sizes asked for.
ALONE: dict[str, Callable[[str], list[Row]]] = {
    "branches": branches.measure,
    "compile": compile.measure,
    "fit": fit.measure,
    "loop": loop.measure,
    "memory": memory.measure,
    "newshape": compile.newshape,
    "node": lambda sizes: node.measure(),
    "ranks": ranks.measure,
    "start": lambda sizes: start.measure(),
    "workspace": workspace.measure,
}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("workload", choices=sorted([*ALONE, *NAMES]))
    parser.add_argument(
        "--peer", action="append", default=[], help="a library or one of its variants"
    )
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=PATH",
        help="the interpreter that has a library; also TREADLE_BENCH_PYTHON_NAME",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, help="alternations (7; quick or ordinary: 2)"
    )
    parser.add_argument("--threads", type=int, help="of each process (2; ordinary: 1)")
    parser.add_argument(
        "--quiet", type=float, default=math.inf, metavar="N",
        help="repeat what is measured while others use more than N processors",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="where the figures are kept")
    parser.add_argument(
        "--data", metavar="DIR", help="where sst/ and wikiner/ are; also TREADLE_DATA"
    )
    parser.add_argument("--quick", action="store_true", help="a look, for no claim")
    parser.add_argument("--perturbed", action="store_true", help="other sizes")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help='cases such as "data *1x1*"'
    )
    parser.add_argument("--tiny", action="store_true", help="sizes of the tests")
    parser.add_argument("--check", action="store_true", help="compare results only")
    parser.add_argument("--peers-only", action="store_true", help="without treadle")
    return parser.parse_args(given)


def main() -> int:
    """Measure one workload and print its table; 1 where a check fails."""
    chosen = arguments()
    if chosen.data is not None:
        os.environ["TREADLE_DATA"] = str(Path(chosen.data).resolve())
    sizes = "perturbed" if chosen.perturbed else "tiny" if chosen.tiny else "plain"
    if chosen.workload in ALONE:
        report(chosen.workload, ALONE[chosen.workload](sizes), chosen.json)
        return 0
    console = Console(stderr=True, highlight=False, markup=False)
    work = workload(chosen.workload)
    ordinary = work.steps is not None
    threads = chosen.threads or (1 if ordinary else 2)
    setting = Setting(
        threads, sizes, chosen.quick, chosen.check, chosen.quiet, chosen.only
    )
    peers = find(work, chosen.peer, interpreters(chosen.python))
    for name, why in peers.missing.items():
        console.print(f"missing: {name}: {why}")
    if chosen.check:
        return 0 if check(work, setting, peers, console.print) else 1
    rounds = chosen.rounds or (2 if chosen.quick or ordinary else 7)
    own = not chosen.peers_only
    outcome = compare(work, setting, peers, rounds, own, console.print)
    show(outcome)
    if chosen.json is not None or not (chosen.quick or chosen.only):
        path = Path(chosen.json) if chosen.json else RESULTS / kept_name(outcome)
        keep(outcome, path)
        console.print(f"kept in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
