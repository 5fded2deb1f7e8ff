"""What a workload is: sizes, data, one function for each implementation, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "SIZES",
    "Bound",
    "Case",
    "Cases",
    "Claim",
    "Implementation",
    "Workload",
    "stepping",
]

SIZES = ("plain", "perturbed", "tiny")


class Bound(Protocol):
    """What the machine allows, measured in turns beside the work."""

    @property
    def seconds(self) -> float:
        """Of one run, by all turns so far."""
        ...

    def turn(self) -> None:
        """Measure once more."""
        ...


@dataclass(frozen=True)
class Case:
    """One thing to time: `run(n)` does it n times and returns a number of the last.

    That number (a loss, an element of the result) must agree between implementations.
    `bounds` makes what measures the seconds that the machine allows, by name; a case
    without it is held against peers alone. `counts` says
    what one run is made of (nodes, kernels, bytes), before the first. `work` is how
    many of `unit` one run does, for a rate.
    """

    name: str
    run: Callable[[int], float]
    bounds: Callable[[], Mapping[str, Bound]] | None = None
    counts: Callable[[], Mapping[str, float]] | None = None
    work: float = 0.0
    unit: str = "FLOP"


Cases = Iterator[Case]
Implementation = Callable[[Any, str, Any, bool], Cases]


@dataclass(frozen=True)
class Claim:
    """What treadle's figure of a case is held against.

    `case` is a name or a pattern (as of fnmatch); of several cases `statistic` takes
    the geometric "mean" of the ratios or the "worst". `against` is "fastest" (the least
    median of all peers), the name of a variant or of a library (the least of its
    variants) or "bound" (the part of what the machine allows: higher is better).
    `floor` and `goal` are ratios to that; with `threads` they are claimed for so many
    alone.
    """

    case: str
    quantity: str  # "time", "memory" or "bound"
    against: str
    floor: float | None
    goal: float | None
    statistic: str = "worst"
    threads: int | None = None

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.against == "bound"


@dataclass(frozen=True)
class Workload:
    """Everything the frame needs to know of one workload.

    `sizes` has an entry for each of SIZES; `data(sizes, part)` is made before memory
    is counted; an implementation, called with sizes, part, data and whether results
    are to be checked (no dropout then), yields its cases. Each part is measured in
    processes of its own. `iterations` of a case make one sample; None chooses them so
    that a sample takes `seconds`. `warm` runs come before the first sample. Where they
    go `together`, processes stay and take turns for each sample of a case. `source`
    tells where the data is from, where that can differ. Of an ordinary program so many
    `steps` are timed one by one, in processor time (`ordinary.py`); its cases that are
    `alike` record the same nodes.
    """

    name: str
    sizes: Mapping[str, Any]
    data: Callable[[Any, str], Any]
    implementations: Mapping[str, Implementation]
    claims: tuple[Claim, ...]
    parts: tuple[str, ...] = ("step",)
    iterations: int | None = None
    seconds: float = 0.2
    check_steps: int = 5
    memory: bool = True  # whether the peak is a figure of this workload
    counts: bool = False  # whether what its cases are made of is one
    warm: int = 3
    together: bool = False
    source: Callable[[], str] | None = None
    steps: int | None = None
    alike: tuple[str, ...] = ()


def stepping(
    name: str,
    step: Callable[..., Any],
    batches: Sequence[tuple[Any, ...]],
    work: float = 0.0,
    unit: str = "",
) -> Case:
    """The case whose runs step through `batches` in turn; the last one's loss."""
    done = 0

    def run(count: int) -> float:
        nonlocal done
        for _ in range(count):
            last = step(*batches[done % len(batches)])
            done += 1
        return float(last)

    return Case(name, run, work=work, unit=unit)
