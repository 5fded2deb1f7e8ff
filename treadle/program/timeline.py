"""The timeline of values: made, last read, and the memory that each step needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from dataclasses import dataclass

from treadle.base.caches import lazy
from treadle.base.symbolic import plain
from treadle.graph.tensor import Tensor
from treadle.program.arrange import Arrangement, is_leaf
from treadle.program.units import Unit


@dataclass(frozen=True)
class Demand:
    """The peak demand: what is in the arena at the step that needs the most."""

    step: int
    bytes: int
    live: tuple[Tensor, ...]  # what lies there, the largest first


class Timeline:
    """The timeline of an arrangement: the steps that make and last read each value."""

    def __init__(self, arranged: Arrangement) -> None:
        self.arranged = arranged
        self.steps = arranged.steps()
        self.units: list[list[Unit]] = []  # of each step
        self.at: dict[int, int] = {}  # the step that computes a node, by serial
        for k, unit in enumerate(self.steps):
            done = arranged.finishes.get(unit.nodes[0].serial)
            self.units.append([unit] if done is None else [unit, done])
            for each in self.units[-1]:
                self.at |= dict.fromkeys((n.serial for n in each.nodes), k)
        self.kept = arranged.kept
        for serial, node in self.kept.items():
            if serial not in self.at:  # one of an op's several results
                self.at[serial] = self.at[node.inputs[0].serial]
        self.read = [self._reads(units) for units in self.units]
        self.last: dict[int, int] = {}
        for k, read in enumerate(self.read):
            self.last |= dict.fromkeys(read, k)

    @lazy
    def when(self) -> dict[int, int]:
        """The step after which readers find a node, by serial."""
        when: dict[int, int] = {}
        for node in self.arranged.nodes:
            step = self.at.get(node.serial)
            if step is None or self.arranged.transparent(node):
                before = [-1 if is_leaf(x) else when[x.serial] for x in node.inputs]
                step = max(before, default=-1)
            when[node.serial] = step
        return when

    def step_of(self, x: Tensor) -> int:
        """The step after which a node is there; -1 for one that is there before.

        What is looked through is there with its inputs, copied to memory or not.
        """
        return -1 if is_leaf(x) else self.when[x.serial]

    def order(self, x: Tensor) -> tuple[int, int]:
        """A key that sorts nodes after what they read, and by steps."""
        return self.when[x.serial], x.serial

    def _reads(self, units: Sequence[Unit]) -> Set[int]:
        reads = [self.arranged.reads(unit) for unit in units]
        return reads[0] if len(reads) == 1 else frozenset().union(*reads)

    def live(self) -> list[int]:
        """The bytes of the arena that lie there in each step."""
        change = [0] * (len(self.steps) + 1)
        for serial, node in self.kept.items():
            first = self.at[serial]
            change[first] += plain(node.type.nbytes)
            change[self.last.get(serial, first) + 1] -= plain(node.type.nbytes)
        return list(itertools.accumulate(change[:-1]))

    def demands(self) -> list[int]:
        """The bytes that each step needs, roughly as they will be planned."""
        return [live - self._written_over(k) for k, live in enumerate(self.live())]

    def _written_over(self, k: int) -> int:
        """Bytes of what a step writes in place of what it is the last to read."""
        if self.units[k][-1].region is None:
            return 0
        dying = [
            plain(self.kept[s].type.nbytes)
            for s in self.read[k]
            if s in self.kept and self.last[s] == k and self.at[s] < k
        ]
        saved = 0
        for unit in self.units[k]:
            for node in unit.nodes:
                size = plain(node.type.nbytes) if node.serial in self.kept else 0
                if size in dying:
                    dying.remove(size)
                    saved += size
        return saved

    def largest(self) -> Demand:
        """The step that needs the most."""
        demands = self.demands()
        k = max(range(len(demands)), key=demands.__getitem__, default=0)
        live = [
            node
            for serial, node in self.kept.items()
            if self.at[serial] <= k <= self.last.get(serial, self.at[serial])
        ]
        live.sort(key=lambda n: -plain(n.type.nbytes))
        return Demand(k, demands[k] if demands else 0, tuple(live))
