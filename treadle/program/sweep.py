"""Ranges of memory placed as they start, with time for threads side by side.

Time is the numbers of steps. In a region it runs for each chain by itself: what a chain
frees, only that chain may use again before the region ends, and each chain may be where
it needs the most while the others are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import distinct

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Times:
    """The first step of the chain and of the region of each step."""

    chain: Ints
    region: Ints

    @staticmethod
    def of(count: int, regions: Sequence[Sequence[tuple[int, int]]]) -> Times:
        """The times of so many steps; regions have first and last steps of chains."""
        chain = np.arange(count)
        region = chain.copy()
        for chains in regions:
            region[chains[0][0] : chains[-1][1] + 1] = chains[0][0]
            for first, last in chains:
                chain[first : last + 1] = first
        return Times(chain, region)

    def reversed(self) -> Times:
        """The times with steps in reverse order."""
        return Times(_reversed(self.chain), _reversed(self.region))

    def most(self, first: Ints, last: Ints, size: Ints) -> int:
        """The most that ranges may take at a time, whatever threads do."""
        count = len(self.chain)
        begins, chains = distinct(self.region), distinct(self.chain)
        stop = np.append(begins, count)[np.searchsorted(begins, self.region, "right")]
        out = np.append(chains, count)[np.searchsorted(chains, self.chain, "right")]
        through, alone = np.zeros((2, count + 1), np.int64)

        def add(where: Ints, begin: Ints, end: Ints, which: Ints) -> None:
            np.add.at(where, begin[which], size[which])
            np.subtract.at(where, end[which], size[which])

        inside = self.region[first] == self.region[last]
        long = ~inside
        add(alone, first, last + 1, inside)
        add(alone, first, out[first], long)
        add(alone, self.chain[last], last + 1, long)
        add(through, stop[first], self.region[last], long)
        peaks = np.maximum.reduceat(alone.cumsum()[:-1], chains)
        parallel = np.add.reduceat(peaks, np.searchsorted(chains, begins))
        return int((through.cumsum()[begins] + parallel).max())


def _reversed(starts: Ints) -> Ints:
    """The first place of each run of equal numbers, from the other end."""
    count = len(starts)
    begins = distinct(starts)
    last = np.append(begins, count)[np.searchsorted(begins, starts, "right")] - 1
    return np.asarray(count - 1 - last[::-1])


class Gaps:
    """Stretches of memory that are free; those that touch are one."""

    __slots__ = ("_begin_of", "_end_of", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int]] = []  # size and begin
        self._end_of: dict[int, int] = {}  # by begin
        self._begin_of: dict[int, int] = {}  # by end

    def give(self, begin: int, end: int) -> None:
        """Make a stretch free."""
        if begin in self._begin_of:
            begin = self._forget(self._begin_of[begin])[0]
        if end in self._end_of:
            end = self._forget(end)[1]
        self._end_of[begin], self._begin_of[end] = end, begin
        insort(self._sorted, (end - begin, begin))

    def take(self, need: int) -> int:
        """The begin of the tightest stretch for so much, taken; -1 if there is none."""
        fit = bisect_left(self._sorted, (need, 0))
        if fit == len(self._sorted):
            return -1
        space, begin = self._sorted.pop(fit)
        end = self._end_of.pop(begin)
        if space > need:
            self._end_of[begin + need], self._begin_of[end] = end, begin + need
            insort(self._sorted, (space - need, begin + need))
        else:
            del self._begin_of[end]
        return begin

    def below(self, height: int) -> int:
        """The begin of the stretch that ends at a height, taken; or the height."""
        begin = self._begin_of.get(height)
        return height if begin is None else self._forget(begin)[0]

    def pour(self, other: Gaps) -> None:
        """Make free here what is free in another."""
        for begin, end in other._end_of.items():
            self.give(begin, end)

    def _forget(self, begin: int) -> tuple[int, int]:
        end = self._end_of.pop(begin)
        del self._begin_of[end]
        del self._sorted[bisect_left(self._sorted, (end - begin, begin))]
        return begin, end


def sweep(first: Ints, last: Ints, size: Ints, times: Times) -> tuple[Ints, int]:
    """Places ranges as they start, the largest first, each in the tightest gap.

    The offsets, and the height of them all.
    """
    firsts, lasts, sizes = first.tolist(), last.tolist(), size.tolist()
    chain, region = times.chain.tolist(), times.region.tolist()
    starting = np.lexsort((-size, first)).tolist()
    ending = np.argsort(last, kind="stable").tolist()
    offsets = [0] * len(sizes)
    gaps = Gaps()
    chain_gaps: dict[int, Gaps] = {}  # of the chains of the region at hand
    height = ended = 0
    here = -1
    for number in starting:
        start = firsts[number]
        if region[start] != here:
            for inner in chain_gaps.values():
                gaps.pour(inner)
            chain_gaps, here = {}, region[start]
        while lasts[ending[ended]] < start:
            gone = ending[ended]
            ended += 1
            at = lasts[gone]
            free = (
                chain_gaps.setdefault(chain[at], Gaps()) if region[at] == here else gaps
            )
            free.give(offsets[gone], offsets[gone] + sizes[gone])
        need = sizes[number]
        begin = (
            chain_gaps[chain[start]].take(need) if chain[start] in chain_gaps else -1
        )
        if begin < 0:
            begin = gaps.take(need)
        if begin < 0:
            begin = gaps.below(height)
            height = begin + need
        offsets[number] = begin
    return np.array(offsets, np.int64), height
