"""A row of figures, the table that shows rows, the file that keeps them."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.verdict import verdict

WIDTH = 150  # columns of a table that goes to a file or a pipe


@dataclass(frozen=True)
class Row:
    """One figure: its samples, its unit, and what it is held against."""

    name: str
    unit: str
    samples: tuple[float, ...] = ()
    floor: float | None = None
    goal: float | None = None
    missing: str = ""  # why nothing was measured

    @property
    def median(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    @property
    def verdict(self) -> str:
        if self.median is None:
            return self.missing
        return verdict(self.median, self.floor, self.goal)


def table_of(title: str, rows: Sequence[Row]) -> Table:
    """The rows with median, spread, floor, goal and verdict."""
    table = Table(title=title)
    for column in ("figure", "median", "min", "max", "unit", "floor", "goal", ""):
        side: Any = "left" if column in ("figure", "") else "right"
        table.add_column(column, justify=side, no_wrap=True)
    for row in rows:
        spread = [min(row.samples, default=None), max(row.samples, default=None)]
        table.add_row(
            row.name,
            *[short(n) for n in (row.median, *spread)],
            row.unit,
            *[short(n) for n in (row.floor, row.goal)],
            row.verdict,
        )
    return table


def short(number: float | None) -> str:
    """A number to three digits, large ones whole; nothing where there is none."""
    if number is None:
        return ""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def machine() -> dict[str, Any]:
    """Commit, CPU and versions."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "commit": found.stdout.strip(),
        "cpu": cpu,
        "python": sys.version.split()[0],
        "versions": {p: _version(p) for p in ("treadle", "numpy", "ml_dtypes")},
    }


def report(workload: str, rows: Sequence[Row], path: str | None) -> None:
    """Print the table; write the JSON file where one is asked for."""
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table_of(workload, rows))
    if path is not None:
        figures = [{**asdict(row), "median": row.median} for row in rows]
        record = {"workload": workload, **machine(), "rows": figures}
        Path(path).write_text(json.dumps(record, indent=2) + "\n")
