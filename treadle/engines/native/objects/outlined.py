"""The outline of a graph (`graph/outline.py`) in machine code.

It reads what the interpreter has of nodes where it lies (`layout.py`), as a walk does,
and adds a list of them.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np

from treadle.engines.native.objects.interpreter import INTERPRETER, addresses, numbers
from treadle.engines.native.objects.layout import offsets
from treadle.engines.native.objects.table import TABLE, TABLES, Table
from treadle.engines.native.objects.text import loaded
from treadle.graph.outline import AGELESS, Outline, outline
from treadle.graph.tensor import Tensor

__all__ = ["outlined"]

READ = 4  # operands of a node there is room for, on average
# Numbers that are told: parts, leaves, held nodes, whether none is marked, nodes, ops.
FOUND = 6

# The space has a table of nodes and one of ops, then these: parts, room for them,
# heads, ages, others, leaves, where each op comes first, held; and what is told.
_TEXT = """
define internal void @set(ptr %space, i64 %array, i64 %k, i64 %x) alwaysinline {
  %own = call ptr @array(ptr %space, i64 %array)
  %p = getelementptr i64, ptr %own, i64 %k
  store i64 %x, ptr %p
  ret void
}

; Add to a number that is told; what it was.
define internal i64 @more(ptr %space, i64 %k) {
  %p = getelementptr i64, ptr %space, i64 %k
  %x = load i64, ptr %p
  %y = add i64 %x, 1
  store i64 %y, ptr %p
  ret i64 %x
}

; The place of a node that is read once more; -1 if there is no room for it.
define internal i64 @read(ptr %node, ptr %space) {
entry:
  %before = call i64 @word(ptr %space, i64 5)
  %k = call i64 @place(ptr %node, ptr %space)
  %full = icmp slt i64 %k, 0
  br i1 %full, label %end, label %count
count:
  %new = icmp eq i64 %k, %before
  %own = call ptr @array(ptr %space, i64 16)
  %p = getelementptr i64, ptr %own, i64 %k
  %cp = getelementptr i8, ptr %node, i64 $COUNT
  %all = load i64, ptr %cp
  %left = load i64, ptr %p
  %some = select i1 %new, i64 %all, i64 %left
  %others = sub i64 %some, 1
  store i64 %others, ptr %p
  br label %end
end:
  ret i64 %k
}

; A list of the nodes below a list of roots; None if there is no room for them.
define ptr @treadle_outline(ptr %roots, ptr %space, ptr %none, ptr %api) {
entry:
  %given = call i64 @word(ptr %roots, i64 2)
  %items = call ptr @field(ptr %roots, i64 $LIST_ITEMS)
  %ops = getelementptr i64, ptr %space, i64 $TABLE
  %parts = call ptr @array(ptr %space, i64 12)
  %room = call i64 @word(ptr %space, i64 13)
  %told0 = getelementptr i64, ptr %space, i64 20
  store [3 x i64] zeroinitializer, ptr %told0
  %plain = getelementptr i64, ptr %space, i64 23
  store i64 1, ptr %plain
  br label %begin
begin:
  %r = phi i64 [0, %entry], [%r1, %root]
  %left = icmp slt i64 %r, %given
  br i1 %left, label %root, label %nodes
root:
  %rp = getelementptr ptr, ptr %items, i64 %r
  %x = load ptr, ptr %rp
  %rk = call i64 @read(ptr %x, ptr %space)
  %r1 = add i64 %r, 1
  %rno = icmp slt i64 %rk, 0
  br i1 %rno, label %no, label %begin
nodes:
  %k = phi i64 [0, %begin], [%kn, %done]
  %e = phi i64 [0, %begin], [%en, %done]
  %n = call i64 @word(ptr %space, i64 5)
  %inside = icmp slt i64 %k, %n
  br i1 %inside, label %node, label %mark
node:
  call void @set(ptr %space, i64 14, i64 %k, i64 %e)
  %known = call ptr @array(ptr %space, i64 2)
  %np = getelementptr ptr, ptr %known, i64 %k
  %own = load ptr, ptr %np
  %stored = call ptr @field(ptr %own, i64 $stored)
  %waits = icmp eq ptr %stored, %none
  %inputs = call ptr @field(ptr %own, i64 $inputs)
  %mine = call i64 @word(ptr %inputs, i64 2)
  %m = select i1 %waits, i64 %mine, i64 0
  %e1 = add i64 %e, 1
  %ends = add i64 %e1, %m
  %much = icmp sgt i64 %ends, %room
  br i1 %much, label %no, label %fits
fits:
  %head = getelementptr i64, ptr %parts, i64 %e
  br i1 %waits, label %open, label %leaf
leaf:
  store i64 0, ptr %head
  call void @set(ptr %space, i64 15, i64 %k, i64 $AGELESS)
  %l = call i64 @more(ptr %space, i64 21)
  call void @set(ptr %space, i64 17, i64 %l, i64 %k)
  br label %done
open:
  %serial = call ptr @field(ptr %own, i64 $serial)
  %age = call i64 @number(ptr %serial)
  call void @set(ptr %space, i64 15, i64 %k, i64 %age)
  %op = call ptr @field(ptr %own, i64 $op)
  %different = call i64 @word(ptr %ops, i64 5)
  %which = call i64 @place(ptr %op, ptr %ops)
  %ono = icmp slt i64 %which, 0
  br i1 %ono, label %no, label %told
told:
  store i64 %which, ptr %head
  %first = icmp eq i64 %which, %different
  br i1 %first, label %new, label %same
new:
  call void @set(ptr %space, i64 18, i64 %which, i64 %k)
  br label %same
same:
  %marks = call ptr @field(ptr %own, i64 $mark)
  %marked = icmp ne ptr %marks, %none
  %nothing = icmp eq i64 %m, 0
  %strange = or i1 %marked, %nothing
  br i1 %strange, label %special, label %each
special:
  store i64 0, ptr %plain
  br label %each
each:
  %from = getelementptr i8, ptr %inputs, i64 $ITEMS
  br label %operand
operand:
  %j = phi i64 [0, %each], [%j1, %one]
  %more = icmp slt i64 %j, %m
  br i1 %more, label %item, label %done
item:
  %ip = getelementptr ptr, ptr %from, i64 %j
  %y = load ptr, ptr %ip
  %yk = call i64 @read(ptr %y, ptr %space)
  %yno = icmp slt i64 %yk, 0
  br i1 %yno, label %no, label %one
one:
  %at = add i64 %e1, %j
  %to = getelementptr i64, ptr %parts, i64 %at
  store i64 %yk, ptr %to
  %j1 = add i64 %j, 1
  br label %operand
done:
  %en = phi i64 [%e1, %leaf], [%ends, %operand]
  %kn = add i64 %k, 1
  br label %nodes
mark:
  %ep = getelementptr i64, ptr %space, i64 20
  store i64 %e, ptr %ep
  %ages = call ptr @array(ptr %space, i64 15)
  %others = call ptr @array(ptr %space, i64 16)
  br label %look
look:
  %h = phi i64 [%given, %mark], [%h1, %after]
  %behind = icmp slt i64 %h, %n
  br i1 %behind, label %see, label %list
see:
  %ap = getelementptr i64, ptr %ages, i64 %h
  %old = load i64, ptr %ap
  %op2 = getelementptr i64, ptr %others, i64 %h
  %refs = load i64, ptr %op2
  %pending = icmp ne i64 %old, $AGELESS
  %used = icmp sgt i64 %refs, 0
  %holds = and i1 %pending, %used
  br i1 %holds, label %held, label %after
held:
  %place = call i64 @more(ptr %space, i64 22)
  call void @set(ptr %space, i64 19, i64 %place, i64 %h)
  br label %after
after:
  %h1 = add i64 %h, 1
  br label %look
list:
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %make = call ptr @api(ptr %api, i64 $LIST)
  %found = call ptr %make(i64 %n)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %out, label %fill
fill:
  %where = call ptr @field(ptr %found, i64 $LIST_ITEMS)
  %objects = call ptr @array(ptr %space, i64 2)
  br label %next
next:
  %q = phi i64 [0, %fill], [%q1, %put]
  %unfilled = icmp slt i64 %q, %n
  br i1 %unfilled, label %put, label %out
put:
  %sp = getelementptr ptr, ptr %objects, i64 %q
  %z = load ptr, ptr %sp
  call void %incref(ptr %z)
  %tp = getelementptr ptr, ptr %where, i64 %q
  store ptr %z, ptr %tp
  %q1 = add i64 %q, 1
  br label %next
no:
  %incref2 = call ptr @api(ptr %api, i64 $INCREF)
  call void %incref2(ptr %none)
  br label %out
out:
  %y2 = phi ptr [%none, %no], [%found, %list], [%found, %next]
  %all = call i64 @emptied(ptr %space)
  %allp = getelementptr i64, ptr %space, i64 24
  store i64 %all, ptr %allp
  %kinds = call i64 @emptied(ptr %ops)
  %kindsp = getelementptr i64, ptr %space, i64 25
  store i64 %kinds, ptr %kindsp
  ret ptr %y2
}
"""
_OUTLINE = ctypes.PYFUNCTYPE(
    *(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.py_object),
    ctypes.py_object,
)


class _Space:
    """Memory for outlines of so many nodes, one after the other."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.busy = False
        self.nodes, self.ops = Table.of(room), Table.of(room)
        self.parts = np.empty(READ * room, np.int64)
        self.arrays = np.empty((6, room), np.int64)
        self.heads, self.ages, self.others, self.leaves, *_ = self.arrays
        self.first, self.held = self.arrays[4:]
        own = [self.parts.ctypes.data, len(self.parts)]
        own += [x.ctypes.data for x in self.arrays]
        words = [*self.nodes.words(), *self.ops.words(), *own, *[0] * FOUND]
        self.words = np.array(words, np.int64)
        self.told = self.words[-FOUND:]
        self.address = int(self.words.ctypes.data)

    def outline(self, function: Any, roots: list[Tensor]) -> Outline | None:
        """As of Python; what is told is the caller's own."""
        nodes = function(roots, self.address, None, addresses())
        parts, leaves, held, plain, count, ops = self.told.tolist()
        if nodes is None or not plain:
            return None
        return Outline(
            nodes,
            [nodes[k].op for k in self.first[:ops].tolist()],
            self.leaves[:leaves].tolist(),
            self.others[:count].tolist(),
            self.held[:held].tolist(),
            self.parts[:parts].copy(),
            self.heads[:count].copy(),
            self.ages[:count].copy(),
        )


class _Own(threading.local):
    """The memory of a thread."""

    space: _Space | None = None


_own = _Own()


def outlined(roots: list[Tensor], most: int) -> Outline | None:
    """`outline`, in machine code where nodes lie as expected."""
    function = _function()
    if function is None:
        return outline(roots, most)
    space = _own.space
    # A busy one was interrupted, or a finalizer is in the midst of it.
    if space is None or space.busy or space.room != most:
        space = _own.space = _Space(most)
    space.busy = True
    found = space.outline(function, roots)
    space.busy = False
    return found


@cache
def _function() -> Any:
    """The machine code; None where nodes do not lie as expected."""
    found = offsets()
    if found is None:
        return None
    known = {**numbers(), "TABLE": TABLE, "AGELESS": AGELESS}
    made = loaded("treadle_outline", INTERPRETER + TABLES + _TEXT, found, **known)
    function = _OUTLINE(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
