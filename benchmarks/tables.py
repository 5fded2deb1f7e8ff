"""The tables and the file of a workload that was run beside peers."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.frame import Outcome
from benchmarks.report import WIDTH, machine, short
from benchmarks.verdict import Finding, best_peer, in_turn, least_in_turn, quartiles

__all__ = [
    "RESULTS",
    "claims_table",
    "counts_table",
    "figures_table",
    "keep",
    "kept_name",
    "ordinary_table",
    "show",
]

RESULTS = Path(__file__).parent / "results"
UNITS = {"time": "ms", "memory": "MB", "bound": "of bound"}


def figures_table(outcome: Outcome) -> Table:
    """Median, quartiles and ratio to the fastest peer, an implementation a row."""
    setting = outcome.setting
    quick = ", quick: no claim rests on this" if setting.quick else ""
    title = f"{outcome.workload.name}, sizes {setting.sizes}, {setting.threads} threads"
    table = Table(title=title + quick)
    work = {
        case: (figure.get("work", 0.0), figure.get("unit", "FLOP"))
        for process in outcome.raw
        for case, figure in process["figures"].items()
    }
    rates = ("rate",) if any(amount for amount, _ in work.values()) else ()
    columns = (
        "case", "implementation", "median", "quartiles", "least", "unit", "x peer"
    )  # fmt: skip
    for column in (*columns, *rates):
        side: Any = "left" if column in ("case", "implementation") else "right"
        table.add_column(column, justify=side, no_wrap=True)
    for (case, quantity), figures in outcome.samples.items():
        peer = None if quantity == "bound" else best_peer(figures, "fastest")
        label = f"{case} {quantity}"
        for name, found in figures.items():
            median = statistics.median(found)
            known = peer is not None and min(figures[peer]) > 0
            ratio = f"{in_turn(found, figures[peer]):.2f}" if peer and known else ""
            low, high = quartiles(found)
            spread = f"{short(low)} .. {short(high)}"
            row = [label, name, short(median), spread, short(min(found))]
            row += [UNITS[quantity], ratio]
            if rates and quantity == "time":
                row.append(rate(*work[case], median))
            table.add_row(*row)
            label = ""
        table.add_section()
    return table


def ordinary_table(outcome: Outcome) -> Table:
    """Microseconds of a step, a case a row, the least of all turns; treadle's ratio to
    each peer, the least of all turns; below, of cases that are alike, the worst over
    the best."""
    table = Table(title=f"{outcome.workload.name}, sizes {outcome.setting.sizes}")
    names = [n for n in outcome.workload.implementations if n in outcome.measured]
    own = "treadle" in names
    peers = [n for n in names if n != "treadle" and own]
    for column in ("case", *(f"{n} us" for n in names), *(f"/ {n}" for n in peers)):
        side: Any = "left" if column == "case" else "right"
        table.add_column(column, justify=side, no_wrap=True)
    spread: dict[str, list[float]] = {n: [] for n in names}
    for (case, _), figures in outcome.samples.items():
        least = {n: min(found) * 1e3 for n, found in figures.items()}
        row = [short(least.get(n)) for n in names]
        for n in peers:
            both = figures.get("treadle"), figures.get(n)
            row.append(f"{least_in_turn(*both):.2f}" if all(both) else "")
        table.add_row(case, *row)
        if case in outcome.workload.alike:
            for n, figure in least.items():
                spread[n].append(figure)
    if outcome.workload.alike:
        table.add_section()
        worst = [f"{max(x) / min(x):.2f} x" if x else "" for x in spread.values()]
        table.add_row("alike: worst / best", *worst)
    return table


def rate(work: float, unit: str, milliseconds: float) -> str:
    """So much work in a second; nothing where none is told.

    >>> rate(3e9, "FLOP", 10.0), rate(64, "trees", 50.0)
    ('300 GFLOP/s', '1280 trees/s')
    """
    if not work:
        return ""
    done = work / milliseconds * 1e3
    return (
        f"{short(done / 1e9)} GFLOP/s" if unit == "FLOP" else f"{short(done)} {unit}/s"
    )


def claims_table(findings: Sequence[Finding]) -> Table:
    """What is claimed, the ratio that was found, and whether it holds."""
    table = Table(title="claims: treadle over the least of the peers")
    for column in ("claim", "held against", "ratio", "floor", "goal", ""):
        side: Any = "right" if column in ("ratio", "floor", "goal") else "left"
        table.add_column(column, justify=side, no_wrap=True)
    for finding in findings:
        claim = finding.claim
        over = f", {claim.statistic} of {finding.cases}" if finding.cases > 1 else ""
        sign = ">=" if claim.higher else "<="
        limits = [f"{sign} {short(n)}" if n else "" for n in (claim.floor, claim.goal)]
        table.add_row(
            f"{'all' if claim.case == '*' else claim.case} {claim.quantity}{over}",
            finding.peer or claim.against,
            short(finding.ratio),
            *limits,
            finding.verdict,
        )
    return table


def counts_table(outcome: Outcome) -> Table:
    """What a run is made of: a count a row, an implementation a column."""
    counts: dict[str, dict[str, float]] = {}
    for process in outcome.raw:
        for figure in process["figures"].values():
            counts.setdefault(process["implementation"], figure.get("counts", {}))
    table = Table(title="counts of a run", show_header=True)
    for column in ("", *counts):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in dict.fromkeys(name for found in counts.values() for name in found):
        found = [own.get(row) for own in counts.values()]
        table.add_row(row, *["" if n is None else f"{n:,.0f}" for n in found])
    return table


def show(outcome: Outcome) -> None:
    """Print the tables there is something for."""
    console = Console()
    console.width = max(console.width, WIDTH)
    ordinary = outcome.workload.steps is not None
    console.print((ordinary_table if ordinary else figures_table)(outcome))
    if outcome.workload.counts:
        console.print(counts_table(outcome))
    if outcome.findings:
        console.print(claims_table(outcome.findings))


def kept_name(outcome: Outcome) -> str:
    """WORKLOAD-plain-20250131-120000.json, the time in UTC."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{outcome.workload.name}-{outcome.setting.sizes}-{moment}.json"


def keep(outcome: Outcome, path: Path) -> None:
    """Write machine, versions, every sample of every process, and the verdicts."""
    figures = [
        {
            "case": case,
            "quantity": quantity,
            "implementation": name,
            "unit": UNITS[quantity],
            "samples": found,
            "median": statistics.median(found),
            "quartiles": quartiles(found),
        }
        for (case, quantity), by_name in outcome.samples.items()
        for name, found in by_name.items()
    ]
    disturbed = [p["others"] for p in outcome.raw if "others" in p]
    findings = [{**asdict(f), "verdict": f.verdict} for f in outcome.findings]
    setting = outcome.setting
    quiet = setting.quiet if math.isfinite(setting.quiet) else None
    record = {
        "workload": outcome.workload.name,
        **machine(),
        "peers": outcome.peers.versions,
        "missing": outcome.peers.missing,
        "setting": {**asdict(setting), "quiet": quiet},
        "others": statistics.median(disturbed) if disturbed else None,
        "apart": outcome.aa,
        "told": outcome.told,
        "findings": findings,
        "figures": figures,
        "processes": outcome.raw,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
