"""A workload beside its peers: who is there, the rounds, the check of results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.libraries import library_of
from benchmarks.rounds import Failure, Peers, Setting, alternate, measure, pair
from benchmarks.turns import together, twins
from benchmarks.verdict import Finding, in_turn, judge
from benchmarks.workload import Workload

__all__ = [
    "TRUST",
    "Outcome",
    "apart",
    "check",
    "collect",
    "compare",
    "trust",
    "trusted",
]

TRUST = 0.03  # an A/A pair that differs by more says the machine is not quiet
TOLERANCE = 1e-3  # of checked values, relative to those above 1
Tell = Callable[[str], None]
Figures = dict[tuple[str, str], dict[str, list[float]]]


@dataclass
class Outcome:
    """The figures of a workload, and everything needed to believe them."""

    workload: Workload
    setting: Setting
    peers: Peers
    aa: dict[str, float] = field(default_factory=dict)  # case -> ratio less one
    raw: list[dict[str, Any]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def samples(self) -> Figures:
        """The figures by case and quantity, a number for each turn."""
        return collect(self.raw, self.workload.together)

    @property
    def measured(self) -> set[str]:
        """The implementations that have figures."""
        return {process["implementation"] for process in self.raw}

    @property
    def findings(self) -> list[Finding]:
        """What became of the claims."""
        samples = self.samples
        return [
            judge(claim, samples)
            for claim in self.workload.claims
            if claim.threads in (None, self.setting.threads)
        ]


def collect(raw: Sequence[Mapping[str, Any]], together: bool = False) -> Figures:
    """(case, quantity) -> implementation -> the median of each process, or its samples.

    Those of processes that went `together` are each beside one of the others'.
    "time" is in milliseconds, "memory" in megabytes; "bound" is the part that is
    reached of what the machine allows: the slowest of the bounds over the time.
    """
    found: Figures = {}

    def add(case: str, quantity: str, name: str, value: float) -> None:
        found.setdefault((case, quantity), {}).setdefault(name, []).append(value)

    for process in raw:
        name = process["implementation"]
        for case, figure in process["figures"].items():
            seconds = statistics.median(figure["seconds"])
            for one in figure["seconds"] if together else [seconds]:
                add(case, "time", name, one * 1e3)
            if "megabytes" in figure:
                add(case, "memory", name, figure["megabytes"])
            if figure.get("bounds"):
                add(case, "bound", name, max(figure["bounds"].values()) / seconds)
    return found


def trust(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float]:
    """How far the times of an A/A pair are apart, by case.

    >>> a, b = ({"figures": {"x": {"seconds": [s]}}} for s in (1.0, 1.5))
    >>> trust(a, b)
    {'x': 0.5}
    """
    found = {}
    for case, figure in first["figures"].items():
        ratio = in_turn(figure["seconds"], second["figures"][case]["seconds"])
        found[case] = max(ratio, 1.0 / ratio) - 1.0
    return found


def trusted(apart: Mapping[str, float]) -> str:
    """An A/A pair in words: the median over its cases, the worst, a warning.

    >>> trusted({"x": 0.01, "y": 0.02})
    '1.5% apart in the median, 2.0% at worst'
    >>> trusted({})
    'no case was asked for'
    """
    if not apart:
        return "no case was asked for"
    median, worst = statistics.median(apart.values()), max(apart.values())
    warning = "" if median <= TRUST else "; not quiet: enlarge the work or wait"
    return f"{median:.1%} apart in the median, {worst:.1%} at worst{warning}"


def compare(
    work: Workload, setting: Setting, peers: Peers, rounds: int, own: bool, tell: Tell
) -> Outcome:
    """An A/A pair, then treadle (where `own`) and the peers in turn."""
    outcome = Outcome(work, setting, peers)

    def note(text: str) -> None:
        outcome.told.append(text)
        tell(text)

    if work.source is not None:
        note(work.source())
    twice, turns = (twins, together) if work.together else (pair, alternate)
    names = (("treadle",) if own else ()) + peers.present
    for name in names[:1]:
        try:
            python = peers.pythons[library_of(name)]
            outcome.aa = trust(*twice(work, setting, name, python))
        except Failure as failure:
            note(f"A/A: failed: {failure}")
        else:
            note(f"A/A of {name}: {trusted(outcome.aa)}")
    for found in turns(work, setting, names, peers.pythons, rounds, note):
        head = {"round": found.round, "part": found.part}
        name = found.implementation
        outcome.raw.append({**head, "implementation": name, **found.printed})
        turn = f"{found.part} {found.round + 1}/{rounds} {name}"
        others = found.printed.get("others", 0.0)
        tell(f"{turn} {_mean(found.printed)}, others on {others:.1f} processors")
    return outcome


def _mean(printed: Mapping[str, Any]) -> str:
    """The geometric mean of the times of one process."""
    times = [statistics.median(f["seconds"]) for f in printed["figures"].values()]
    return f"{statistics.geometric_mean(times) * 1e3:.4g} ms" if times else ""


def apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference, relative to values above 1.

    >>> apart([0.5, 100.0], [0.5, 101.0]) < 0.01
    True
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values beside {len(theirs)}")
    pairs = zip(ours, theirs, strict=True)
    # A value that is not a number differs from everything.
    gaps = [abs(a - b) / max(1.0, abs(b)) for a, b in pairs]
    return max((g if g == g else float("inf") for g in gaps), default=0.0)


def check(work: Workload, setting: Setting, peers: Peers, tell: Tell) -> bool:
    """Whether treadle and every peer give the same values, dropout off.

    With no peer to compare with, nothing is known to agree.
    """
    agree = bool(peers.present)
    if work.source is not None:
        tell(work.source())
    for part in work.parts:
        values: dict[str, dict[str, Any]] = {}
        for name in ("treadle", *peers.present):
            python = peers.pythons[library_of(name)]
            try:
                values[name] = measure(work.name, name, part, setting, python)
            except Failure as failure:
                tell(f"{part}: failed: {failure}")
                agree = False
        own = values.pop("treadle", {"figures": {}})["figures"]
        for name, found in values.items():
            for case, figure in found["figures"].items():
                if case not in own:
                    continue
                gap = apart(own[case]["values"], figure["values"])
                agree &= gap <= TOLERANCE
                word = "agree" if gap <= TOLERANCE else "DIFFER"
                tell(f"{case}: treadle and {name} {word}: {gap:.1e}")
                if gap > TOLERANCE:
                    tell(f"  {own[case]['values']}\n  {figure['values']}")
    return agree
