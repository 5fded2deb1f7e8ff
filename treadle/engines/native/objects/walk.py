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

from treadle.base.routine import Numbers
from treadle.batch.columns import Columns, columns
from treadle.engines.native.objects.layout import offsets
from treadle.engines.native.objects.ordered import FIELDS, Found, Ordering, Walked
from treadle.engines.native.objects.table import TABLE, TABLES, Table
from treadle.engines.native.objects.text import loaded
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import follow

__all__ = ["provide_walk", "walked"]

FIRST = 1 << 12  # nodes there is room for at first

# A walk has a table of nodes, and one of their ops, classes of ops and types; then
# fields, how many fit, where operands begin, operands, how many fit.
_TEXT = """
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define internal void @put(ptr %space, i64 %field, i64 %k, i64 %x) alwaysinline {
  %fields = call ptr @array(ptr %space, i64 12)
  %room = call i64 @word(ptr %space, i64 13)
  %base = mul i64 %room, %field
  %place = add i64 %base, %k
  %p = getelementptr i64, ptr %fields, i64 %place
  store i64 %x, ptr %p
  ret void
}

; Put down the fields of node k; whether it waits for its value.
define internal i1 @describe(ptr %node, i64 %k, ptr %space, ptr %none) {
  %things = getelementptr i64, ptr %space, i64 $TABLE
  %op = call ptr @field(ptr %node, i64 $op)
  %x0 = call i64 @place(ptr %op, ptr %things)
  call void @put(ptr %space, i64 0, i64 %k, i64 %x0)
  %kind = call ptr @field(ptr %op, i64 $KIND)
  %x1 = call i64 @place(ptr %kind, ptr %things)
  call void @put(ptr %space, i64 1, i64 %k, i64 %x1)
  %type = call ptr @field(ptr %node, i64 $type)
  %x2 = call i64 @place(ptr %type, ptr %things)
  call void @put(ptr %space, i64 2, i64 %k, i64 %x2)
  %stored = call ptr @field(ptr %node, i64 $stored)
  %waits = icmp eq ptr %stored, %none
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
  %mark = call ptr @field(ptr %node, i64 $mark)
  %marked = icmp ne ptr %mark, %none
  %x7 = zext i1 %marked to i64
  call void @put(ptr %space, i64 7, i64 %k, i64 %x7)
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

; Fetch where the operands of a node that comes next are looked for.
define internal void @next(ptr %nodes, i64 %k, i64 %n, ptr %space) {
entry:
  %inside = icmp slt i64 %k, %n
  br i1 %inside, label %some, label %end
some:
  %p = getelementptr ptr, ptr %nodes, i64 %k
  %node = load ptr, ptr %p
  %inputs = call ptr @field(ptr %node, i64 $inputs)
  %mp = getelementptr i8, ptr %inputs, i64 $SIZE
  %m = load i64, ptr %mp
  %items = getelementptr i8, ptr %inputs, i64 $ITEMS
  br label %read
read:
  %j = phi i64 [0, %some], [%j1, %one]
  %more = icmp slt i64 %j, %m
  %few = icmp slt i64 %j, 4
  %go = and i1 %more, %few
  br i1 %go, label %one, label %end
one:
  %ip = getelementptr ptr, ptr %items, i64 %j
  %y = load ptr, ptr %ip
  %slot = call ptr @slot(ptr %y, ptr %space)
  call void @llvm.prefetch.p0(ptr %slot, i32 0, i32 3, i32 1)
  %j1 = add i64 %j, 1
  br label %read
end:
  ret void
}

; How many nodes there are below the roots, all or to where values begin; -1 if there is
; no room for them.
define i64 @treadle_walk(ptr %roots, i64 %given, ptr %space, ptr %none, i64 %all) {
entry:
  %starts = call ptr @array(ptr %space, i64 14)
  %operands = call ptr @array(ptr %space, i64 15)
  %room = call i64 @word(ptr %space, i64 16)
  %whole = icmp ne i64 %all, 0
  br label %begin
begin:
  %r = phi i64 [0, %entry], [%r1, %root]
  %left = icmp slt i64 %r, %given
  br i1 %left, label %root, label %nodes
root:
  %rp = getelementptr ptr, ptr %roots, i64 %r
  %x = load ptr, ptr %rp
  %rk = call i64 @place(ptr %x, ptr %space)
  %r1 = add i64 %r, 1
  %rno = icmp slt i64 %rk, 0
  br i1 %rno, label %no, label %begin
nodes:
  %k = phi i64 [0, %begin], [%kn, %done]
  %e = phi i64 [0, %begin], [%en, %done]
  %sp = getelementptr i64, ptr %starts, i64 %k
  store i64 %e, ptr %sp
  %n = call i64 @word(ptr %space, i64 5)
  %inside = icmp slt i64 %k, %n
  br i1 %inside, label %node, label %end
node:
  %known = call ptr @array(ptr %space, i64 2)
  %far = add i64 %k, 16
  call void @ahead(ptr %known, i64 %far, i64 %n, i1 false)
  %near = add i64 %k, 8
  call void @ahead(ptr %known, i64 %near, i64 %n, i1 true)
  %soon = add i64 %k, 4
  call void @next(ptr %known, i64 %soon, i64 %n, ptr %space)
  %np = getelementptr ptr, ptr %known, i64 %k
  %own = load ptr, ptr %np
  %waits = call i1 @describe(ptr %own, i64 %k, ptr %space, ptr %none)
  %follow = or i1 %waits, %whole
  br i1 %follow, label %open, label %done
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
  %yk = call i64 @place(ptr %y, ptr %space)
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
    *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p),
    *(ctypes.py_object, ctypes.c_int64),
)


class _Space:
    """Memory for a walk of so many nodes, which read three times as many.

    It is used again: fresh pages cost as much as the walk.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.count = 0  # of different things that the last walk has met
        self.nodes = Table(room)
        self.things = Table(3 * room)
        self.fields = np.empty((FIELDS, room), np.int64)
        self.starts = np.empty(room + 1, np.int64)
        self.operands = np.empty(3 * room, np.int64)
        arrays = [self.fields.ctypes.data, room, self.starts.ctypes.data]
        arrays += [self.operands.ctypes.data, len(self.operands)]
        self.words = np.array([*self.nodes.words(), *self.things.words(), *arrays])
        found = self.starts, self.operands, self.nodes.objects
        self.ordering = Ordering(Walked(self.fields, room, *found))

    def walk(self, function: Any, roots: Numbers, whole: bool) -> int:
        """How many nodes there are; less than none if there is no room for them."""
        words = self.words
        if words[TABLE - 1] or words[2 * TABLE - 1]:  # the last walk was interrupted
            self.nodes.slots[:, 0] = self.things.slots[:, 0] = 0
            words[TABLE - 1] = words[2 * TABLE - 1] = 0
        places = roots.ctypes.data, len(roots), words.ctypes.data
        found: int = function(*places, None, whole)
        self.nodes.clear(int(words[TABLE - 1]))
        self.count = int(words[2 * TABLE - 1])
        self.things.clear(self.count)
        words[TABLE - 1] = words[2 * TABLE - 1] = 0
        return found

    def found(self, count: int) -> Found:
        """What was found, in creation order."""
        return self.ordering.found(count, int(self.starts[count]))

    def nodes_of(self, found: Found) -> list[Any]:
        """The objects themselves."""
        return _objects(found.objects, self.room)

    def columns(self, count: int) -> Columns:
        """All that is known of so many nodes."""
        found = self.found(count)
        ops, kinds, types, _, serials, depths, held, _ = found.fields
        return Columns(
            self.nodes_of(found),
            self.count,
            ops,
            kinds,
            types,
            found.waiting,
            found.marked,
            serials,
            depths,
            held,
            found.sizes,
            found.operands,
        )


class _Own(threading.local):
    """The memory of a thread: a larger one takes its place as a whole."""

    def __init__(self) -> None:
        self.space = _Space(FIRST)


_own = _Own()


def walked(roots: Sequence[Tensor]) -> Columns:
    """`columns`, in machine code where nodes lie as expected."""
    function = _function()
    if function is None:
        return columns(roots)
    space, count = _went(function, roots)
    return space.columns(count)


def provide_walk() -> None:
    """Let large graphs be gone through by machine code from here on."""
    function = _function()
    if function is None:
        return

    def walk(roots: Sequence[Tensor], whole: bool) -> list[Tensor]:
        space, count = _went(function, roots, whole)
        return space.nodes_of(space.found(count))

    follow(walk)


def _went(
    function: Any, roots: Sequence[Tensor], whole: bool = False
) -> tuple[_Space, int]:
    """The memory of a walk from some roots, and how many nodes it has found."""
    first = np.fromiter(map(id, roots), np.int64, len(roots))
    while True:
        space = _own.space
        found = space.walk(function, first, whole)
        if found >= 0:
            return space, found
        _own.space = _Space(2 * space.room)


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
    made = loaded("treadle_walk", TABLES + _TEXT, found, TABLE=TABLE)
    function = _WALK(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
