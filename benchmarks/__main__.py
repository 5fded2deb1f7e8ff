"""`python -m benchmarks WORKLOAD [--json FILE]`."""

from __future__ import annotations

import argparse

from benchmarks import node, start
from benchmarks.report import report

WORKLOADS = {"node": node.measure, "start": start.measure}


def main() -> None:
    """Measure one workload and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--json", metavar="FILE", help="keep the figures in a file")
    arguments = parser.parse_args()
    report(arguments.workload, WORKLOADS[arguments.workload](), arguments.json)


if __name__ == "__main__":
    main()
