"""Programs for extents never seen, from those of graphs that differ in extents alone.

A graph whose extents lie between those of others on one line gets what these foretell:
every order and every congruence that their sizes have in common holds for its sizes,
so what was decided by sizes is decided for it as well.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from treadle.base.locks import lock
from treadle.base.options import current
from treadle.engines.native.code import name_of
from treadle.engines.native.keys import Open
from treadle.engines.native.linked import Linked
from treadle.engines.native.workspace import abreast
from treadle.program.even import ProgramLaw, Uneven, fit
from treadle.program.group import MANY
from treadle.program.program import Launch, Program

__all__ = ["Families"]

SAMPLES = 32  # of a family
LAWS = 8
MISSED = 3  # of a family, and nothing is compiled beyond what is asked for
GAPS = 32
STEPS = 1 << 14  # of all programs kept
LEAST = 2  # an extent of 1 is another structure

Vector = np.ndarray[Any, np.dtype[np.int64]]
Extents = tuple[int, ...]
Entry = tuple[Linked, list[int]]


@dataclass(frozen=True)
class _Sample:
    """A program that was compiled for some extents, and all that is known with it."""

    extents: Vector
    program: Program
    leaves: tuple[int, ...]
    again: tuple[int, ...]
    inside: tuple[tuple[int, int, int], ...]
    kind: Any  # equal of those that may have a law in common

    @staticmethod
    def of(extents: Extents, entry: Entry) -> _Sample:
        linked, leaves = entry
        own = tuple(leaves), tuple(linked.again)
        inside = tuple(linked.inside)
        calls = tuple([(call, node) for call, node, _ in inside])
        kind = *own, calls, _kind(linked.plain)
        given = np.array(extents, np.int64), linked.plain
        return _Sample(*given, *own, inside, kind)

    def entry(self, program: Program, inside: Any, lanes: int) -> Entry | None:
        """A program that is like this one but for numbers, if it fits in memory."""
        linked, needed = abreast(program, lanes)
        if 0 < current().workspace < needed:
            return None
        linked.again, linked.inside = list(self.again), list(inside)
        return linked, list(self.leaves)


def _kind(program: Program) -> Any:
    """What does what in a program, without sizes."""
    return tuple(
        [
            (s.read, s.written, name_of(s.kernel) if type(s) is Launch else type(s))
            for s in program.steps
        ]
    )


class _Line:
    """A law for extents on a line: the `low` ones, and whole steps further."""

    def __init__(self, first: _Sample, middle: _Sample, last: _Sample) -> None:
        """`middle` lies on the line between the others; raises Uneven."""
        self.like = last
        far, near = last.extents - first.extents, middle.extents - first.extents
        moving = np.flatnonzero(far)
        if min(first.extents[moving].min(), last.extents[moving].min()) < LEAST:
            raise Uneven
        steps = math.gcd(*far.tolist())
        common = math.gcd(steps, *near.tolist())
        self.low, self.steps = first.extents, steps // common
        self.step = far // self.steps
        self.moving = int(moving[0])
        place = self.place(middle.extents)
        assert place is not None
        given = {0: first, place: middle, self.steps: last}
        self.law = ProgramLaw({k: x.program for k, x in given.items()})
        self.inside = fit(first.inside, last.inside, 0, self.steps)

    def place(self, extents: Vector) -> int | None:
        """How many steps from the low ones extents lie, if there is a law for them."""
        off = extents - self.low
        k, rest = divmod(int(off[self.moving]), int(self.step[self.moving]))
        if rest or not 0 <= k <= self.steps or not np.array_equal(off, k * self.step):
            return None
        return k

    def at(self, k: int, lanes: int) -> Entry | None:
        """The program so many steps from the low extents, if it fits in memory."""
        return self.like.entry(self.law.at(k), self.inside(k), lanes)


Run = list[tuple[int, _Sample]]  # on a line, by the steps from where one looks


@dataclass
class _Family:
    """Samples, the oldest first, and laws, the newest last."""

    samples: list[_Sample] = field(default_factory=list)
    lines: list[_Line] = field(default_factory=list)
    uneven: set[tuple[int, ...]] = field(default_factory=set)  # tried, by identity
    missed: int = 0  # extents further out that were of no use

    def line(self, extents: Vector) -> tuple[_Line, int] | None:
        """A law for some extents, and their place."""
        for line in reversed(self.lines):
            place = line.place(extents)
            if place is not None:
                return line, place
        for _, run in self._runs(extents):
            below = sum(place < 0 for place, _ in run)
            chosen = _chosen(_alike(run, below))
            made = self._found(*chosen) if chosen else None
            place = made.place(extents) if made else None
            if made is not None and place is not None:
                self.lines = [*self.lines[1 - LAWS :], made]
                return made, place
        return None

    def known(self, extents: Vector) -> _Sample | None:
        """What was compiled for these very extents, to foretell others."""
        same = (x for x in self.samples if np.array_equal(x.extents, extents))
        return next(same, None)

    def _found(self, *chosen: _Sample) -> _Line | None:
        key = tuple(map(id, chosen))
        if key in self.uneven:
            return None
        try:
            return _Line(*chosen)
        except Uneven:
            self.uneven.add(key)
            return None

    def _runs(self, extents: Vector) -> Iterator[tuple[Vector, Run]]:
        """The lines through some extents and samples: the way of each, and these."""
        lines: dict[tuple[int, ...], Run] = {}
        for x in self.samples:
            off = x.extents - extents
            place = math.gcd(*off.tolist())
            if not place:
                continue
            way = tuple((off // place).tolist())
            turned = tuple([-v for v in way])
            if way < turned:
                way, place = turned, -place
            lines.setdefault(way, []).append((place, x))
        for way, own in lines.items():
            own.sort(key=itemgetter(0))
            yield np.array(way, np.int64), own

    def beyond(self, extents: Vector) -> Vector | None:
        """Extents further out than some, if a program for them may give a law.

        Samples of another kind may lie there: half the way to the next one, then.
        """
        if self.missed >= MISSED:
            return None
        for way, run in self._runs(extents):
            below = sum(place < 0 for place, _ in run)
            for side, own in ((1, run[:below][::-1]), (-1, run[below:])):
                kinds = [x.kind for _, x in own[:2]]
                if len(kinds) < 2 or kinds[0] != kinds[1]:
                    continue
                past = run[below:] if side > 0 else run[:below][::-1]
                if past and past[0][1].kind == kinds[0]:
                    continue  # what lies between is compiled, and there is a law
                far = abs(past[0][0]) // 2 if past else _room(extents, side * way)
                gaps = own[1][0] - own[0][0]
                for k in range(far, max(far - GAPS, 1), -1):
                    if math.gcd(gaps, side * k - own[0][0]) == 1:
                        found: Vector = extents + side * k * way
                        return found
        return None

    @property
    def steps(self) -> int:
        """Of all samples."""
        return sum(len(x.program.steps) for x in self.samples)

    def add(self, sample: _Sample) -> int:
        """Remember a sample; how many steps more there are."""
        before = self.steps
        if len(self.samples) >= SAMPLES:
            gone = self.samples.pop(len(self.samples) // 2)
            self.uneven = {key for key in self.uneven if id(gone) not in key}
        self.samples.append(sample)
        return self.steps - before


def _chosen(run: Run) -> tuple[_Sample, _Sample, _Sample] | None:
    """The ends of a run and one between, if what their places have in common holds
    for the place that these are counted from.
    """
    if len(run) < 3:
        return None
    (first, low), *between, (last, high) = run

    def common(x: tuple[int, _Sample]) -> int:
        return math.gcd(last - first, x[0] - first)

    best = min(between, key=common)
    return None if first % common(best) else (low, best[1], high)


def _room(extents: Vector, way: Vector) -> int:
    """How often some extents may go a way: to twice what they are, or to half of it,
    if kernels are not other ones there.
    """
    moving = np.flatnonzero(way)
    here, step = extents[moving], way[moving]
    last = np.where(step < 0, -(-here // 2), 2 * here)
    last = np.where(here < MANY, np.minimum(last, MANY - 1), np.maximum(last, MANY))
    return int(((last - here) // step).min())


def _alike(run: Run, below: int) -> Run:
    """The samples on both sides of a place up to the first of another kind."""
    if not 0 < below < len(run):
        return []
    kind = run[below][1].kind
    low, high = below, below
    while low and run[low - 1][1].kind == kind:
        low -= 1
    while high < len(run) and run[high][1].kind == kind:
        high += 1
    return run[low:high] if low < below else []


class Families:
    """Programs by graphs without extents, and laws for the extents between them."""

    def __init__(self) -> None:
        self._table: OrderedDict[Any, _Family] = OrderedDict()
        self._steps = 0
        self._lock = lock()

    def made(self, graph: Open, lanes: int) -> Entry | None:
        """The program of a graph by a law, to be linked; None if there is none.

        `graph` is what `family` tells of it, `lanes` as in `fitting`.
        """
        extents = np.array(graph[1], np.int64)
        with self._lock:
            own = self._table.get(graph[0])
            if own is None:
                return None
            sample = own.known(extents)
            found = own.line(extents) if sample is None else None
            if sample is None and found is None:
                return None
            own.missed = 0
        if sample is not None:
            return sample.entry(sample.program, sample.inside, lanes)
        return found[0].at(found[1], lanes) if found is not None else None

    def beyond(self, graph: Open) -> Extents | None:
        """Extents whose program, once it is added, may give a graph's by a law."""
        with self._lock:
            own = self._table.get(graph[0])
            far = own.beyond(np.array(graph[1], np.int64)) if own else None
            if own is None or far is None:
                return None
            own.missed += 1  # until it is of use
        return tuple(far.tolist())

    def add(self, graph: Open, entry: Entry) -> None:
        """Remember a program that was compiled for a graph."""
        if not graph[1]:
            return
        with self._lock:
            own = self._table.setdefault(graph[0], _Family())
            self._table.move_to_end(graph[0])
            self._steps += own.add(_Sample.of(graph[1], entry))
            while self._steps > STEPS and len(self._table) > 1:
                _, gone = self._table.popitem(last=False)
                self._steps -= gone.steps

    def clear(self) -> None:
        """Forget all programs and laws."""
        with self._lock:
            self._table.clear()
            self._steps = 0
