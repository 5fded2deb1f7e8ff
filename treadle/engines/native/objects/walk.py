"""A walk over the nodes of a graph in machine code.

It reads CPython's objects where they lie (`layout.py`), with the interpreter's lock
held, and changes none. Nodes are numbered as they are found; a table of addresses
knows those that were.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from treadle.batch.columns import Columns, Numbers, columns
from treadle.engines.native.objects.layout import offsets
from treadle.engines.native.objects.text import loaded
from treadle.graph.tensor import Tensor

__all__ = ["walked"]

FIELDS = 7  # of a node: op, kind, type, waiting, serial, depth, references
FIRST = 1 << 12  # nodes there is room for at first
_SPREAD = -7046029254386353131  # two to the 64th by the golden ratio

# The space of a walk: table of (node, number), its mask, nodes, how many fit, fields,
# where operands begin, operands, how many fit, the slot of each node in the table.
_TEXT = """
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define internal i64 @word(ptr %space, i64 %k) {
  %p = getelementptr i64, ptr %space, i64 %k
  %x = load i64, ptr %p
  ret i64 %x
}

define internal ptr @array(ptr %space, i64 %k) {
  %p = getelementptr i64, ptr %space, i64 %k
  %x = load ptr, ptr %p
  ret ptr %x
}

; The number of a node: a new one if it is not known; -1 if there is no room.
define internal i64 @place(ptr %node, ptr %space, ptr %count) {
entry:
  %table = call ptr @array(ptr %space, i64 0)
  %mask = call i64 @word(ptr %space, i64 1)
  %a = ptrtoint ptr %node to i64
  %mixed = mul i64 %a, $SPREAD
  %first = lshr i64 %mixed, 24
  br label %probe
probe:
  %k0 = phi i64 [%first, %entry], [%k1, %next]
  %k = and i64 %k0, %mask
  %slot = getelementptr [2 x i64], ptr %table, i64 %k
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
  %new = load i64, ptr %count
  %room = call i64 @word(ptr %space, i64 3)
  %full = icmp sge i64 %new, %room
  br i1 %full, label %end, label %insert
insert:
  store i64 %a, ptr %slot
  store i64 %new, ptr %p
  %nodes = call ptr @array(ptr %space, i64 2)
  %q = getelementptr i64, ptr %nodes, i64 %new
  store i64 %a, ptr %q
  %slots = call ptr @array(ptr %space, i64 8)
  %s = getelementptr i64, ptr %slots, i64 %new
  store i64 %k, ptr %s
  %more = add i64 %new, 1
  store i64 %more, ptr %count
  ret i64 %new
end:
  ret i64 -1
}

define internal void @put(ptr %space, i64 %field, i64 %k, i64 %x) {
  %fields = call ptr @array(ptr %space, i64 4)
  %room = call i64 @word(ptr %space, i64 3)
  %base = mul i64 %room, %field
  %place = add i64 %base, %k
  %p = getelementptr i64, ptr %fields, i64 %place
  store i64 %x, ptr %p
  ret void
}

define internal i1 @describe(ptr %node, i64 %k, ptr %space, ptr %none) {
  %op = call ptr @field(ptr %node, i64 $op)
  %kind = call ptr @field(ptr %op, i64 $KIND)
  %type = call ptr @field(ptr %node, i64 $type)
  %stored = call ptr @field(ptr %node, i64 $stored)
  %waits = icmp eq ptr %stored, %none
  %x0 = ptrtoint ptr %op to i64
  call void @put(ptr %space, i64 0, i64 %k, i64 %x0)
  %x1 = ptrtoint ptr %kind to i64
  call void @put(ptr %space, i64 1, i64 %k, i64 %x1)
  %x2 = ptrtoint ptr %type to i64
  call void @put(ptr %space, i64 2, i64 %k, i64 %x2)
  %x3 = zext i1 %waits to i64
  call void @put(ptr %space, i64 3, i64 %k, i64 %x3)
  %serial = call ptr @field(ptr %node, i64 $serial)
  %x4 = call i64 @number(ptr %serial)
  call void @put(ptr %space, i64 4, i64 %k, i64 %x4)
  %depth = call ptr @field(ptr %node, i64 $depth)
  %x5 = call i64 @number(ptr %depth)
  call void @put(ptr %space, i64 5, i64 %k, i64 %x5)
  %p = getelementptr i8, ptr %node, i64 $COUNT
  %x6 = load i64, ptr %p
  call void @put(ptr %space, i64 6, i64 %k, i64 %x6)
  ret i1 %waits
}

; Fetch the memory of a node that comes soon, or what its fields refer to.
define internal void @ahead(ptr %nodes, i64 %k, i64 %n, i1 %fields) {
  %inside = icmp slt i64 %k, %n
  br i1 %inside, label %some, label %end
some:
  %p = getelementptr ptr, ptr %nodes, i64 %k
  %node = load ptr, ptr %p
  br i1 %fields, label %inner, label %outer
outer:
  call void @llvm.prefetch.p0(ptr %node, i32 0, i32 3, i32 1)
  %more = getelementptr i8, ptr %node, i64 64
  call void @llvm.prefetch.p0(ptr %more, i32 0, i32 3, i32 1)
  ret void
inner:
  %inputs = call ptr @field(ptr %node, i64 $inputs)
  call void @llvm.prefetch.p0(ptr %inputs, i32 0, i32 3, i32 1)
  %serial = call ptr @field(ptr %node, i64 $serial)
  call void @llvm.prefetch.p0(ptr %serial, i32 0, i32 3, i32 1)
  %op = call ptr @field(ptr %node, i64 $op)
  call void @llvm.prefetch.p0(ptr %op, i32 0, i32 3, i32 1)
  ret void
end:
  ret void
}

; How many nodes there are below the roots; -1 if there is no room for them.
define i64 @treadle_walk(ptr %roots, i64 %given, ptr %space, ptr %none) {
entry:
  %count = alloca i64
  store i64 0, ptr %count
  %starts = call ptr @array(ptr %space, i64 5)
  %operands = call ptr @array(ptr %space, i64 6)
  %room = call i64 @word(ptr %space, i64 7)
  br label %begin
begin:
  %r = phi i64 [0, %entry], [%r1, %root]
  %left = icmp slt i64 %r, %given
  br i1 %left, label %root, label %nodes
root:
  %rp = getelementptr ptr, ptr %roots, i64 %r
  %x = load ptr, ptr %rp
  %rk = call i64 @place(ptr %x, ptr %space, ptr %count)
  %r1 = add i64 %r, 1
  %rno = icmp slt i64 %rk, 0
  br i1 %rno, label %no, label %begin
nodes:
  %k = phi i64 [0, %begin], [%kn, %done]
  %e = phi i64 [0, %begin], [%en, %done]
  %sp = getelementptr i64, ptr %starts, i64 %k
  store i64 %e, ptr %sp
  %n = load i64, ptr %count
  %inside = icmp slt i64 %k, %n
  br i1 %inside, label %node, label %end
node:
  %known = call ptr @array(ptr %space, i64 2)
  %far = add i64 %k, 16
  call void @ahead(ptr %known, i64 %far, i64 %n, i1 false)
  %near = add i64 %k, 8
  call void @ahead(ptr %known, i64 %near, i64 %n, i1 true)
  %np = getelementptr ptr, ptr %known, i64 %k
  %own = load ptr, ptr %np
  %waits = call i1 @describe(ptr %own, i64 %k, ptr %space, ptr %none)
  br i1 %waits, label %open, label %done
open:
  %inputs = call ptr @field(ptr %own, i64 $inputs)
  %mp = getelementptr i8, ptr %inputs, i64 $SIZE
  %m = load i64, ptr %mp
  %items = getelementptr i8, ptr %inputs, i64 $ITEMS
  %ends = add i64 %e, %m
  %much = icmp sgt i64 %ends, %room
  br i1 %much, label %no, label %read
read:
  %j = phi i64 [0, %open], [%j1, %one]
  %more = icmp slt i64 %j, %m
  br i1 %more, label %item, label %done
item:
  %ip = getelementptr ptr, ptr %items, i64 %j
  %y = load ptr, ptr %ip
  %yk = call i64 @place(ptr %y, ptr %space, ptr %count)
  %yno = icmp slt i64 %yk, 0
  br i1 %yno, label %no, label %one
one:
  %at = add i64 %e, %j
  %op = getelementptr i64, ptr %operands, i64 %at
  store i64 %yk, ptr %op
  %j1 = add i64 %j, 1
  br label %read
done:
  %en = phi i64 [%e, %node], [%ends, %read]
  %kn = add i64 %k, 1
  br label %nodes
end:
  ret i64 %n
no:
  ret i64 -1
}
"""
_WALK = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.py_object
)


class _Space(threading.local):
    """Memory for a walk of so many nodes, which read three times as many.

    It is used again: fresh pages cost as much as the walk.
    """

    def __init__(self) -> None:
        self.grow(FIRST)

    def grow(self, room: int) -> None:
        """Have room for so many."""
        self.room = room
        self.table = np.zeros((2 * room, 2), np.int64)
        self.nodes = np.empty(room, np.int64)
        self.fields = np.empty((FIELDS, room), np.int64)
        self.starts = np.empty(room + 1, np.int64)
        self.operands = np.empty(3 * room, np.int64)
        self.slots = np.empty(room, np.int64)
        self.words = np.array(
            [
                self.table.ctypes.data,
                len(self.table) - 1,
                self.nodes.ctypes.data,
                room,
                self.fields.ctypes.data,
                self.starts.ctypes.data,
                self.operands.ctypes.data,
                len(self.operands),
                self.slots.ctypes.data,
            ]
        )

    def columns(self, count: int) -> Columns:
        """What was found, in creation order."""
        self.table[self.slots[:count], 0] = 0  # as it was before
        fields = self.fields[:, :count]
        order = np.argsort(fields[4], kind="stable")
        rank = np.empty(count, np.int64)
        rank[order] = np.arange(count)
        starts = self.starts[: count + 1]
        sizes = np.diff(starts)[order]
        ends = np.cumsum(sizes)
        shifts = np.repeat(starts[:-1][order] - (ends - sizes), sizes)
        operands = rank[self.operands[shifts + np.arange(len(shifts))]]
        ops, kinds, types, waits, serials, depths, held = fields[:, order]
        return Columns(
            _objects(self.nodes[:count][order], len(self.nodes)),
            ops,
            kinds,
            types,
            waits.astype(np.bool_),
            serials,
            depths,
            held,
            sizes,
            operands,
        )


_space = _Space()


def walked(roots: Sequence[Tensor]) -> Columns:
    """`columns`, in machine code where nodes lie as expected."""
    function = _function()
    if function is None:
        return columns(roots)
    first = np.fromiter(map(id, roots), np.int64, len(roots))
    while True:
        words = _space.words.ctypes.data
        found = function(first.ctypes.data, len(first), words, None)
        if found >= 0:
            return _space.columns(found)
        _space.grow(4 * len(_space.nodes))


def _objects(addresses: Numbers, room: int) -> list[Any]:
    """The objects at these addresses."""
    padded = np.zeros(room, np.int64)
    padded[: len(addresses)] = addresses
    # One length of array for many: each is a class of its own.
    array = (ctypes.py_object * room).from_buffer(padded.data)
    found: list[Any] = array[: len(addresses)]
    return found


@cache
def _function() -> Any:
    """The walk; None where nodes do not lie as expected."""
    found = offsets()
    if found is None:
        return None
    made = loaded("treadle_walk", _TEXT, found, SPREAD=_SPREAD)
    function = _WALK(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
