"""Lets go of many nodes: their memory is fetched before the interpreter frees it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from treadle.engines.native.objects.interpreter import INTERPRETER, addresses, numbers
from treadle.engines.native.objects.layout import offsets
from treadle.engines.native.objects.text import loaded
from treadle.graph.tensor import Tensor

__all__ = ["forgotten"]

_TEXT = """
define internal void @fetch(ptr %object) alwaysinline {
  call void @llvm.prefetch.p0(ptr %object, i32 1, i32 3, i32 1)
  ret void
}

; Take the nodes out of a list, the last one first.
define void @treadle_forget(ptr %list, ptr %api) {
entry:
  %decref = call ptr @api(ptr %api, i64 $DECREF)
  %size = getelementptr i8, ptr %list, i64 $SIZE
  br label %loop
loop:
  %n = load i64, ptr %size
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %one, label %end
one:
  %items = call ptr @field(ptr %list, i64 $LIST_ITEMS)
  %far = sub i64 %n, 16
  %f = icmp sge i64 %far, 0
  br i1 %f, label %outer, label %near
outer:
  %fp = getelementptr ptr, ptr %items, i64 %far
  %x = load ptr, ptr %fp
  %head = getelementptr i8, ptr %x, i64 -16
  call void @fetch(ptr %head)
  %tail = getelementptr i8, ptr %x, i64 48
  call void @fetch(ptr %tail)
  br label %near
near:
  %close = sub i64 %n, 8
  %c = icmp sge i64 %close, 0
  br i1 %c, label %inner, label %drop
inner:
  %cp = getelementptr ptr, ptr %items, i64 %close
  %y = load ptr, ptr %cp
  %inputs = call ptr @field(ptr %y, i64 $inputs)
  %behind = getelementptr i8, ptr %inputs, i64 -16
  call void @fetch(ptr %behind)
  %serial = call ptr @field(ptr %y, i64 $serial)
  call void @fetch(ptr %serial)
  br label %drop
drop:
  %last = sub i64 %n, 1
  %lp = getelementptr ptr, ptr %items, i64 %last
  %node = load ptr, ptr %lp
  store i64 %last, ptr %size
  call void %decref(ptr %node)
  br label %loop
end:
  ret void
}
"""
_FORGET = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)


def forgotten(nodes: list[Tensor]) -> None:
    """Empty a list of nodes, the last one first."""
    function = _function()
    if function is None:
        nodes.clear()
    else:
        function(nodes, addresses())


@cache
def _function() -> Any:
    """The machine code; None where nodes do not lie as expected."""
    found = offsets()
    if found is None:
        return None
    made = loaded("treadle_forget", INTERPRETER + _TEXT, found, **numbers())
    function = _FORGET(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
