"""What a walk has found in creation order, in machine code: numbers alone."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from treadle.batch.columns import Marks, Numbers
from treadle.engines.native.objects.text import loaded

__all__ = ["FIELDS", "MARKED", "SERIAL", "WAITS", "Found", "Ordering"]

# Of a node: op, kind, type, if it waits, serial, depth, references, if it is marked.
FIELDS = 8
WAITS, SERIAL, MARKED = 3, 4, 7
BITS = 11  # of serials that are sorted by at once

# The space: fields and how many fit, where operands begin, operands, objects; then two
# orders, counts, and what is told: fields, waits, marks, sizes, operands, objects.
_TEXT = """
define internal void @mark(ptr %marks, i64 %k, i64 %x) alwaysinline {
  %p = getelementptr i8, ptr %marks, i64 %k
  %bit = trunc i64 %x to i8
  store i8 %bit, ptr %p
  ret void
}

; The digit of a serial that it is sorted by.
define internal i64 @digit(ptr %serials, i64 %k, i64 %least, i64 %shift) alwaysinline {
  %serial = call i64 @word(ptr %serials, i64 %k)
  %above = sub i64 %serial, %least
  %high = lshr i64 %above, %shift
  %d = and i64 %high, $DIGITS_MASK
  ret i64 %d
}

; Sort one order into another by a digit (a radix sort: the last digit comes first).
define internal void @pass(ptr %serials, i64 %least, i64 %shift, ptr %from, ptr %to,
                           ptr %counts, i64 %n) {
entry:
  br label %clear
clear:
  %c = phi i64 [0, %entry], [%c1, %zero]
  %empty = icmp slt i64 %c, $DIGITS_COUNT
  br i1 %empty, label %zero, label %count
zero:
  call void @store(ptr %counts, i64 %c, i64 0)
  %c1 = add i64 %c, 1
  br label %clear
count:
  %k = phi i64 [0, %clear], [%k1, %one]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %one, label %sum
one:
  %d = call i64 @digit(ptr %serials, i64 %k, i64 %least, i64 %shift)
  %x = call i64 @word(ptr %counts, i64 %d)
  %x1 = add i64 %x, 1
  call void @store(ptr %counts, i64 %d, i64 %x1)
  %k1 = add i64 %k, 1
  br label %count
sum:
  %s = phi i64 [0, %count], [%s1, %add]
  %all = phi i64 [0, %count], [%all1, %add]
  %more = icmp slt i64 %s, $DIGITS_COUNT
  br i1 %more, label %add, label %move
add:
  %own = call i64 @word(ptr %counts, i64 %s)
  call void @store(ptr %counts, i64 %s, i64 %all)
  %all1 = add i64 %all, %own
  %s1 = add i64 %s, 1
  br label %sum
move:
  %m = phi i64 [0, %sum], [%m1, %put]
  %left = icmp slt i64 %m, %n
  br i1 %left, label %put, label %end
put:
  %j = call i64 @word(ptr %from, i64 %m)
  %e = call i64 @digit(ptr %serials, i64 %j, i64 %least, i64 %shift)
  %place = call i64 @word(ptr %counts, i64 %e)
  call void @store(ptr %to, i64 %place, i64 %j)
  %next = add i64 %place, 1
  call void @store(ptr %counts, i64 %e, i64 %next)
  %m1 = add i64 %m, 1
  br label %move
end:
  ret void
}

; The order of so many serials; it is one of two arrays, the other is free.
define internal ptr @sorted(ptr %serials, ptr %a, ptr %b, ptr %counts, i64 %n) {
entry:
  %first = call i64 @word(ptr %serials, i64 0)
  br label %bounds
bounds:
  %k = phi i64 [0, %entry], [%k1, %one]
  %least = phi i64 [%first, %entry], [%least1, %one]
  %most = phi i64 [%first, %entry], [%most1, %one]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %one, label %turn
one:
  call void @store(ptr %a, i64 %k, i64 %k)
  %x = call i64 @word(ptr %serials, i64 %k)
  %less = icmp slt i64 %x, %least
  %least1 = select i1 %less, i64 %x, i64 %least
  %above = icmp sgt i64 %x, %most
  %most1 = select i1 %above, i64 %x, i64 %most
  %k1 = add i64 %k, 1
  br label %bounds
turn:
  %shift = phi i64 [0, %bounds], [%shift1, %go]
  %from = phi ptr [%a, %bounds], [%to, %go]
  %to = phi ptr [%b, %bounds], [%from, %go]
  %span = sub i64 %most, %least
  %digits = lshr i64 %span, %shift
  %differ = icmp ne i64 %digits, 0
  br i1 %differ, label %go, label %end
go:
  call void @pass(ptr %serials, i64 %least, i64 %shift, ptr %from, ptr %to,
                  ptr %counts, i64 %n)
  %shift1 = add i64 %shift, $DIGITS_BITS
  br label %turn
end:
  ret ptr %from
}

define void @treadle_ordered(ptr %space, i64 %n) {
entry:
  %fields = call ptr @array(ptr %space, i64 0)
  %room = call i64 @word(ptr %space, i64 1)
  %starts = call ptr @array(ptr %space, i64 2)
  %operands = call ptr @array(ptr %space, i64 3)
  %objects = call ptr @array(ptr %space, i64 4)
  %a = call ptr @array(ptr %space, i64 5)
  %b = call ptr @array(ptr %space, i64 6)
  %counts = call ptr @array(ptr %space, i64 7)
  %told = call ptr @array(ptr %space, i64 8)
  %waits = call ptr @array(ptr %space, i64 9)
  %marks = call ptr @array(ptr %space, i64 10)
  %sizes = call ptr @array(ptr %space, i64 11)
  %read = call ptr @array(ptr %space, i64 12)
  %nodes = call ptr @array(ptr %space, i64 13)
  %base = mul i64 %room, $SERIAL
  %serials = getelementptr i64, ptr %fields, i64 %base
  %order = call ptr @sorted(ptr %serials, ptr %a, ptr %b, ptr %counts, i64 %n)
  %is_a = icmp eq ptr %order, %a
  %rank = select i1 %is_a, ptr %b, ptr %a
  br label %turn
turn:
  %t = phi i64 [0, %entry], [%t1, %place]
  %some = icmp slt i64 %t, %n
  br i1 %some, label %place, label %loop
place:
  %tj = call i64 @word(ptr %order, i64 %t)
  call void @store(ptr %rank, i64 %tj, i64 %t)
  %t1 = add i64 %t, 1
  br label %turn
loop:
  %k = phi i64 [0, %turn], [%k1, %done]
  %e = phi i64 [0, %turn], [%e1, %done]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %node, label %end
node:
  %k1 = add i64 %k, 1
  %j = call i64 @word(ptr %order, i64 %k)
  br label %field
field:
  %f = phi i64 [0, %node], [%f1, %copy]
  %whole = icmp eq i64 %f, $FIELDS
  br i1 %whole, label %rest, label %copy
copy:
  %from = mul i64 %f, %room
  %fj = add i64 %from, %j
  %x = call i64 @word(ptr %fields, i64 %fj)
  %to = mul i64 %f, %n
  %fk = add i64 %to, %k
  call void @store(ptr %told, i64 %fk, i64 %x)
  %f1 = add i64 %f, 1
  br label %field
rest:
  %wb = mul i64 %room, $WAITS
  %wj = add i64 %wb, %j
  %w = call i64 @word(ptr %fields, i64 %wj)
  call void @mark(ptr %waits, i64 %k, i64 %w)
  %mb = mul i64 %room, $MARKED
  %mj = add i64 %mb, %j
  %m = call i64 @word(ptr %fields, i64 %mj)
  call void @mark(ptr %marks, i64 %k, i64 %m)
  %o = call i64 @word(ptr %objects, i64 %j)
  call void @store(ptr %nodes, i64 %k, i64 %o)
  %s = call i64 @word(ptr %starts, i64 %j)
  %j2 = add i64 %j, 1
  %stop = call i64 @word(ptr %starts, i64 %j2)
  %size = sub i64 %stop, %s
  call void @store(ptr %sizes, i64 %k, i64 %size)
  br label %operand
operand:
  %q = phi i64 [%s, %rest], [%q1, %one]
  %e1 = phi i64 [%e, %rest], [%e2, %one]
  %more = icmp slt i64 %q, %stop
  br i1 %more, label %one, label %done
one:
  %y = call i64 @word(ptr %operands, i64 %q)
  %r = call i64 @word(ptr %rank, i64 %y)
  call void @store(ptr %read, i64 %e1, i64 %r)
  %q1 = add i64 %q, 1
  %e2 = add i64 %e1, 1
  br label %operand
done:
  br label %loop
end:
  ret void
}
"""
_ORDERED = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Found:
    """So many nodes in creation order: their fields, what they read, where they lie."""

    def __init__(self, count: int, read: int) -> None:
        self.fields: Numbers = np.empty((FIELDS, count), np.int64)
        self.waiting: Marks = np.empty(count, np.bool_)
        self.marked: Marks = np.empty(count, np.bool_)
        self.sizes: Numbers = np.empty(count, np.int64)
        self.operands: Numbers = np.empty(read, np.int64)
        self.objects: Numbers = np.empty(count, np.int64)

    def words(self) -> list[int]:
        """What native code is told of it."""
        arrays = self.fields, self.waiting, self.marked, self.sizes, self.operands
        return [x.ctypes.data for x in (*arrays, self.objects)]


class Ordering:
    """Memory for the order of so many nodes, used again."""

    def __init__(self, given: list[int], room: int) -> None:
        """`given` has where a walk puts what it finds."""
        self.orders = np.empty((2, room), np.int64)
        self.counts = np.empty(1 << BITS, np.int64)
        own = [*map(_address, self.orders), _address(self.counts)]
        self.words = np.array([*given, *own, *[0] * 6], np.int64)
        self.address = _address(self.words)

    def found(self, count: int, read: int) -> Found:
        """What a walk has found: so many nodes, which read so many operands."""
        made = Found(count, read)
        self.words[-6:] = made.words()
        if count:
            _function()(self.address, count)
        return made


def _address(x: Any) -> int:
    return int(x.ctypes.data)


@cache
def _function() -> Any:
    """The machine code."""
    known = {"FIELDS": FIELDS, "SERIAL": SERIAL, "WAITS": WAITS, "MARKED": MARKED}
    digits = {"DIGITS_BITS": BITS, "DIGITS_COUNT": 1 << BITS}
    digits["DIGITS_MASK"] = (1 << BITS) - 1
    made = loaded("treadle_ordered", _TEXT, {}, **known, **digits)
    function = _ORDERED(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
