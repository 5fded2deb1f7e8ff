"""Schedules of steps: who waits for whom, what lives how long, which step is next."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError

__all__ = ["Numbers", "Steps", "ranking"]

Numbers = Sequence[Sequence[int]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Steps:
    """What scheduling needs to know: who waits for whom, and what lives how long."""

    def __init__(
        self,
        uses: Numbers,
        makes: Numbers,
        size: Sequence[int],
        outputs: Set[int],
        after: Numbers,
    ) -> None:
        self.count = len(uses)
        self.successors: list[list[int]] = [[] for _ in uses]
        self.predecessors: list[list[int]] = [[] for _ in uses]
        readers: list[list[int]] = [[] for _ in size]
        maker = [-1] * len(size)
        self._link(uses, makes, after, maker, readers)
        # Of the buffers that count:
        self.size: list[int] = []
        self.maker: list[int] = []
        self.readers: list[list[int]] = []
        # Per step: its bytes made, read, read as the only reader; its shared buffers.
        self.made = [0] * self.count
        self.read = [0] * self.count
        self.alone = [0] * self.count
        self.passing = [0] * self.count
        self.shared: list[list[int]] = [[] for _ in uses]
        for buffer, by in enumerate(readers):
            made = maker[buffer]
            if made >= 0 and size[buffer] > 0 and buffer not in outputs:
                self._count(size[buffer], made, by)
        self._arrays()

    def _link(
        self,
        uses: Numbers,
        makes: Numbers,
        after: Numbers,
        maker: list[int],
        readers: list[list[int]],
    ) -> None:
        """Edges from makers to readers, and between those who make one buffer."""
        writer = [-1] * len(maker)
        since: list[list[int]] = [[] for _ in maker]  # readers since the last writer
        for step in range(self.count):
            before = [b for buffer in uses[step] if (b := writer[buffer]) >= 0]
            for buffer in makes[step]:
                if writer[buffer] >= 0:
                    before.append(writer[buffer])
                    readers[buffer].append(step)
                elif not since[buffer]:
                    maker[buffer] = step
                before += since[buffer]
                since[buffer], writer[buffer] = [], step
            for buffer in uses[step]:
                since[buffer].append(step)
                if writer[buffer] != step:
                    readers[buffer].append(step)
            if after:
                before += after[step]
            for other in dict.fromkeys(before):
                if other > step:
                    raise ArgumentError(f"step {step} comes before step {other}")
                if other != step:
                    self.successors[other].append(step)
                    self.predecessors[step].append(other)

    def _count(self, size: int, maker: int, readers: list[int]) -> None:
        readers = list(dict.fromkeys(readers)) if len(readers) > 1 else readers
        if not readers:
            self.passing[maker] += size
            return
        self.made[maker] += size
        for step in readers:
            self.read[step] += size
        if len(readers) == 1:
            self.alone[readers[0]] += size
        else:
            for step in readers:
                self.shared[step].append(len(self.size))
        self.size.append(size)
        self.maker.append(maker)
        self.readers.append(readers)

    def _arrays(self) -> None:
        self._sizes = np.array(self.size, np.int64)
        self._makers = np.array(self.maker, np.int64)
        counts = np.fromiter(map(len, self.readers), np.int64, len(self.readers))
        self._starts = counts.cumsum() - counts
        flat = (step for by in self.readers for step in by)
        self._readers = np.fromiter(flat, np.int64, int(counts.sum()))
        self._passing = np.array(self.passing, np.int64)
        # No order has a lower peak than the step that touches most.
        touched = np.array(self.made) + np.array(self.read) + self._passing
        self.floor = int(touched.max()) if self.count else 0

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes alive in one step of `order`."""
        return int(self._live(order).max()) if self.count else 0

    def at_the_peak(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """The place of the peak, and the buffers alive there."""
        where = int(self._live(order).argmax())
        first, last = self._spans(order)
        return where, np.flatnonzero((first <= where) & (last >= where)).tolist()

    def _spans(self, order: Sequence[int]) -> tuple[Ints, Ints]:
        position = np.empty(self.count, np.int64)
        position[order] = np.arange(self.count)
        if not self.size:
            return self._makers, self._makers
        last = np.maximum.reduceat(position[self._readers], self._starts)
        return position[self._makers], last

    def _live(self, order: Sequence[int]) -> Ints:
        """Bytes alive at each place of an order."""
        order = list(order)
        first, last = self._spans(order)
        change = np.zeros(self.count + 1, np.int64)
        np.add.at(change, first, self._sizes)
        np.subtract.at(change, last + 1, self._sizes)
        return self._passing[order] + change.cumsum()[:-1]

    def forward(
        self, rank: Sequence[int], *, cheapest: bool = False, limit: int | None = None
    ) -> list[int] | None:
        """A schedule by `rank` in which steps that add no bytes go first.

        Or, `cheapest`: the step that adds the fewest bytes first, ties by `rank`. With
        a limit a step waits until its bytes fit; None where in the end none fits.
        """
        delta = [m - a for m, a in zip(self.made, self.alone, strict=True)]
        left = [len(by) for by in self.readers]
        which = [0] * len(left)  # exclusive or of the readers left
        for buffer, by in enumerate(self.readers):
            if len(by) > 1:
                for step in by:
                    which[buffer] ^= step

        def ran(step: int) -> list[int]:
            changed = []
            for buffer in self.shared[step]:
                left[buffer] -= 1
                which[buffer] ^= step
                if left[buffer] == 1:  # its last reader will free it
                    delta[which[buffer]] -= self.size[buffer]
                    changed.append(which[buffer])
            return changed

        def needs(step: int) -> int:
            return self.made[step] + self.passing[step]

        run = _Run(rank, delta, self.shared, ran, needs, cheapest, limit)
        return run.through(self.predecessors, self.successors)

    def backward(
        self, rank: Sequence[int], *, limit: int | None = None
    ) -> list[int] | None:
        """`forward` with time running backwards; `rank` is still that of time.

        A buffer then starts to live with whichever reader runs and ends at its maker.
        """
        delta = [r - m for r, m in zip(self.read, self.made, strict=True)]
        begun = [False] * len(self.size)

        def ran(step: int) -> list[int]:
            changed = []
            for buffer in self.shared[step]:
                if not begun[buffer]:
                    begun[buffer] = True
                    for other in self.readers[buffer]:
                        delta[other] -= self.size[buffer]
                    changed += self.readers[buffer]
            return changed

        def needs(step: int) -> int:
            return delta[step] + self.made[step] + self.passing[step]

        last = self.count - 1
        rank = [last - r for r in rank]
        run = _Run(rank, delta, self.shared, ran, needs, False, limit)
        found = run.through(self.successors, self.predecessors)
        if found is not None:
            found.reverse()
        return found

    def depth_first(self) -> list[int]:
        """Each step as late as its reader needs it, the hungriest operand first.

        Sethi and Ullman's numbers (1970), as if the graph were a tree.
        """
        need = [0] * self.count
        operands: list[list[int]] = []
        for step, before in enumerate(self.predecessors):
            if len(before) > 1:
                before = sorted(before, key=lambda s: self.made[s] - need[s])
            held = most = 0
            for other in before:
                most = max(most, held + need[other])
                held += self.made[other]
            need[step] = max(most, held + self.made[step])
            operands.append(before)
        opened = [False] * self.count
        done = [False] * self.count
        found: list[int] = []
        for root in range(self.count):
            stack = [] if self.successors[root] else [root]
            while stack:
                step = stack[-1]
                if not opened[step]:
                    opened[step] = True
                    stack += [s for s in reversed(operands[step]) if not opened[s]]
                else:
                    stack.pop()
                    if not done[step]:
                        done[step] = True
                        found.append(step)
        return found


@dataclass
class _Run:
    """One list schedule, in either direction of time."""

    rank: Sequence[int]
    delta: list[int]  # the bytes a step would add for good if it ran now
    shared: list[list[int]]
    ran: Callable[[int], list[int]]  # notes a step; those whose delta changed
    needs: Callable[[int], int]  # the bytes a step would add while it runs
    cheapest: bool
    limit: int | None

    def __post_init__(self) -> None:
        # A ready step's key holds its urgency and its rank; an old key is passed over.
        self.key: list[int | None] = [None] * len(self.rank)
        self.heap: list[int] = []
        self.blocked: list[tuple[int, int]] = []  # steps that did not fit, by need
        self.live = 0

    def through(
        self, before: list[list[int]], behind: list[list[int]]
    ) -> list[int] | None:
        """All steps, each after those before it."""
        rank, delta, key, heap = self.rank, self.delta, self.key, self.heap
        cheapest, limited = self.cheapest, self.limit is not None
        count, steps = len(rank), ranking(rank)
        wait = [len(others) for others in before]
        ready = [step for step in steps if not wait[step]]
        found: list[int] = []
        while True:
            for step in ready:
                urgency = delta[step] if cheapest else delta[step] > 0
                key[step] = new = urgency * count + rank[step]
                heappush(heap, new)
            if self.blocked:
                self._unblock()
            while heap:
                now = heappop(heap)
                step = steps[now % count]
                if key[step] == now and (not limited or self._fits(step)):
                    break
            else:
                return found if len(found) == count else None
            key[step] = None
            found.append(step)
            self.live += delta[step]
            ready = []
            if self.shared[step]:
                ready = [s for s in self.ran(step) if key[s] is not None]
            for other in behind[step]:
                wait[other] -= 1
                if not wait[other]:
                    ready.append(other)

    def _fits(self, step: int) -> bool:
        if self.limit is None:
            return True
        need = self.needs(step)
        if self.live + need > self.limit:
            heappush(self.blocked, (need, step))
            return False
        return True

    def _unblock(self) -> None:
        assert self.limit is not None
        while self.blocked and self.blocked[0][0] <= self.limit - self.live:
            step = heappop(self.blocked)[1]
            key = self.key[step]
            if key is not None:
                heappush(self.heap, key)


def ranking(order: Sequence[int]) -> list[int]:
    """The place of each step in an order; of places, the steps."""
    rank = [0] * len(order)
    for place, step in enumerate(order):
        rank[step] = place
    return rank
