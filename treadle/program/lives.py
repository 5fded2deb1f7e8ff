"""When what lies in the arena of a program lives, and where it lies.

What only one chain of a region touches is planned with that chain alone, in a block of
memory of its own, which like all else that a region touches lives through all of it:
whatever the threads do, chains never share an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.program.alias import overwrites
from treadle.program.memory import Plan, Range, largest_live_set, plan
from treadle.program.program import Program

__all__ = ["Lives", "lives"]


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


def lives(program: Program, workspaces: Mapping[int, tuple[int, int]]) -> Lives:
    """The ranges of a program; `workspaces` has the step and bytes of each, by number.

    A buffer that is written over another one has that one's range.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, step in enumerate(program.steps):
        for n in (*step.read, *step.written):
            first.setdefault(n, k)
            last[n] = k
    over = overwrites(program)
    place: dict[int, int] = {}
    ranges: list[Range] = []
    # Creation order is not the order of steps: an overwritten buffer comes first.
    for n in sorted(first, key=lambda n: (first[n], n)):
        buffer = program.buffers[n]
        if buffer.place != "arena":
            continue
        if n in over:
            k = place[n] = place[over[n]]
            old = ranges[k]
            ranges[k] = Range(old.bytes, old.first, last[n])
        else:
            place[n] = len(ranges)
            ranges.append(Range(buffer.type.nbytes, first[n], last[n]))
    for n, (k, size) in workspaces.items():
        place[n] = len(ranges)
        first[n] = last[n] = k
        ranges.append(Range(size, k, k))
    steps = {n: (first[n], last[n]) for n in place}
    return Lives(*_planned(program, ranges), place, steps)


def _planned(program: Program, ranges: list[Range]) -> tuple[list[Range], Plan, int]:
    """The ranges, as long as they live, their plan, and its bound."""
    if not program.regions:
        return ranges, plan(ranges), largest_live_set(ranges)
    chain = program.chain_of
    own: dict[tuple[int, int], list[int]] = {}  # ranges of one chain alone
    outer: list[int] = []
    stretched: list[Range] = []
    found = list(ranges)
    for k, r in enumerate(ranges):
        here = chain.get(r.first)
        if here is not None and here == chain.get(r.last):
            own.setdefault(here, []).append(k)
            continue
        begin, end = chain.get(r.first), chain.get(r.last)
        start = program.regions[begin[0]].first if begin else r.first
        stop = program.regions[end[0]].stop - 1 if end else r.last
        found[k] = Range(r.bytes, start, stop)
        outer.append(k)
        stretched.append(found[k])
    blocks = {at: plan([ranges[k] for k in inside]) for at, inside in own.items()}
    for (number, _), inner in blocks.items():
        region = program.regions[number]
        stretched.append(Range(inner.size, region.first, region.stop - 1))
    whole = plan(stretched)
    offsets = [0] * len(ranges)
    for k, offset in zip(outer, whole.offsets, strict=False):
        offsets[k] = offset
    for inside, inner, base in zip(
        own.values(), blocks.values(), whole.offsets[len(outer) :], strict=True
    ):
        for k, offset in zip(inside, inner.offsets, strict=True):
            offsets[k] = base + offset
    return found, Plan(tuple(offsets), whole.size), largest_live_set(stretched)
