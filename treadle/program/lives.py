"""Liveness: when each buffer of a program is live, and its place in the arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from treadle.base.arrays import distinct
from treadle.base.caches import lazy
from treadle.base.symbolic import plain
from treadle.program.alias import overwrites
from treadle.program.memory import ALIGNMENT, MemoryPlan, Range, largest_live_set, plan
from treadle.program.program import Launch, Program
from treadle.program.stack import Stack
from treadle.program.sweep import Times

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
PLANS = 8  # of a program
NEAR = 1.15  # of the largest live set: a plan for another size may take so much
SMALL = 1 << 18  # bytes that are worth no other plan


@dataclass(frozen=True)
class Lives:
    """The ranges of an arena and their plan.

    `place` and `steps` as `ranges_of` tells them; `regions` have the first and last
    step of each of their chains.
    """

    ranges: list[Range]
    plan: MemoryPlan
    place: dict[int, int]
    steps: dict[int, tuple[int, int]]
    regions: list[list[tuple[int, int]]]

    @lazy
    def bound(self) -> int:
        """The lower bound of all plans."""
        return largest_live_set(self.ranges, regions=self.regions)

    def resized(self, sizes: Sequence[int], plan: MemoryPlan) -> Lives:
        """The same for ranges of other sizes, by a plan for them."""
        pairs = zip(sizes, self.ranges, strict=True)
        ranges = [Range(n, r.first, r.last) for n, r in pairs]
        return Lives(ranges, plan, self.place, self.steps, self.regions)

    def dying(self, first: int, stop: int) -> list[int]:
        """The ranges that end in some steps, and whose bytes nobody has then."""
        begins, bytes, since, until = self._table
        ends = (bytes > 0) & (first <= until) & (until < stop)
        stays = (bytes > 0) & (since < stop) & (stop <= until)
        # No two that stay share memory: the last to begin below is the one to look at.
        low = np.append(0, np.sort(begins[stays]))
        high = np.append(0, np.sort((begins + bytes)[stays]))
        dying = np.flatnonzero(ends)
        before = np.searchsorted(low, (begins + bytes)[dying]) - 1
        free = high[before] <= begins[dying]
        return [int(k) for k in dying[free]]

    @lazy
    def _table(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The begin, bytes, first and last step of each range."""
        rows = [(r.bytes, r.first, r.last) for r in self.ranges]
        bytes, since, until = np.array(rows, np.int64).reshape(-1, 3).T
        return self.plan.table, bytes, since, until


class SizedPlans:
    """Plans for the ranges of a program in many sizes: stacked as in one that was made,
    or made anew where that takes too much more than the largest live set.
    """

    def __init__(self, like: Lives) -> None:
        self._like = like
        self._stacks = [_Stacked.of(like)]

    def at(self, sizes: Ints) -> MemoryPlan:
        """A plan for ranges of these sizes."""
        for one in self._stacks:
            planned, bound = one.stack.plan(sizes)
            if planned.size <= max(SMALL, one.near * bound):
                break
        else:
            like = self._like.resized(sizes.tolist(), planned)
            planned = plan(like.ranges, regions=like.regions)
            one = _Stacked.of(like.resized(sizes.tolist(), planned))
        if one is not self._stacks[0]:  # the next size may be like this one
            rest = [x for x in self._stacks if x is not one]
            self._stacks = [one, *rest[: PLANS - 1]]
        return planned


@dataclass(frozen=True)
class _Stacked:
    """A plan for other sizes, and how much of their largest live set it may take."""

    stack: Stack
    near: float

    @staticmethod
    def of(lives: Lives) -> _Stacked:
        stack = Stack.of(lives.ranges, lives.plan, lives.regions)
        return _Stacked(stack, max(NEAR, lives.plan.size / max(lives.bound, 1)))


def demand(program: Program) -> int:
    """The bytes that its buffers take at most, if none is written over another."""
    touches = _Touches.of(program)
    sizes = [plain(b.type.nbytes) if b.place == "arena" else 0 for b in program.buffers]
    size = -(-np.array(sizes, np.int64) // ALIGNMENT)
    numbers = np.arange(len(size))
    first, last = touches.spans(numbers, len(size))
    kept = (size > 0) & (last >= 0)
    if not kept.any():
        return 0
    return touches.times.most(first[kept], last[kept], size[kept]) * ALIGNMENT


def lives(
    program: Program,
    workspaces: Mapping[int, tuple[int, int]],
    alignment: int = ALIGNMENT,
) -> Lives:
    """The ranges of a program and their plan, as `ranges_of` tells them."""
    ranges, place, steps = ranges_of(program, workspaces)
    regions = _bounds(program)
    layout = plan(ranges, alignment, regions)
    return Lives(ranges, layout, place, steps, regions)


def ranges_of(
    program: Program, workspaces: Mapping[int, tuple[int, int]]
) -> tuple[list[Range], dict[int, int], dict[int, tuple[int, int]]]:
    """The ranges of a program; `workspaces` has the step and bytes of each, by number.

    The range of each buffer of the arena and of each workspace, and the first and last
    step that touch it. A buffer that is written over another one has that one's range.
    """
    touches, count = _Touches.of(program), len(program.buffers)
    whole = np.arange(count)
    begin, end = (x.tolist() for x in touches.spans(whole, count, stretch=False))
    over = overwrites(program)
    place: dict[int, int] = {}
    sizes: list[int] = []
    # Creation order is not the order of steps: an overwritten buffer comes first.
    for n in np.argsort(begin, kind="stable").tolist():
        buffer = program.buffers[n]
        if buffer.place != "arena" or end[n] < 0:
            continue
        if n in over:
            place[n] = place[over[n]]
        else:
            place[n] = len(sizes)
            sizes.append(buffer.type.nbytes)
    which = np.full(count, -1)
    which[list(place)] = list(place.values())
    first, last = (x.tolist() for x in touches.spans(which, len(sizes)))
    ranges = [Range(*one) for one in zip(sizes, first, last, strict=True)]
    steps = {n: (begin[n], end[n]) for n in place}
    for n, (k, size) in workspaces.items():
        place[n] = len(ranges)
        steps[n] = k, k
        ranges.append(Range(size, k, k))
    return ranges, place, steps


def _bounds(program: Program) -> list[list[tuple[int, int]]]:
    """The first and last step of the chains of each region."""
    return [[(a, b - 1) for a, b in r.bounds] for r in program.regions]


@dataclass(frozen=True)
class _Touches:
    """Each touch of a buffer by a step, in the order of these."""

    buffers: Ints
    steps: Ints
    times: Times

    @staticmethod
    def of(program: Program) -> _Touches:
        touched = [
            s.buffers if isinstance(s, Launch) else (*s.read, *s.written)
            for s in program.steps
        ]
        steps = np.repeat(np.arange(len(touched)), list(map(len, touched)))
        buffers = np.fromiter(chain.from_iterable(touched), np.int64, len(steps))
        return _Touches(buffers, steps, Times.of(len(touched), _bounds(program)))

    def spans(self, which: Ints, count: int, stretch: bool = True) -> tuple[Ints, Ints]:
        """The first and last touch of each of `count` groups of buffers, or -1.

        What several chains touch of the region where it ends lives `stretch`ed to the
        end of that. `which` tells the group of each buffer, or -1.
        """
        groups = which[self.buffers]
        known = groups >= 0
        groups, steps = groups[known], self.steps[known]
        first, last = np.full((2, count), -1)
        first[groups[::-1]] = steps[::-1]
        last[groups] = steps
        if not stretch:
            return first, last
        region, of = self.times.region, self.times.chain
        there = region[steps] == region[last[groups]]
        groups, chains = groups[there], of[steps[there]]
        # In the order of steps the last chain is the one that ends it.
        apart = np.zeros(count, bool)
        apart[groups[chains != of[last[groups]]]] = True
        starts = np.append(distinct(region), len(region))
        ends = starts[np.searchsorted(starts, region[last[apart]], "right")] - 1
        last[apart] = ends
        return first, last
