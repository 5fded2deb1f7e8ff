"""Offsets in one arena for buffers whose lifetimes are known.

Packing rectangles of fixed time into the least height is NP-hard. Two heuristics are
tried, each in several orders, until one comes close to the largest live set, below
which nothing can go: a sweep through time that hands out the tightest gap (n log n),
and placement in order of importance into the gaps between overlapping ranges already
placed (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
2020), repaired by placing first what stuck out. Work is counted, never timed: equal
ranges give equal plans.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.caches import lazy
from treadle.base.errors import ArgumentError
from treadle.program.sweep import Times, sweep

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Chains = Sequence[tuple[int, int]]  # of a region: the first and last step of each

ALIGNMENT = 64  # of offsets
GOOD_ENOUGH = 256  # a plan within 1/256 of the bound is not improved
LONG, NEAR = 1000, 32  # of more ranges than that, one within 1/32
FEW = 250  # below it plain lists beat NumPy's fixed cost a call
MANY = 16_000  # above it the quadratic placement takes only the most important ranges
PLACINGS = 5_000  # ranges placed in all, over all orders tried
ENDLESS = 1 << 62  # a height that no plan has


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes that live from the start of step `first` to the end of step `last`."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """A memory plan: offsets of all ranges, and the bytes of the arena."""

    offsets: tuple[int, ...]
    size: int

    @staticmethod
    def at(table: Ints, size: int) -> MemoryPlan:
        """A plan by the array of its offsets."""
        memory = object.__new__(MemoryPlan)
        fields = {"offsets": tuple(table.tolist()), "size": size, "table": table}
        memory.__dict__.update(fields)
        return memory

    @lazy
    def table(self) -> Ints:
        """The offsets as an array."""
        return np.array(self.offsets, np.int64)


def plan(
    ranges: Sequence[Range], alignment: int = ALIGNMENT, regions: Sequence[Chains] = ()
) -> MemoryPlan:
    """Offsets, multiples of `alignment`, at which no two live ranges share a byte.

    In a region, the first and last steps of chains, these run side by side: what a
    range takes is its chain's there, and where several read it, it lives to the end.
    """
    problem = _Problem.of(ranges, alignment, regions)
    offsets, size = _solve(problem)
    whole = np.zeros(len(ranges), np.int64)
    whole[problem.which] = offsets * alignment
    return MemoryPlan(tuple(whole.tolist()), size * alignment)


def largest_live_set(
    ranges: Sequence[Range], alignment: int = ALIGNMENT, regions: Sequence[Chains] = ()
) -> int:
    """The most bytes alive in one step, sizes rounded up: no plan is smaller."""
    return _Problem.of(ranges, alignment, regions).bound() * alignment


@dataclass(frozen=True)
class _Problem:
    """Ranges that hold bytes, as arrays; sizes are in units of the alignment."""

    first: Ints
    last: Ints
    size: Ints
    which: Ints  # their numbers among the ranges given
    times: Times
    abreast: bool = False  # whether there are regions

    @staticmethod
    def of(
        ranges: Sequence[Range], alignment: int, regions: Sequence[Chains]
    ) -> _Problem:
        count = len(ranges)
        size = np.fromiter((r.bytes for r in ranges), np.int64, count)
        first = np.fromiter((r.first for r in ranges), np.int64, count)
        last = np.fromiter((r.last for r in ranges), np.int64, count)
        bad = np.flatnonzero((size < 0) | (last < first) | (first < 0))
        if bad.size:
            raise ArgumentError(f"no such range of memory: {ranges[int(bad[0])]}")
        which = np.flatnonzero(size)
        size = (size[which] + alignment - 1) // alignment
        times = Times.of(int(last.max(initial=-1)) + 1, regions)
        return _Problem(first[which], last[which], size, which, times, bool(regions))

    def bound(self) -> int:
        """The largest live set."""
        if not len(self.size):
            return 0
        if self.abreast:
            return self.times.most(self.first, self.last, self.size)
        change = np.zeros(int(self.last.max()) + 2, np.int64)
        np.add.at(change, self.first, self.size)
        np.subtract.at(change, self.last + 1, self.size)
        return int(change.cumsum().max())

    def only(self, chosen: Ints) -> _Problem:
        return _Problem(
            self.first[chosen], self.last[chosen], self.size[chosen], chosen, self.times
        )

    def reversed(self) -> _Problem:
        """The same ranges with time running backwards."""
        end = len(self.times.chain) - 1
        times = self.times.reversed()
        return _Problem(end - self.last, end - self.first, self.size, self.which, times)

    def swept(self) -> tuple[Ints, int]:
        """A plan made in one sweep through time."""
        return sweep(self.first, self.last, self.size, self.times)


def _solve(problem: _Problem) -> tuple[Ints, int]:
    """Offsets and height, in units."""
    count = len(problem.size)
    if not count:
        return problem.size, 0
    bound = problem.bound()
    enough = bound + bound // (GOOD_ENOUGH if count <= LONG else NEAR)
    best, height = problem.swept()
    if height > enough:
        offsets, other = problem.reversed().swept()
        if other < height:
            best, height = offsets, other
    if height > enough and not problem.abreast:  # orders of importance know no chains
        if count > MANY:
            offsets, other = _in_two_parts(problem)
        else:
            offsets, other = _by_importance(problem, bound, enough, height)
        if other < height:
            best, height = offsets, other
    return best, height


def _in_two_parts(problem: _Problem) -> tuple[Ints, int]:
    """The most important ranges placed with care, the rest swept in above them."""
    order = _orders(problem)[0]
    important, rest = problem.only(order[:MANY]), problem.only(order[MANY:])
    offsets = np.zeros(len(problem.size), np.int64)
    offsets[important.which], height = _place(
        important, np.arange(len(important.size)), tight=False
    )
    above, more = rest.swept()
    offsets[rest.which] = above + height
    return offsets, height + more


def _by_importance(
    problem: _Problem, bound: int, enough: int, known: int
) -> tuple[Ints, int]:
    """The best of several orders and of their repairs, within the work allowed.

    Of no use is what gets higher than the `known` plan, if no repair can follow.
    """
    count = len(problem.size)
    tries = max(1, min(12, PLACINGS // count))
    orders, most = _orders(problem), ENDLESS
    if tries <= len(orders):
        most = known
    attempts = []
    for number, order in enumerate(orders):
        offsets, height = _place(problem, order, tight=number == 1, most=most)
        attempts.append((height, number, order, offsets))
        tries -= 1
        if height <= enough or not tries:
            break
    height, _, order, best = min(attempts, key=lambda f: f[:2])
    offsets = best
    rank = np.empty(count, np.int64)
    while height > enough and tries:
        # What sticks out above the bound is placed earlier in the next round.
        rank[order] = np.arange(count)
        rank[offsets + problem.size > bound] //= 4
        order = np.argsort(rank, kind="stable")
        offsets, other = _place(problem, order, tight=False)
        if other < height:
            best, height = offsets, other
        tries -= 1
    return best, height


def _orders(problem: _Problem) -> list[Ints]:
    """Orders of importance: by size, by size x duration, by duration."""
    size, duration = problem.size, problem.last - problem.first + 1
    area = size * duration
    return [
        np.lexsort((-duration, -size)),
        np.lexsort((-size, -area)),
        np.lexsort((-size, -duration)),
    ]


def _place(
    problem: _Problem, order: Ints, tight: bool, most: int = ENDLESS
) -> tuple[Ints, int]:
    """Places ranges in an order: in the lowest gap that holds it, or the tightest.

    Given up, as endlessly high, where it gets higher than `most`.
    """
    if len(order) <= FEW:
        return _place_few(problem, order.tolist(), tight)
    return _place_many(problem, order.tolist(), tight, most)


def _place_few(problem: _Problem, order: list[int], tight: bool) -> tuple[Ints, int]:
    first, last = problem.first.tolist(), problem.last.tolist()
    size = problem.size.tolist()
    offsets = [0] * len(size)
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first, last
    height = 0
    for number in order:
        start, stop, need = first[number], last[number], size[number]
        reached, offset, smallest = 0, -1, 0
        for begin, end, since, until in placed:
            if since <= stop and until >= start:
                gap = begin - reached
                if gap >= need and (offset < 0 or gap < smallest):
                    offset, smallest = reached, gap
                    if not tight:
                        break
                if end > reached:
                    reached = end
        if offset < 0:
            offset = reached
        offsets[number] = offset
        insort(placed, (offset, offset + need, start, stop))
        height = max(height, offset + need)
    return np.array(offsets, np.int64), height


def _place_many(
    problem: _Problem, order: list[int], tight: bool, most: int
) -> tuple[Ints, int]:
    first, last = problem.first.tolist(), problem.last.tolist()
    size = problem.size.tolist()
    offsets = np.zeros(len(size), np.int64)
    # Of the ranges placed so far, in order of their begin.
    table = np.zeros((4, len(order)), np.int64)
    begins, ends, since, until = table
    height = 0
    for count, number in enumerate(order):
        start, stop, need = first[number], last[number], size[number]
        both = (since[:count] <= stop) & (until[:count] >= start)
        overlapping = both.nonzero()[0]
        offset = 0
        if len(overlapping):
            reached = np.maximum.accumulate(ends[overlapping])
            gaps = begins[overlapping]
            gaps[1:] -= reached[:-1]
            fits = (gaps >= need).nonzero()[0]
            if not len(fits):
                offset = int(reached[-1])
            else:
                gap = int(fits[gaps[fits].argmin()] if tight else fits[0])
                offset = int(reached[gap - 1]) if gap else 0
        offsets[number] = offset
        height = max(height, offset + need)
        if height > most:
            return offsets, ENDLESS
        at = int(begins[:count].searchsorted(offset))
        table[:, at + 1 : count + 1] = table[:, at:count]
        table[:, at] = offset, offset + need, start, stop
    return offsets, height
