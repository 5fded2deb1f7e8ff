"""Numbers for objects, in machine code: a table of addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.base.routine import Numbers, routine

__all__ = ["TABLE", "TABLES", "Table", "place", "slot_of"]

# What native code is told of a table: its slots of (object, number), their mask, the
# objects, how many fit, the slot of each, how many there are.
TABLE = 6
SPREAD = 0x1E3779B97F4A7C15  # a large odd number
LOW = (1 << 63) - 1
_SPREAD = -7046029254386353131  # two to the 64th by the golden ratio
TABLES = f"""
; The slot where an object is looked for first in a table.
define internal ptr @slot(ptr %object, ptr %table) alwaysinline {{
  %slots = call ptr @array(ptr %table, i64 0)
  %mask = call i64 @word(ptr %table, i64 1)
  %a = ptrtoint ptr %object to i64
  %mixed = mul i64 %a, {_SPREAD}
  %high = lshr i64 %mixed, 24
  %k = and i64 %high, %mask
  %slot = getelementptr [2 x i64], ptr %slots, i64 %k
  ret ptr %slot
}}

; The number of an object in a table: a new one if it is not known; -1 if it is full.
define internal i64 @place(ptr %object, ptr %table) {{
entry:
  %slots = call ptr @array(ptr %table, i64 0)
  %mask = call i64 @word(ptr %table, i64 1)
  %a = ptrtoint ptr %object to i64
  %mixed = mul i64 %a, {_SPREAD}
  %first = lshr i64 %mixed, 24
  br label %probe
probe:
  %k0 = phi i64 [%first, %entry], [%k1, %next]
  %k = and i64 %k0, %mask
  %slot = getelementptr [2 x i64], ptr %slots, i64 %k
  %there = load i64, ptr %slot
  %p = getelementptr i64, ptr %slot, i64 1
  %hit = icmp eq i64 %there, %a
  br i1 %hit, label %known, label %other
other:
  %free = icmp eq i64 %there, 0
  br i1 %free, label %fresh, label %next
next:
  %k1 = add i64 %k, 1
  br label %probe
known:
  %old = load i64, ptr %p
  ret i64 %old
fresh:
  %new = call i64 @word(ptr %table, i64 5)
  %room = call i64 @word(ptr %table, i64 3)
  %full = icmp sge i64 %new, %room
  br i1 %full, label %end, label %insert
insert:
  store i64 %a, ptr %slot
  store i64 %new, ptr %p
  %objects = call ptr @array(ptr %table, i64 2)
  %q = getelementptr i64, ptr %objects, i64 %new
  store i64 %a, ptr %q
  %places = call ptr @array(ptr %table, i64 4)
  %s = getelementptr i64, ptr %places, i64 %new
  store i64 %k, ptr %s
  %more = add i64 %new, 1
  %count = getelementptr i64, ptr %table, i64 5
  store i64 %more, ptr %count
  ret i64 %new
end:
  ret i64 -1
}}

; Forget all objects of a table; how many there were.
define internal i64 @emptied(ptr %table) {{
entry:
  %slots = call ptr @array(ptr %table, i64 0)
  %places = call ptr @array(ptr %table, i64 4)
  %count = call i64 @word(ptr %table, i64 5)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %one]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %p = getelementptr i64, ptr %places, i64 %k
  %place = load i64, ptr %p
  %slot = getelementptr [2 x i64], ptr %slots, i64 %place
  store i64 0, ptr %slot
  %k1 = add i64 %k, 1
  br label %loop
end:
  %own = getelementptr i64, ptr %table, i64 5
  store i64 0, ptr %own
  ret i64 %count
}}
"""


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

    def words(self) -> list[int]:
        """What native code is told of it."""
        slots, objects = self.slots.ctypes.data, self.objects.ctypes.data
        return [slots, self.mask, objects, self.room, self.places.ctypes.data, 0]

    def clear(self, count: int) -> None:
        """Forget the objects, of which there are so many."""
        self.slots[2 * self.places[:count]] = 0


@routine
def slot_of(table: Table, x: int) -> int:
    """The slot where an object is looked for first."""
    return (x * SPREAD & LOW) >> 24 & table.mask


@routine
def place(table: Table, x: int) -> int:
    """The number of an object, a new one if it is not known; -1 if there is no room."""
    slot = slot_of(table, x)
    while table.slots[2 * slot] != 0:
        if table.slots[2 * slot] == x:
            return table.slots[2 * slot + 1]
        slot = slot + 1 & table.mask
    number = table.count[0]
    if number >= table.room:
        return -1
    table.slots[2 * slot] = x
    table.slots[2 * slot + 1] = number
    table.objects[number] = x
    table.places[number] = slot
    table.count[0] = number + 1
    return number
