"""Nodes made in machine code, by the interpreter's own functions.

`make_node`, `make_results` and `track` of `graph/tensor.py` as built-in functions: a
node has twelve fields, and Python takes longer to fill them than for all the rest of a
recorded op. Where nodes do not lie as expected the ones in Python stay.

A node that is closed is not seen by Python's cyclic garbage collector, as the
interpreter's own tuples of numbers are not, nor are the tuples of several results: it
refers to older nodes and plain data, so it is in no cycle, and counting references is
enough. Graphs of trees have tens of thousands of such nodes, which the collector would
go through again and again. Where a node comes to refer to something else it is shown to
the collector (`track`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from treadle.engines.native.objects.interpreter import (
    INTERPRETER,
    addresses,
    builtin,
    numbers,
)
from treadle.engines.native.objects.layout import offsets
from treadle.engines.native.objects.text import loaded
from treadle.graph.tensor import makers

__all__ = ["FRESH", "RESULTS", "provide_makers"]

FRESH = (
    INTERPRETER
    + """
; Whether notes are plain data; 0 also where they do not tell.
define internal i1 @plain(ptr %self, ptr %notes) {
entry:
  %getattr = call ptr @api(ptr %self, i64 $GETATTR)
  %name = call ptr @api(ptr %self, i64 $CLOSED)
  %x = call ptr %getattr(ptr %notes, ptr %name)
  %none = icmp eq ptr %x, null
  br i1 %none, label %nothing, label %some
some:
  %true = call ptr @api(ptr %self, i64 $TRUE)
  %found = icmp eq ptr %x, %true
  call void @drop(ptr %self, ptr %x)
  ret i1 %found
nothing:
  %clear = call ptr @api(ptr %self, i64 $CLEAR)
  call void %clear()
  ret i1 0
}

; Hide a tuple of nodes from the collector where it sees none of these.
define internal void @hide(ptr %self, ptr %tuple) {
entry:
  %tracked = call ptr @api(ptr %self, i64 $TRACKED)
  %sp = getelementptr i8, ptr %tuple, i64 $SIZE
  %count = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %out
body:
  %x = call ptr @item(ptr %tuple, i64 %k)
  %seen = call i32 %tracked(ptr %x)
  %known = icmp ne i32 %seen, 0
  %k1 = add i64 %k, 1
  br i1 %known, label %end, label %loop
out:
  %untrack = call ptr @api(ptr %self, i64 $UNTRACK)
  call void %untrack(ptr %tuple)
  br label %end
end:
  ret void
}

; How deep a node lies that reads some others.
define internal i64 @depth(ptr %inputs) {
entry:
  %sp = getelementptr i8, ptr %inputs, i64 $SIZE
  %count = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %depth = phi i64 [0, %entry], [%more, %body]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %x = call ptr @item(ptr %inputs, i64 %k)
  %held = call ptr @field(ptr %x, i64 $depth)
  %below = call i64 @number(ptr %held)
  %above = add i64 %below, 1
  %deeper = icmp sgt i64 %above, %depth
  %more = select i1 %deeper, i64 %above, i64 %depth
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %depth
}

; A node that lies `depth` deep, out of the collector's sight if it is closed; null
; where the interpreter has raised something.
define internal ptr @fresh(ptr %self, ptr %class, ptr %op, ptr %inputs, ptr %type,
    ptr %stored, i64 %depth, ptr %code, ptr %offset, ptr %notes, i1 %closed) {
entry:
  %none = call ptr @api(ptr %self, i64 $NONE)
  %alloc = call ptr @api(ptr %self, i64 $ALLOC)
  %node = call ptr %alloc(ptr %class, i64 0)
  %failed = icmp eq ptr %node, null
  br i1 %failed, label %nothing, label %made
made:
  call void @keep(ptr %self, ptr %node, i64 $op, ptr %op)
  call void @keep(ptr %self, ptr %node, i64 $inputs, ptr %inputs)
  call void @keep(ptr %self, ptr %node, i64 $type, ptr %type)
  call void @keep(ptr %self, ptr %node, i64 $stored, ptr %stored)
  call void @keep(ptr %self, ptr %node, i64 $_code, ptr %code)
  call void @keep(ptr %self, ptr %node, i64 $_offset, ptr %offset)
  call void @keep(ptr %self, ptr %node, i64 $_metadata, ptr %notes)
  call void @keep(ptr %self, ptr %node, i64 $_name, ptr %none)
  call void @keep(ptr %self, ptr %node, i64 $mark, ptr %none)
  %long = call ptr @api(ptr %self, i64 $LONG)
  %deep = call ptr %long(i64 %depth)
  %dp = getelementptr i8, ptr %node, i64 $depth
  store ptr %deep, ptr %dp
  %noargs = call ptr @api(ptr %self, i64 $NOARGS)
  %next = call ptr @api(ptr %self, i64 $NEXT)
  %serial = call ptr %noargs(ptr %next)
  %sp = getelementptr i8, ptr %node, i64 $serial
  store ptr %serial, ptr %sp
  %d = icmp eq ptr %deep, null
  %s = icmp eq ptr %serial, null
  %either = or i1 %d, %s
  br i1 %either, label %undo, label %count
count:
  call void @soon(ptr %node, i64 640)
  call void @soon(ptr %node, i64 704)
  call void @soon(ptr %inputs, i64 256)
  call void @soon(ptr %serial, i64 192)
  %n = call i64 @number(ptr %serial)
  %low = and i64 %n, $LOOK
  %due = icmp eq i64 %low, 0
  br i1 %due, label %look, label %whole
look:
  %onearg = call ptr @api(ptr %self, i64 $ONEARG)
  %warn = call ptr @api(ptr %self, i64 $WARN)
  %said = call ptr %onearg(ptr %warn, ptr %node)
  %raised = icmp eq ptr %said, null
  br i1 %raised, label %undo, label %heard
heard:
  call void @drop(ptr %self, ptr %said)
  br label %whole
whole:
  br i1 %closed, label %hide, label %end
hide:
  %untrack = call ptr @api(ptr %self, i64 $UNTRACK)
  call void %untrack(ptr %node)
  call void %untrack(ptr %inputs)
  br label %end
end:
  ret ptr %node
undo:
  call void @drop(ptr %self, ptr %node)
  br label %nothing
nothing:
  ret ptr null
}

"""
)
_NODE = """
; node(class, op, inputs, type, stored, code, offset, notes, closed)
define ptr @treadle_node(ptr %self, ptr %args, i64 %given) {
entry:
  %class = load ptr, ptr %args
  %op = call ptr @field(ptr %args, i64 8)
  %inputs = call ptr @field(ptr %args, i64 16)
  %type = call ptr @field(ptr %args, i64 24)
  %stored = call ptr @field(ptr %args, i64 32)
  %code = call ptr @field(ptr %args, i64 40)
  %offset = call ptr @field(ptr %args, i64 48)
  %notes = call ptr @field(ptr %args, i64 56)
  %flag = call ptr @field(ptr %args, i64 64)
  %true = call ptr @api(ptr %self, i64 $TRUE)
  %closed = icmp eq ptr %flag, %true
  %depth = call i64 @depth(ptr %inputs)
  %node = call ptr @fresh(ptr %self, ptr %class, ptr %op, ptr %inputs, ptr %type,
    ptr %stored, i64 %depth, ptr %code, ptr %offset, ptr %notes, i1 %closed)
  ret ptr %node
}
"""
RESULTS = """
; A tuple of nodes, one for each op.
define internal ptr @selected(ptr %self, ptr %class, ptr %node, ptr %ops) {
entry:
  %none = call ptr @api(ptr %self, i64 $NONE)
  %types = call ptr @field(ptr %node, i64 $type)
  %code = call ptr @field(ptr %node, i64 $_code)
  %offset = call ptr @field(ptr %node, i64 $_offset)
  %notes = call ptr @field(ptr %node, i64 $_metadata)
  %tracked = call ptr @api(ptr %self, i64 $TRACKED)
  %seen = call i32 %tracked(ptr %node)
  %closed = icmp eq i32 %seen, 0
  %held = call ptr @field(ptr %node, i64 $depth)
  %below = call i64 @number(ptr %held)
  %depth = add i64 %below, 1
  %sp = getelementptr i8, ptr %ops, i64 $SIZE
  %count = load i64, ptr %sp
  %tuple = call ptr @api(ptr %self, i64 $TUPLE)
  %found = call ptr %tuple(i64 %count)
  %f = icmp eq ptr %found, null
  br i1 %f, label %nothing, label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %inside = icmp slt i64 %k, %count
  br i1 %inside, label %body, label %end
body:
  %behind = call ptr %tuple(i64 1)
  %b = icmp eq ptr %behind, null
  br i1 %b, label %drop, label %select
select:
  call void @keep(ptr %self, ptr %behind, i64 $ITEMS, ptr %node)
  %op = call ptr @item(ptr %ops, i64 %k)
  %type = call ptr @item(ptr %types, i64 %k)
  %y = call ptr @fresh(ptr %self, ptr %class, ptr %op, ptr %behind, ptr %type,
    ptr %none, i64 %depth, ptr %code, ptr %offset, ptr %notes, i1 %closed)
  call void @drop(ptr %self, ptr %behind)
  %failed = icmp eq ptr %y, null
  br i1 %failed, label %drop, label %next
next:
  %items = getelementptr i8, ptr %found, i64 $ITEMS
  %p = getelementptr ptr, ptr %items, i64 %k
  store ptr %y, ptr %p
  %k1 = add i64 %k, 1
  br label %loop
end:
  call void @hide(ptr %self, ptr %found)
  ret ptr %found
drop:
  call void @drop(ptr %self, ptr %found)
  br label %nothing
nothing:
  ret ptr null
}

; results(class, node, ops)
define ptr @treadle_results(ptr %self, ptr %args, i64 %given) {
  %class = load ptr, ptr %args
  %node = call ptr @field(ptr %args, i64 8)
  %ops = call ptr @field(ptr %args, i64 16)
  %found = call ptr @selected(ptr %self, ptr %class, ptr %node, ptr %ops)
  ret ptr %found
}
"""
_TRACK = """
; track(x): let the collector see a tuple, or a node and what it reads.
define ptr @treadle_track(ptr %self, ptr %args, i64 %given) {
entry:
  %none = call ptr @api(ptr %self, i64 $NONE)
  %x = load ptr, ptr %args
  call void @show(ptr %self, ptr %x)
  %kind = call ptr @field(ptr %x, i64 $KIND)
  %tuple = call ptr @api(ptr %self, i64 $TUPLETYPE)
  %bare = icmp eq ptr %kind, %tuple
  br i1 %bare, label %end, label %node
node:
  %inputs = call ptr @field(ptr %x, i64 $inputs)
  call void @show(ptr %self, ptr %inputs)
  br label %end
end:
  %incref = call ptr @api(ptr %self, i64 $INCREF)
  call void %incref(ptr %none)
  ret ptr %none
}

define internal void @show(ptr %self, ptr %object) {
  %tracked = call ptr @api(ptr %self, i64 $TRACKED)
  %seen = call i32 %tracked(ptr %object)
  %known = icmp ne i32 %seen, 0
  br i1 %known, label %end, label %track
track:
  %function = call ptr @api(ptr %self, i64 $TRACK)
  call void %function(ptr %object)
  br label %end
end:
  ret void
}
"""


@cache
def built() -> dict[str, Callable[..., Any]]:
    """The functions by name; none where nodes do not lie as expected."""
    fields = offsets()
    if fields is None:
        return {}
    texts = {"node": _NODE, "results": RESULTS, "track": _TRACK}
    return {
        name: builtin(
            name,
            loaded(f"treadle_{name}", FRESH + text, fields, **numbers()),
            addresses(),
        )
        for name, text in texts.items()
    }


def provide_makers() -> None:
    """Let nodes be made by machine code from here on."""
    for name, function in built().items():
        setattr(makers, name, function)
