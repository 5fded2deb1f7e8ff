"""The nodes of cells, and which cells do the same, as `batch/members.py` has it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from treadle.batch.members import INSIDE, ROW, SHARES, Graph, Members
from treadle.engines.native.forest.alike import ALIKE
from treadle.engines.native.forest.grown import grown
from treadle.engines.native.objects.text import loaded

__all__ = ["members"]

# The space: starts, operands, owners, shares, codes, types, references, nodes; told are
# what cells go by, where they start, nodes, where rows open, rows, kinds, what is seen;
# then cells of nodes, places, keys, where keys start, their hashes, slots, a mask, and
# how often each node is read.
_TEXT = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @zero(ptr %words, i64 %n) alwaysinline {
  %bytes = mul i64 %n, 8
  call void @llvm.memset.p0.i64(ptr %words, i8 0, i64 %bytes, i1 false)
  ret void
}

; Number the cells; how many there are. First each node has the number of its cell's.
define internal i64 @numbered(ptr %space, i64 %n) {
entry:
  %owners = call ptr @array(ptr %space, i64 2)
  %began = call ptr @array(ptr %space, i64 8)
  %starts = call ptr @array(ptr %space, i64 9)
  %fill = call ptr @array(ptr %space, i64 13)
  %cells = call ptr @array(ptr %space, i64 15)
  call void @zero(ptr %cells, i64 %n)
  br label %count
count:
  %k = phi i64 [0, %entry], [%k1, %counted]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %own, label %each
own:
  %k1 = add i64 %k, 1
  %o = call i64 @word(ptr %owners, i64 %k)
  %is = icmp sge i64 %o, 0
  br i1 %is, label %more, label %counted
more:
  %x = call i64 @word(ptr %cells, i64 %o)
  %x1 = add i64 %x, 1
  call void @store(ptr %cells, i64 %o, i64 %x1)
  br label %counted
counted:
  br label %count
each:
  %m = phi i64 [0, %count], [%m1, %next]
  %c = phi i64 [0, %count], [%c2, %next]
  %all = phi i64 [0, %count], [%all2, %next]
  %left = icmp slt i64 %m, %n
  br i1 %left, label %node, label %end
node:
  %m1 = add i64 %m, 1
  %many = call i64 @word(ptr %cells, i64 %m)
  %first = icmp sgt i64 %many, 0
  br i1 %first, label %cell, label %next
cell:
  call void @store(ptr %began, i64 %c, i64 %m)
  call void @store(ptr %starts, i64 %c, i64 %all)
  call void @store(ptr %fill, i64 %c, i64 %all)
  call void @store(ptr %cells, i64 %m, i64 %c)
  %c1 = add i64 %c, 1
  %all1 = add i64 %all, %many
  br label %next
next:
  %c2 = phi i64 [%c, %node], [%c1, %cell]
  %all2 = phi i64 [%all, %node], [%all1, %cell]
  br label %each
end:
  call void @store(ptr %starts, i64 %c, i64 %all)
  ret i64 %c
}

; Put the nodes into their cells.
define internal void @placed(ptr %space, i64 %n) {
entry:
  %owners = call ptr @array(ptr %space, i64 2)
  %starts = call ptr @array(ptr %space, i64 9)
  %nodes = call ptr @array(ptr %space, i64 10)
  %fill = call ptr @array(ptr %space, i64 13)
  %cells = call ptr @array(ptr %space, i64 15)
  %places = call ptr @array(ptr %space, i64 16)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %node, label %end
node:
  %k1 = add i64 %k, 1
  %o = call i64 @word(ptr %owners, i64 %k)
  %is = icmp sge i64 %o, 0
  br i1 %is, label %put, label %next
put:
  %c = call i64 @word(ptr %cells, i64 %o)
  %p = call i64 @word(ptr %fill, i64 %c)
  call void @store(ptr %nodes, i64 %p, i64 %k)
  %first = call i64 @word(ptr %starts, i64 %c)
  %place = sub i64 %p, %first
  call void @store(ptr %places, i64 %k, i64 %place)
  %p1 = add i64 %p, 1
  call void @store(ptr %fill, i64 %c, i64 %p1)
  br label %next
next:
  br label %loop
end:
  ret void
}

; Mark what others read than a node's own cell, or hold.
define internal void @looked(ptr %space, i64 %n) {
entry:
  %starts = call ptr @array(ptr %space, i64 0)
  %operands = call ptr @array(ptr %space, i64 1)
  %owners = call ptr @array(ptr %space, i64 2)
  %held = call ptr @array(ptr %space, i64 6)
  %seen = call ptr @array(ptr %space, i64 14)
  %times = call ptr @array(ptr %space, i64 22)
  call void @zero(ptr %times, i64 %n)
  call void @llvm.memset.p0.i64(ptr %seen, i8 0, i64 %n, i1 false)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %node], [%k1, %read]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %node, label %rest
node:
  %k1 = add i64 %k, 1
  %o = call i64 @word(ptr %owners, i64 %k)
  %s = call i64 @word(ptr %starts, i64 %k)
  %e = call i64 @word(ptr %starts, i64 %k1)
  %some = icmp slt i64 %s, %e
  br i1 %some, label %read, label %loop
read:
  %j = phi i64 [%s, %node], [%j1, %read]
  %x = call i64 @word(ptr %operands, i64 %j)
  %t = call i64 @word(ptr %times, i64 %x)
  %t1 = add i64 %t, 1
  call void @store(ptr %times, i64 %x, i64 %t1)
  %xo = call i64 @word(ptr %owners, i64 %x)
  %other = icmp ne i64 %xo, %o
  %sp = getelementptr i8, ptr %seen, i64 %x
  %was = load i8, ptr %sp
  %bit = zext i1 %other to i8
  %now = or i8 %was, %bit
  store i8 %now, ptr %sp
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %e
  br i1 %more, label %read, label %loop
rest:
  %q = phi i64 [0, %loop], [%q1, %own]
  %left = icmp slt i64 %q, %n
  br i1 %left, label %own, label %end
own:
  %u = call i64 @word(ptr %times, i64 %q)
  %h = call i64 @word(ptr %held, i64 %q)
  %none = icmp eq i64 %u, 0
  %refers = icmp sgt i64 %h, %u
  %either = or i1 %none, %refers
  %ebit = zext i1 %either to i8
  %qp = getelementptr i8, ptr %seen, i64 %q
  %before = load i8, ptr %qp
  %after = or i8 %before, %ebit
  store i8 %after, ptr %qp
  %q1 = add i64 %q, 1
  br label %rest
end:
  ret void
}

; How many cells there are.
define i64 @treadle_members(ptr %space, i64 %n) {
entry:
  %cells = call i64 @numbered(ptr %space, i64 %n)
  call void @placed(ptr %space, i64 %n)
  call void @looked(ptr %space, i64 %n)
  %opens = call ptr @array(ptr %space, i64 11)
  %rows = call ptr @array(ptr %space, i64 12)
  %kinds = call ptr @array(ptr %space, i64 13)
  %keys = call ptr @array(ptr %space, i64 17)
  %begins = call ptr @array(ptr %space, i64 18)
  %slots = call ptr @array(ptr %space, i64 20)
  %mask = call i64 @word(ptr %space, i64 21)
  %size = add i64 %mask, 1
  call void @zero(ptr %slots, i64 %size)
  call void @store(ptr %opens, i64 0, i64 0)
  call void @store(ptr %begins, i64 0, i64 0)
  br label %loop
loop:
  %c = phi i64 [0, %entry], [%c1, %cell]
  %r = phi i64 [0, %entry], [%r1, %cell]
  %q = phi i64 [0, %entry], [%q1, %cell]
  %in = icmp slt i64 %c, %cells
  br i1 %in, label %cell, label %end
cell:
  %c1 = add i64 %c, 1
  %at = call i64 @word(ptr %begins, i64 %q)
  %key = getelementptr i64, ptr %keys, i64 %at
  %own = getelementptr i64, ptr %rows, i64 %r
  %told = call {i64, i64, i64} @written(ptr %space, i64 %c, ptr %key, ptr %own)
  %words = extractvalue {i64, i64, i64} %told, 0
  %many = extractvalue {i64, i64, i64} %told, 1
  %hash = extractvalue {i64, i64, i64} %told, 2
  %kind = call i64 @kind(ptr %space, ptr %key, i64 %words, i64 %hash, i64 %q)
  call void @store(ptr %kinds, i64 %c, i64 %kind)
  %r1 = add i64 %r, %many
  call void @store(ptr %opens, i64 %c1, i64 %r1)
  %new = icmp eq i64 %kind, %q
  %bit = zext i1 %new to i64
  %q1 = add i64 %q, %bit
  br label %loop
end:
  ret i64 %cells
}
"""
_MEMBERS = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def members(graph: Graph) -> Members:
    """As `members_of`."""
    count, edges = len(graph.roles), len(graph.operands)
    owner = grown(graph.starts, graph.operands, graph.roles)
    given = [graph.starts, graph.operands, owner, graph.shares, graph.codes]
    given += [graph.types, graph.references]

    def room(size: int) -> Any:
        return np.empty(size, np.int64)

    began, starts, nodes, opens = (room(count + 1) for _ in range(4))
    rows, kinds, seen = room(edges + 1), room(count + 1), np.empty(count, np.bool_)
    slots = 1 << (2 * count).bit_length()
    scratch = [room(count), room(count), room(3 * (count + edges) + 2), room(count + 1)]
    scratch += [room(count + 1), room(slots)]
    told = [began, starts, nodes, opens, rows, kinds, seen]
    times = room(count)
    first, rest = [[int(x.ctypes.data) for x in y] for y in (given, told + scratch)]
    words = np.array([*first, count, *rest, slots - 1, times.ctypes.data], np.int64)
    cells = _function()(words.ctypes.data, count)
    ends = int(starts[cells]), int(opens[cells])
    return Members(
        began[:cells],
        starts[: cells + 1],
        nodes[: ends[0]],
        opens[: cells + 1],
        rows[: ends[1]],
        kinds[:cells],
        seen,
    )


@cache
def _function() -> Any:
    """The machine code."""
    numbers = {"INSIDE": INSIDE, "ROW": ROW, "SHARES": SHARES}
    made = loaded("treadle_members", ALIKE + _TEXT, {}, **numbers)
    function = _MEMBERS(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
