"""Steps that wait for others, a collective for its ranks: begun as early as what they
read is there, and waited for as late as somebody reads them, with other steps between.

They are begun in the order in which they were written, whatever is between. None is
waited for behind a step that makes a new version of a Variable: that may be written
over the old one when nothing can fail any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from treadle.program.arrange import Arrangement
from treadle.program.units import Unit

WHOLE, BEGIN, END = "", "begin", "end"
Part = tuple[Unit, str]


def overlapped(arranged: Arrangement) -> list[Part]:
    """The units that are steps, in order; those that wait in two parts if there is
    anything to do between."""
    units = arranged.steps()
    if not any(map(_waits, units)):
        return [(unit, WHOLE) for unit in units]
    return list(_joined(_Order(arranged, units).parts))


def _waits(unit: Unit) -> bool:
    return unit.region is None and unit.nodes[0].op.traits.waits


def _joined(parts: list[Part]) -> Iterator[Part]:
    """The parts, where a unit that is begun and waited for at once is whole."""
    k = 0
    while k < len(parts):
        unit, part = parts[k]
        whole = part == BEGIN and parts[k + 1][0] is unit
        yield unit, WHOLE if whole else part
        k += 1 + whole


class _Order:
    """The parts of units in order, as they are found; bits of units and of waits."""

    def __init__(self, arranged: Arrangement, units: list[Unit]) -> None:
        self.arranged = arranged
        self.parts: list[Part] = []
        self.waits = [unit for unit in units if _waits(unit)]
        self.needs = self._needs()
        self.done = self.begun = self.ended = 0
        for unit in units:
            self._add(unit)
        self._end(-1)

    def _needs(self) -> dict[int, int]:
        """By serial, the waits that have to be over before a node is computed."""
        number = {unit.nodes[0].serial: k for k, unit in enumerate(self.waits)}
        needs: dict[int, int] = {}
        for node in self.arranged.nodes:
            bits = 0
            for x in node.inputs:
                bits |= needs.get(x.serial, 0)
                if x.serial in number:
                    bits |= 1 << number[x.serial]
            needs[node.serial] = bits
        return needs

    def _own(self, unit: Unit) -> list[Unit]:
        """A unit, with that which a product does itself."""
        finish = self.arranged.finishes.get(unit.nodes[0].serial)
        return [unit] if finish is None else [unit, finish]

    def _add(self, unit: Unit) -> None:
        units = self._own(unit)
        nodes = [node for u in units for node in u.nodes]
        if not self.arranged.changed.isdisjoint(node.serial for node in nodes):
            self._end(-1)
        for node in nodes:
            self._end(self.needs[node.serial])
        if _waits(unit):
            if not self.begun >> self.waits.index(unit) & 1:
                self._begin()
        else:
            self.parts.append((unit, WHOLE))
            for u in units:
                self.done |= 1 << u.number
        while self._can_begin():
            self._begin()

    def _can_begin(self) -> bool:
        """Whether all that the next wait reads is there."""
        place = self.begun.bit_length()
        if place == len(self.waits):
            return False
        unit = self.waits[place]
        needed = self.needs[unit.nodes[0].serial]
        return not (unit.before & ~self.done or needed & ~self.ended)

    def _begin(self) -> None:
        place = self.begun.bit_length()
        unit = self.waits[place]
        self.parts.append((unit, BEGIN))
        self.begun |= 1 << place
        self.done |= 1 << unit.number

    def _end(self, bits: int) -> None:
        """Wait for those of some waits that are begun, in their order."""
        for place, unit in enumerate(self.waits):
            if bits & self.begun & ~self.ended & 1 << place:
                self.parts.append((unit, END))
                self.ended |= 1 << place
