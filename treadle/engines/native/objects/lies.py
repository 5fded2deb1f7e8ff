"""Whether Variables have the values they had, in memory that nobody else looks at."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from treadle.engines.native.objects.interpreter import INTERPRETER, numbers
from treadle.engines.native.objects.layout import offsets, place_of, slots
from treadle.engines.native.objects.text import loaded
from treadle.graph.references import in_place
from treadle.graph.resident import Future
from treadle.graph.variable import Variable

__all__ = ["lies"]

_TEXT = """
define internal i64 @count(ptr %object) alwaysinline {
  %p = getelementptr i8, ptr %object, i64 $COUNT
  %x = load i64, ptr %p
  ret i64 %x
}

; `references.in_place` of two tuples and bytes.
define i64 @treadle_lies(ptr %variables, ptr %values, ptr %alone, ptr %arrays) {
entry:
  %sp = getelementptr i8, ptr %variables, i64 $SIZE
  %n = load i64, ptr %sp
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %next]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %version, label %yes
version:
  %v = call ptr @item(ptr %variables, i64 %k)
  %node = call ptr @field(ptr %v, i64 $committed)
  %ap = getelementptr i8, ptr %alone, i64 %k
  %a = load i8, ptr %ap
  %asked = icmp ne i8 %a, 0
  %own = call i64 @count(ptr %node)
  %others = icmp ne i64 %own, 1
  %seen = and i1 %asked, %others
  br i1 %seen, label %no, label %value
value:
  %x = call ptr @item(ptr %values, i64 %k)
  %stored = call ptr @field(ptr %node, i64 $stored)
  %is = icmp eq ptr %x, %stored
  %c = call i64 @count(ptr %x)
  %two = icmp eq i64 %c, 2  ; the version and the tuple
  %good = and i1 %is, %two
  br i1 %good, label %under, label %no
under:
  %array = call ptr @field(ptr %x, i64 $array)
  br label %base
base:
  %b = phi ptr [%array, %under], [%lower, %deeper]
  %first = phi i1 [true, %under], [false, %deeper]
  %nothing = icmp eq ptr %b, null
  br i1 %nothing, label %next, label %what
what:
  %kind = call ptr @field(ptr %b, i64 $KIND)
  %plain = icmp eq ptr %kind, %arrays
  %looked = or i1 %plain, %first
  br i1 %looked, label %held, label %next
held:
  %r = call i64 @count(ptr %b)
  %sole = icmp eq i64 %r, 1
  br i1 %sole, label %kin, label %no
kin:
  br i1 %plain, label %deeper, label %no
deeper:
  %lower = call ptr @field(ptr %b, i64 $base)
  br label %base
next:
  %k1 = add i64 %k, 1
  br label %loop
yes:
  ret i64 1
no:
  ret i64 0
}
"""
_LIES = ctypes.PYFUNCTYPE(
    ctypes.c_int64, ctypes.py_object, ctypes.py_object, ctypes.c_char_p, ctypes.c_void_p
)


def lies(variables: Sequence[Variable], values: Sequence[Future], alone: bytes) -> bool:
    """`in_place` of tuples, in machine code where things lie as expected."""
    function = _function()
    if function is None:
        return in_place(variables, values, alone)
    return bool(function(variables, values, alone, id(np.ndarray)))


@cache
def _function() -> Any:
    """The machine code; None where Variables or arrays do not lie as expected."""
    under = np.zeros(3)
    base = place_of(under[1:], id(under))
    every = offsets(), slots(Variable, ["committed"]), slots(Future, ["array"])
    if base is None or any(x is None for x in every):
        return None
    fields = {name: place for x in every for name, place in (x or {}).items()}
    text = INTERPRETER + _TEXT
    made = loaded("treadle_lies", text, fields, base=base, **numbers())
    function = _LIES(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
