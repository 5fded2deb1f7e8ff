"""When what lies in the arena of a program lives, and where it lies."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.program.alias import overwrites
from treadle.program.memory import Plan, Range, largest_live_set, plan
from treadle.program.program import Program

__all__ = ["Lives", "demand", "lives"]


@dataclass(frozen=True)
class Lives:
    """The ranges of an arena and their plan.

    `place` has the range of each buffer of the arena and of each workspace, `steps` the
    first and last step that touch it; `bound` is what no such plan can be smaller than.
    """

    ranges: list[Range]
    plan: Plan
    bound: int
    place: dict[int, int]
    steps: dict[int, tuple[int, int]]

    def dying(self, first: int, stop: int) -> list[int]:
        """The ranges that end in some steps, and whose bytes nobody has then."""
        ends, stays = [], []
        for k, r in enumerate(self.ranges):
            if r.bytes and first <= r.last < stop:
                ends.append(k)
            elif r.bytes and r.first < stop <= r.last:
                stays.append((self.plan.offsets[k], r.bytes))
        stays.sort()
        found = []
        for k in ends:
            begin = self.plan.offsets[k]
            at = bisect_left(stays, (begin + self.ranges[k].bytes, 0))
            if not at or sum(stays[at - 1]) <= begin:
                found.append(k)
        return found


def demand(program: Program) -> int:
    """The bytes that its buffers take at most, if none is written over another."""
    place: dict[int, int] = {}
    ranges = _stretched(program, _ranges(program, _spans(program), {}, place), place)
    return largest_live_set(ranges, regions=_bounds(program))


def lives(program: Program, workspaces: Mapping[int, tuple[int, int]]) -> Lives:
    """The ranges of a program; `workspaces` has the step and bytes of each, by number.

    A buffer that is written over another one has that one's range.
    """
    spans = _spans(program)
    place: dict[int, int] = {}
    ranges = _ranges(program, spans, overwrites(program), place)
    for n, (k, size) in workspaces.items():
        place[n] = len(ranges)
        spans[n] = k, k
        ranges.append(Range(size, k, k))
    ranges = _stretched(program, ranges, place)
    regions = _bounds(program)
    bound = largest_live_set(ranges, regions=regions)
    steps = {n: spans[n] for n in place}
    return Lives(ranges, plan(ranges, regions=regions), bound, place, steps)


def _bounds(program: Program) -> list[list[tuple[int, int]]]:
    """Of each region the first and last step of its chains."""
    return [[(a, b - 1) for a, b in r.bounds] for r in program.regions]


def _spans(program: Program) -> dict[int, tuple[int, int]]:
    """The first and the last step that touches each buffer."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, step in enumerate(program.steps):
        for n in (*step.read, *step.written):
            first.setdefault(n, k)
            last[n] = k
    return {n: (k, last[n]) for n, k in first.items()}


def _ranges(
    program: Program,
    spans: Mapping[int, tuple[int, int]],
    over: Mapping[int, int],
    place: dict[int, int],
) -> list[Range]:
    """The ranges of buffers, which `place` is to tell of each."""
    ranges: list[Range] = []
    # Creation order is not the order of steps: an overwritten buffer comes first.
    for n in sorted(spans, key=lambda n: (spans[n][0], n)):
        buffer = program.buffers[n]
        if buffer.place != "arena":
            continue
        if n in over:
            k = place[n] = place[over[n]]
            old = ranges[k]
            ranges[k] = Range(old.bytes, old.first, spans[n][1])
        else:
            place[n] = len(ranges)
            ranges.append(Range(buffer.type.nbytes, *spans[n]))
    return ranges


def _stretched(
    program: Program, ranges: list[Range], place: Mapping[int, int]
) -> list[Range]:
    """The ranges, to the end of a region where several chains of it touch them."""
    for k in _read_apart(program, place, ranges):
        old = ranges[k]
        region = program.regions[program.chain_of[old.last][0]]
        ranges[k] = Range(old.bytes, old.first, region.stop - 1)
    return ranges


def _read_apart(
    program: Program, place: Mapping[int, int], ranges: Sequence[Range]
) -> set[int]:
    """The ranges that several chains touch of the region in which they end."""
    found: set[int] = set()
    known: dict[int, int] = {}
    chain_of = program.chain_of
    for k, (region, chain) in chain_of.items():
        step = program.steps[k]
        for n in (*step.read, *step.written):
            at = place.get(n)
            if at is None or chain_of.get(ranges[at].last, (-1, -1))[0] != region:
                continue
            if known.setdefault(at, chain) != chain:
                found.add(at)
    return found
