"""Plans of memory for other sizes: ranges stacked as they lie in a plan that was made.

Who lies above whom is kept, and where is computed for each size: a range lies on the
highest of those under it that may live while it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Marks, Numbers, distinct
from treadle.base.caches import lazy
from treadle.core import native
from treadle.program.memory import ALIGNMENT, Chains, MemoryPlan, Range
from treadle.program.sweep import Times


@dataclass(frozen=True)
class Stack:
    """The order of ranges from the ground up, and which of those before it are under
    each, from `starts` on.
    """

    order: Numbers
    starts: Numbers
    under: Numbers
    first: Numbers  # steps of ranges
    last: Numbers
    times: Times

    @staticmethod
    def of(
        ranges: Sequence[Range], layout: MemoryPlan, regions: Sequence[Chains]
    ) -> Stack:
        """As ranges lie in a plan."""
        first = np.array([r.first for r in ranges], np.int64)
        last = np.array([r.last for r in ranges], np.int64)
        times = Times.of(int(last.max(initial=-1)) + 1, regions)
        none = np.array([not r.bytes for r in ranges], bool)  # they go on top
        order = np.lexsort((layout.table, none))
        top = np.full(len(times.chain), -1)  # the highest at each step
        under: list[Numbers] = []
        for count, k in enumerate(order.tolist()):
            span = slice(first[k], last[k] + 1)
            before = order[:count]
            beside = before[_abreast(first, last, times, k, before)]
            there = distinct(np.concatenate([top[span], beside]))
            under.append(there[there >= 0])
            top[span] = k
        starts = np.cumsum([0, *map(len, under)])
        joined = np.concatenate(under) if under else np.zeros(0)
        return Stack(order, starts, joined.astype(np.int64), first, last, times)

    def plan(self, sizes: Numbers) -> tuple[MemoryPlan, int]:
        """The plan for ranges of these sizes, and their largest live set."""
        if native is None:
            offsets, height, bound = self._stacked(sizes)
        else:
            offsets, height, bound = native.stacked(*self._given, sizes, ALIGNMENT)
        return MemoryPlan.at(offsets, height), bound

    @lazy
    def _given(self) -> tuple[Numbers, ...]:
        """What the core is given."""
        places = self.order, self.starts, self.under, self.first, self.last
        return *places, self.times.chain, self.times.region

    def _stacked(self, sizes: Numbers) -> tuple[Numbers, int, int]:
        """As the core does it: offsets, the height of all, and their live set."""
        size = -(-sizes // ALIGNMENT) * ALIGNMENT
        ends = np.zeros(len(size), np.int64)
        offsets = np.zeros(len(size), np.int64)
        for k, number in enumerate(self.order.tolist()):
            under = self.under[self.starts[k] : self.starts[k + 1]]
            offsets[number] = ends[under].max(initial=0)
            ends[number] = offsets[number] + size[number]
        bound = self.times.most(self.first, self.last, size) if len(size) else 0
        return offsets, int(ends.max(initial=0)), bound


def _abreast(
    first: Numbers, last: Numbers, times: Times, k: int, others: Numbers
) -> Marks:
    """Which others may live while a range does though their steps are others: one ends
    in a chain of the region in which the other begins in another chain.
    """
    chain, region = times.chain, times.region

    def meets(end: Numbers, begin: Numbers) -> Marks:
        pairs: Marks
        pairs = (region[end] == region[begin]) & (chain[end] != chain[begin])
        return pairs & (end < begin)

    return meets(last[others], first[k]) | meets(last[k], first[others])
