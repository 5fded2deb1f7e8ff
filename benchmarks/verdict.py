"""Whether figures hold what is claimed of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from benchmarks.libraries import library_of
from benchmarks.workload import Claim

__all__ = [
    "Finding",
    "Samples",
    "best_peer",
    "in_turn",
    "judge",
    "least_in_turn",
    "quartiles",
    "verdict",
]

# (case, quantity) -> implementation -> a figure of each turn
Samples = Mapping[tuple[str, str], Mapping[str, Sequence[float]]]


def verdict(
    value: float, floor: float | None, goal: float | None, higher: bool = False
) -> str:
    """ "goal met", "floor met", "below the floor", or nothing without either.

    >>> verdict(0.7, 0.8, 0.5)
    'floor met'
    """
    if floor is None and goal is None:
        return ""
    sign = -1 if higher else 1
    if goal is not None and sign * value <= sign * goal:
        return "goal met"
    if floor is None:
        return "goal not met"
    return "floor met" if sign * value <= sign * floor else "below the floor"


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile, by linear interpolation.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
    (2.0, 4.0)
    """
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, third


def in_turn(own: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios of each turn.

    What is slow for a while is slow for both.

    >>> in_turn([2.0, 40.0, 3.0], [1.0, 20.0, 1.0])
    2.0
    """
    return statistics.median(a / b for a, b in zip(own, other, strict=False))


def least_in_turn(own: Sequence[float], other: Sequence[float]) -> float:
    """The least of the ratios of each turn: what others do on a machine adds to one.

    >>> least_in_turn([2.0, 40.0], [1.0, 10.0])
    2.0
    """
    return min(a / b for a, b in zip(own, other, strict=False))


@dataclass(frozen=True)
class Finding:
    """A claim with the ratio that was found, to which peer, in how many cases.

    The ratio to a peer is the median of those of each turn.
    """

    claim: Claim
    peer: str = ""
    ratio: float | None = None
    cases: int = 0
    missing: str = ""  # why there is no ratio

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return self.missing
        return verdict(self.ratio, self.claim.floor, self.claim.goal, self.claim.higher)


def judge(claim: Claim, samples: Samples) -> Finding:
    """Hold a claim against the samples, over all cases its pattern fits."""
    found: list[tuple[float, str]] = []
    missing = "treadle was not measured"
    for (case, quantity), figures in samples.items():
        if quantity != claim.quantity or not fnmatchcase(case, claim.case):
            continue
        if not figures.get("treadle"):
            continue
        own = figures["treadle"]
        if claim.against == "bound":
            found.append((statistics.median(own), case))
            continue
        peer = best_peer(figures, claim.against)
        if peer is None:
            what = "peer" if claim.against == "fastest" else claim.against
            missing = f"no {what} was measured"
            continue
        found.append((in_turn(own, figures[peer]), peer))
    if not found:
        return Finding(claim, missing=missing)
    if claim.statistic == "mean":
        ratio = statistics.geometric_mean(r for r, _ in found)
        return Finding(claim, "", ratio, len(found))
    ratio, peer = (min if claim.higher else max)(found)
    return Finding(claim, peer, ratio, len(found))


def best_peer(figures: Mapping[str, Sequence[float]], against: str) -> str | None:
    """The peer with the least median: of all, of a library's variants, or this one."""
    peers = {
        name: statistics.median(found)
        for name, found in figures.items()
        if name != "treadle"
        and found
        and against in ("fastest", name, library_of(name))
    }
    return min(peers, key=lambda name: peers[name]) if peers else None
