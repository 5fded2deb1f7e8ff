"""Steps that give back more memory than they take run as early as they can.

A weight's gradient that updates the weight itself takes nothing and gives back what it
alone still reads, so all that would run before it finds less memory taken. So do
schedulers of a graph for memory (as in Ahn et al., "Ordering chaos", 2020), here for
one step at a time, which needs no search.
"""

from __future__ import annotations

from treadle.base.symbolic import plain
from treadle.program.arrange import LARGE, Arrangement
from treadle.program.risks import is_sure
from treadle.program.timeline import Timeline

LEAST = 1 << 16  # bytes: giving back less is not worth another order


def release_early(arranged: Arrangement) -> None:
    """Order the steps of an arrangement that takes much memory so that it takes less.

    No step passes one that could find its data wrong, or is one: what is written over
    a Variable is written when nothing can fail any more.
    """
    if arranged.small:
        return
    time = Timeline(arranged)
    if max(time.live(), default=0) < LARGE:
        return
    order = _Order(time)
    for k in range(len(time.steps)):
        order.add(k)
    before = arranged.units
    arranged.units = [unit for k in order.steps for unit in time.units[k]]
    if Timeline(arranged).largest().bytes >= time.largest().bytes:
        arranged.units = before


class _Order:
    """The steps so far, by their numbers in the order before."""

    def __init__(self, time: Timeline) -> None:
        self.time = time
        self.steps: list[int] = []
        self.fixed = 0  # of them; the others can be passed
        self.number = {u.number: k for k, us in enumerate(time.units) for u in us}
        self.readers: dict[int, list[int]] = {}  # by the serial of what is kept
        for k, read in enumerate(time.read):
            for serial in read & time.kept.keys():
                self.readers.setdefault(serial, []).append(k)

    def add(self, k: int) -> None:
        """Schedule a step after those so far, or as early as it can run."""
        if not is_sure(self.time.units[k], self.time.arranged):
            self.steps.append(k)
            self.fixed = len(self.steps)
            return
        freed = [s for s in self.time.read[k] if self._ends(s, k)]
        if self._bytes(freed) >= self._bytes(self._made(k)) + LEAST:
            self.steps.insert(self._earliest(k, freed), k)
        else:
            self.steps.append(k)

    def _ends(self, serial: int, k: int) -> bool:
        return serial in self.time.kept and self.time.last[serial] == k

    def _made(self, k: int) -> list[int]:
        """The serials of what a step leaves in memory."""
        nodes = [n for unit in self.time.units[k] for n in unit.nodes]
        return [n.serial for n in nodes if n.serial in self.time.kept]

    def _bytes(self, serials: list[int]) -> int:
        return sum(plain(self.time.kept[s].type.nbytes) for s in serials)

    def _earliest(self, k: int, freed: list[int]) -> int:
        """The place after all that a step waits for and all that read what it frees."""
        waits = {j for s in freed for j in self.readers[s]}
        for unit in self.time.units[k]:
            waits |= {j for b, j in self.number.items() if unit.before >> b & 1}
        place = len(self.steps)
        while place > self.fixed and self.steps[place - 1] not in waits:
            place -= 1
        return place
