"""Small steps side by side: chains of them that touch nothing of each other.

A step of some microseconds is too short to be split over threads. Where steps depend on
each other in chains, and chains not on one another, each chain runs on a thread of its
own instead: a region of the program. Steps stand in an order in which those that could
run at the same time are near each other. While nothing runs beside a chain, what was
seen of it is left as it was and the search begins anew: so chains that fork from
another one are told from it. A step that reads of two chains is put off until after
their region. A region that takes much more memory than its steps in order is none.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from treadle.program.dependences import before, nanoseconds, stretches, turns
from treadle.program.lives import demand
from treadle.program.program import ParallelRegion, Program

SYNC = 2_000  # ns that it takes to hand out parts and to wait for the last of them
LARGE = 512_000  # ns, over the threads: such a step is for all of them
PIECE = 4_000  # ns: shorter parts are not made of a step
QUANTUM = 20_000  # ns after which a chain that runs alone is given up
TINY = 3_000  # ns: what takes less may join any chain
DEPTH = 3  # so may few steps, of half the chain's time
SPARE = 16  # steps put off beyond twice those of a region, and it ends
GAIN = 8  # a region saves this part of the time at least
BUNDLES = 16  # of chains, at most
MORE = 5  # quarters of the memory of the steps in order that regions may take
FREE = 1 << 16  # bytes that they may take in any case
TRIED = 8  # regions that are tried one by one where all together take more

Chains = list[list[int]]


def side_by_side(program: Program, lanes: int) -> Program:
    """The program with chains of steps in regions, where that is faster by estimate.

    `lanes` threads may run side by side. Steps that are in no region, and between none,
    stay in order; so do fallbacks, and steps after which nothing may fail.
    """
    times = nanoseconds(program)
    if lanes < 2 or len(times) < 2 or sum(times) < 2 * SYNC:
        return program
    depends, counts = before(program), turns(program)
    pieces: list[Chains] = []
    for first, stop in stretches(program):
        pieces += _Stretch(depends, times, counts, first, stop, lanes).pieces()
    return _lean(program, pieces)


def _lean(program: Program, pieces: Sequence[Chains]) -> Program:
    """The program in pieces, without those regions that take too much memory."""
    regions = [k for k, chains in enumerate(pieces) if len(chains) > 1]
    if not regions:
        return program
    most = demand(program) * MORE // 4 + FREE
    whole = _ordered(program, pieces, set(regions))
    if demand(whole) <= most:
        return whole
    chosen: set[int] = set()
    for k in regions[:TRIED]:
        if demand(_ordered(program, pieces, chosen | {k})) <= most:
            chosen.add(k)
    return _ordered(program, pieces, chosen) if chosen else program


def _ordered(program: Program, pieces: Sequence[Chains], chosen: set[int]) -> Program:
    """The program in pieces, of which those chosen are regions."""
    order: list[int] = []
    plain: list[int] = []
    regions: list[ParallelRegion] = []
    for k, chains in enumerate(pieces):
        if k not in chosen:
            plain += chain.from_iterable(chains)
            continue
        order += sorted(plain)
        plain = []
        regions.append(ParallelRegion(len(order), tuple(map(len, chains))))
        order += chain.from_iterable(chains)
    order += sorted(plain)
    return replace(
        program,
        steps=tuple([program.steps[k] for k in order]),
        about=tuple([program.about[k] for k in order]),
        regions=tuple(regions),
    )


@dataclass
class _Chain:
    """Steps that depend on each other, and their time; `depth` of them in a row."""

    steps: list[int]
    time: int
    depth: int


class _Scan:
    """The steps of a region to be, as far as they have been looked at."""

    def __init__(
        self,
        depends: Sequence[Sequence[int]],
        times: Sequence[int],
        turns: Sequence[int],
        large: int,
    ) -> None:
        self.depends, self.times, self.turns = depends, times, turns
        self.large = large
        self.chain: dict[int, _Chain] = {}  # of a step
        self.depth: dict[int, int] = {}
        self.users: dict[int, list[int]] = {}  # of steps that read of no other one
        self.early: set[int] = set()  # to run before the region
        self.late: dict[int, None] = {}  # after it, in order
        self.time = self.longest = 0
        self.ended = False

    @property
    def alone(self) -> bool:
        """Whether one chain has most of the work."""
        return self.longest > 2 * (self.time - self.longest)

    def take(self, k: int) -> None:
        """Look at the next step."""
        mine = [p for p in self.depends[k] if p in self.chain or p in self.users]
        if any(p in self.late for p in self.depends[k]):
            self._put_off(k)
        elif self.times[k] >= self.large * self.turns[k]:
            if all(p in self.users for p in mine):
                for p in mine:
                    self._hasten(p)
                self.early.add(k)
            else:
                self._put_off(k)
        elif not mine:
            self.users[k] = []
        else:
            self._join(k, mine)

    def _join(self, k: int, mine: Sequence[int]) -> None:
        """Put a step in the chain that it goes on with, if it is but one."""
        owners = {id(c): c for p in mine if (c := self.chain.get(p)) is not None}
        chains = sorted(owners.values(), key=lambda c: -c.time)
        largest = chains[0] if chains else _Chain([], 0, 0)
        for c in chains[1:]:
            few = c.depth <= DEPTH and 2 * c.time <= largest.time
            if c.time > TINY and not few:
                self._put_off(k)
                return
        joined = max(chains, key=lambda c: len(c.steps), default=largest)
        for c in chains:
            if c is not joined:
                joined.steps += c.steps
                joined.time += c.time
                self.chain |= dict.fromkeys(c.steps, joined)
        for p in mine:
            if p in self.users:
                self.users[p].append(k)
        self.depth[k] = depth = 1 + max(self.depth.get(p, 0) for p in mine)
        joined.depth = max(joined.depth, depth, largest.depth)
        joined.steps.append(k)
        joined.time += self.times[k]
        self.chain[k] = joined
        self.time += self.times[k]
        self.longest = max(self.longest, joined.time)

    def _put_off(self, k: int) -> None:
        self.late[k] = None
        most = 2 * (len(self.chain) + len(self.users)) + SPARE
        self.ended = self.alone or len(self.late) > most

    def _hasten(self, k: int) -> None:
        del self.users[k]
        self.early.add(k)

    def chains(self) -> Chains:
        """The chains of the scan; what reads of no other step goes to its users.

        That is to run before where it has users in several chains.
        """
        chains = {id(c): list(c.steps) for c in self.chain.values()}
        for k, users in list(self.users.items()):
            owners = {id(self.chain[u]) for u in users}
            if len(owners) == 1:
                chains[owners.pop()].append(k)
            elif owners:
                self._hasten(k)
            else:
                chains[-1 - k] = [k]
        return [sorted(steps) for steps in chains.values()]


class _Stretch:
    """Steps whose order is free but for what they depend on."""

    def __init__(
        self,
        depends: Sequence[Sequence[int]],
        times: Sequence[int],
        turns: Sequence[int],
        first: int,
        stop: int,
        lanes: int,
    ) -> None:
        self.depends, self.times, self.turns = depends, times, turns
        self.first, self.stop, self.lanes = first, stop, lanes

    def pieces(self) -> Iterator[Chains]:
        """The steps again, where lists of several are chains of a region."""
        if self.stop - self.first < 2:
            yield [[*range(self.first, self.stop)]]
            return
        starts = self._starts()
        waiting: list[int] = []  # put off, in order
        at = self.first
        while waiting or at < self.stop:
            scan = _Scan(self.depends, self.times, self.turns, LARGE // self.lanes)
            seen = 0
            while seen < len(waiting) and not scan.ended:
                scan.take(waiting[seen])
                seen += 1
            limit = starts[at] + QUANTUM if at < self.stop else 0
            while at < self.stop and not scan.ended:
                if starts[at] > limit:
                    limit = starts[at] + QUANTUM
                    if scan.alone:
                        break
                scan.take(at)
                at += 1
            chains = scan.chains()
            waiting = [*scan.late, *waiting[seen:]]
            if scan.early:
                yield [sorted(scan.early)]
            yield self._judged(chains)

    def _starts(self) -> dict[int, int]:
        """The times by which the steps up to each one could all have started."""
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        latest = 0
        for k in range(self.first, self.stop):
            start = max([ends.get(p, 0) for p in self.depends[k]], default=0)
            ends[k] = start + self.times[k]
            starts[k] = latest = max(latest, start)
        return starts

    def _judged(self, chains: Chains) -> Chains:
        """The chains, or all their steps as one where they gain too little."""
        times = [sum(self.times[k] for k in steps) for steps in chains]
        here = sum(self._spread(k) for steps in chains for k in steps)
        threads = [0] * self.lanes
        for time in sorted(times, reverse=True):
            heapq.heapreplace(threads, threads[0] + time)
        parallel = max(threads) + SYNC
        most, other = [*heapq.nlargest(2, map(len, chains)), 0, 0][:2]
        # What one core has just written comes slowly to another: a step or two beside
        # a long chain that makes what they read were seen to gain nothing.
        if (
            len(chains) < 2
            or 8 * other < most
            or here - parallel < max(here // GAIN, SYNC)
        ):
            return [sorted(k for steps in chains for k in steps)]
        return _bundled(chains, times)

    def _spread(self, k: int) -> int:
        """The time of a step that all threads share, where it is long enough."""
        turns = self.turns[k]
        time = self.times[k] // turns
        parts = min(self.lanes, time // PIECE)
        return turns * (time // parts + SYNC if parts > 1 else time)


def _bundled(chains: Chains, times: Sequence[int]) -> Chains:
    """Chains in few bundles of much the same time, the longest first."""
    short = sum(t for t in times if t < PIECE)
    count = sum(t >= PIECE for t in times) + short // PIECE
    count = max(2, min(BUNDLES, count))
    order = sorted(range(len(chains)), key=lambda k: (-times[k], chains[k][0]))
    bundles: list[tuple[int, int, list[int]]] = [(0, k, []) for k in range(count)]
    for k in order:
        time, number, steps = heapq.heappop(bundles)
        heapq.heappush(bundles, (time + times[k], number, steps + chains[k]))
    ordered = sorted(bundles, key=lambda b: (-b[0], b[1]))
    return [sorted(steps) for _, _, steps in ordered if steps]
