"""Gives many nodes what a run writes, and lets go of how they were made."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from treadle.engines.native.objects.interpreter import INTERPRETER, addresses, numbers
from treadle.engines.native.objects.layout import offsets, slots
from treadle.engines.native.objects.text import loaded
from treadle.graph.op import Op
from treadle.graph.resident import Future, Futures
from treadle.graph.tensor import Tensor, leave, leave_late

__all__ = ["left"]

_FUTURE = ("type", "home", "array", "before", "run", "_node")
_TEXT = """
; Put a value, with the reference there is to it, into a field.
define internal void @put(ptr %api, ptr %node, i64 %offset, ptr %x) alwaysinline {
  %p = getelementptr i8, ptr %node, i64 %offset
  %old = load ptr, ptr %p
  store ptr %x, ptr %p
  call void @drop(ptr %api, ptr %old)
  ret void
}

define internal ptr @listed(ptr %list, i64 %k) alwaysinline {
  %items = call ptr @field(ptr %list, i64 $LIST_ITEMS)
  %p = getelementptr ptr, ptr %items, i64 %k
  %x = load ptr, ptr %p
  ret ptr %x
}

; Futures are in no cycle: they are not shown to the collector.
define i64 @treadle_left(ptr %nodes, ptr %arrays, ptr %class, ptr %run, ptr %leaf,
    ptr %empty, ptr %api) {
entry:
  %none = call ptr @api(ptr %api, i64 $NONE)
  %incref = call ptr @api(ptr %api, i64 $INCREF)
  %alloc = call ptr @api(ptr %api, i64 $ALLOC)
  %untrack = call ptr @api(ptr %api, i64 $UNTRACK)
  %sp = getelementptr i8, ptr %nodes, i64 $SIZE
  %n = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %marked = phi i64 [0, %entry], [%marked1, %next]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %one, label %end
one:
  %node = call ptr @listed(ptr %nodes, i64 %k)
  %array = call ptr @listed(ptr %arrays, i64 %k)
  %f = call ptr %alloc(ptr %class, i64 0)
  %failed = icmp eq ptr %f, null
  br i1 %failed, label %end, label %fill
fill:
  %type = call ptr @field(ptr %node, i64 $type)
  call void @keep(ptr %api, ptr %f, i64 $future_type, ptr %type)
  call void @keep(ptr %api, ptr %f, i64 $future_home, ptr %none)
  call void @keep(ptr %api, ptr %f, i64 $future_array, ptr %array)
  call void @keep(ptr %api, ptr %f, i64 $future_before, ptr %none)
  call void @keep(ptr %api, ptr %f, i64 $future_run, ptr %run)
  call void @keep(ptr %api, ptr %f, i64 $future__node, ptr %none)
  call void %untrack(ptr %f)
  call void @put(ptr %api, ptr %node, i64 $stored, ptr %f)
  call void %incref(ptr %leaf)
  call void @put(ptr %api, ptr %node, i64 $op, ptr %leaf)
  call void %incref(ptr %empty)
  call void @put(ptr %api, ptr %node, i64 $inputs, ptr %empty)
  br label %next
next:
  %mark = call ptr @field(ptr %node, i64 $mark)
  %is = icmp ne ptr %mark, %none
  %one1 = zext i1 %is to i64
  %marked1 = add i64 %marked, %one1
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret i64 %marked
}
"""
_LEFT = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.py_object] * 7)


def left(
    nodes: list[Tensor], arrays: Sequence[Any], run: Futures | None, leaf: Op
) -> None:
    """`leave_late`, in machine code where things lie as expected."""
    function = _function()
    if function is None or run is None:
        leave_late(nodes, arrays, run, leaf)
    elif function(nodes, list(arrays), Future, run, leaf, (), addresses()):
        leave(nodes, [x.stored for x in nodes], leaf)  # type: ignore[misc]


@cache
def _function() -> Any:
    """The machine code; None where nodes or Futures do not lie as expected."""
    found, own = offsets(), slots(Future, _FUTURE)
    if found is None or own is None:
        return None
    fields = found | {f"future_{name}": place for name, place in own.items()}
    made = loaded("treadle_left", INTERPRETER + _TEXT, fields, **numbers())
    function = _LEFT(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
