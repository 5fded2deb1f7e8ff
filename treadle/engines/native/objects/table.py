"""Numbers for objects, in machine code: a table of addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.base.routine import Numbers, routine

__all__ = ["Table", "emptied", "place", "slot_of"]

SPREAD = 0x1E3779B97F4A7C15  # a large odd number
LOW = (1 << 63) - 1


@dataclass(frozen=True)
class Table:
    """Numbers for objects. It is used again, and empty before each use.

    Slot k has an object at slots[2 * k], zero if it is free, and its number behind it.
    """

    slots: Numbers
    mask: int
    objects: Numbers
    room: int
    places: Numbers  # the slot of each object
    count: Numbers  # of objects, one number

    @classmethod
    def of(cls, room: int) -> Table:
        """A table for so many objects."""
        slots = 1 << (2 * room - 1).bit_length()
        objects, places = np.empty(room, np.int64), np.empty(room, np.int64)
        free, count = np.zeros(2 * slots, np.int64), np.zeros(1, np.int64)
        return cls(free, slots - 1, objects, room, places, count)

    def clear(self, count: int) -> None:
        """Forget the objects, of which there are so many."""
        self.slots[2 * self.places[:count]] = 0


@routine
def slot_of(table: Table, x: int) -> int:
    """The slot where an object is looked for first."""
    return (x * SPREAD & LOW) >> 24 & table.mask


@routine
def _slot_for(table: Table, x: int) -> int:
    """The slot where an object is, or a free one where it would be."""
    slots, slot = table.slots, slot_of(table, x)
    while slots[2 * slot] != x and slots[2 * slot] != 0:
        slot = slot + 1 & table.mask
    return slot


@routine
def place(table: Table, x: int) -> int:
    """The number of an object, a new one if it is not known; -1 if there is no room."""
    slot = _slot_for(table, x)
    if table.slots[2 * slot] == x:
        return table.slots[2 * slot + 1]
    return _added(table, x, slot)


@routine
def _added(table: Table, x: int, slot: int) -> int:
    """The number of an object that is put into a free slot; -1 if there is no room."""
    number = table.count[0]
    if number >= table.room:
        return -1
    table.slots[2 * slot] = x
    table.slots[2 * slot + 1] = number
    table.objects[number] = x
    table.places[number] = slot
    table.count[0] = number + 1
    return number


@routine
def emptied(table: Table) -> int:
    """Forget all objects; how many there were."""
    slots, places, count = table.slots, table.places, table.count[0]
    for k in range(count):
        slots[2 * places[k]] = 0
    table.count[0] = 0
    return count
