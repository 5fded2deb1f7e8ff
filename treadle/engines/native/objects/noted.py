"""Calls of what has notes of its own (`graph/noted.py`), entered in machine code.

A layer is called for each word of each sentence: in Python entering it takes as long
as the look-up of a row does that it then asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from treadle.engines.native.objects.interpreter import (
    INTERPRETER,
    KEYWORDS,
    addresses,
    bound_to_threads,
    builtin,
    method,
    numbers,
)
from treadle.engines.native.objects.layout import slots
from treadle.engines.native.objects.text import loaded
from treadle.graph.noted import quicken
from treadle.graph.thread import ThreadState

__all__ = ["provide_noted"]

# `self` of the method is a tuple of these.
_OWN = ("api", "long", "own", "path", "forward")
_TEXT = (
    INTERPRETER
    + """
; Set the notes of new nodes; whether that could be done.
define internal i1 @carry(ptr %self, ptr %notes) alwaysinline {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %state = call ptr @thread(ptr %api)
  %lost = icmp eq ptr %state, null
  br i1 %lost, label %end, label %set
set:
  %place = getelementptr i8, ptr %state, i64 $notes
  %before = load ptr, ptr %place
  call void @keep(ptr %api, ptr %state, i64 $notes, ptr %notes)
  call void @drop(ptr %api, ptr %before)
  br label %end
end:
  %well = phi i1 [false, %entry], [true, %set]
  ret i1 %well
}

; Call `forward`, then have the notes from before, whatever was raised meanwhile.
define internal ptr @inside(ptr %self, ptr %before, ptr %args, i64 %given, ptr %names) {
entry:
  %kind_at = alloca ptr
  %error_at = alloca ptr
  %trace_at = alloca ptr
  %api = call ptr @item(ptr %self, i64 $own_api)
  %name = call ptr @item(ptr %self, i64 $own_forward)
  %method = call ptr @api(ptr %api, i64 $METHOD)
  %y = call ptr %method(ptr %name, ptr %args, i64 %given, ptr %names)
  %raised = icmp eq ptr %y, null
  br i1 %raised, label %failed, label %back
back:
  %well = call i1 @carry(ptr %self, ptr %before)
  br i1 %well, label %end, label %lost
end:
  ret ptr %y
lost:
  call void @drop(ptr %api, ptr %y)
  ret ptr null
failed:
  %fetch = call ptr @api(ptr %api, i64 $FETCH)
  call void %fetch(ptr %kind_at, ptr %error_at, ptr %trace_at)
  %again = call i1 @carry(ptr %self, ptr %before)
  br i1 %again, label %raise, label %clear
clear:
  %forget = call ptr @api(ptr %api, i64 $CLEAR)
  call void %forget()
  br label %raise
raise:
  %kind = load ptr, ptr %kind_at
  %error = load ptr, ptr %error_at
  %trace = load ptr, ptr %trace_at
  %restore = call ptr @api(ptr %api, i64 $RESTORE)
  call void %restore(ptr %kind, ptr %error, ptr %trace)
  ret ptr null
}

; method(object, *args, **kwargs)
define ptr @treadle_noted(ptr %self, ptr %args, i64 %given, ptr %names) {
entry:
  %api = call ptr @item(ptr %self, i64 $own_api)
  %getattr = call ptr @api(ptr %api, i64 $GETATTR)
  %called = icmp sgt i64 %given, 0
  br i1 %called, label %begin, label %other
begin:
  %object = load ptr, ptr %args
  %state = call ptr @thread(ptr %api)
  %none = icmp eq ptr %state, null
  br i1 %none, label %lost, label %read
read:
  %before = call ptr @held(ptr %api, ptr %state, i64 $notes)
  %field = call ptr @item(ptr %self, i64 $own_own)
  %own = call ptr %getattr(ptr %object, ptr %field)
  %bare = icmp eq ptr %own, null
  br i1 %bare, label %drop_before, label %look
look:
  %kind = call ptr @field(ptr %own, i64 $KIND)
  %tuples = call ptr @api(ptr %api, i64 $TUPLETYPE)
  %is = icmp eq ptr %kind, %tuples
  br i1 %is, label %sized, label %drop_own
sized:
  %sp = getelementptr i8, ptr %own, i64 $SIZE
  %size = load i64, ptr %sp
  %three = icmp eq i64 %size, 3
  br i1 %three, label %compare, label %drop_own
compare:
  %around = call ptr @item(ptr %own, i64 0)
  %known = call ptr @item(ptr %own, i64 1)
  %notes = call ptr @item(ptr %own, i64 2)
  %place = call ptr @item(ptr %self, i64 $own_path)
  %path = call ptr %getattr(ptr %object, ptr %place)
  %nowhere = icmp eq ptr %path, null
  br i1 %nowhere, label %drop_own, label %same
same:
  %a = icmp eq ptr %around, %before
  %b = icmp eq ptr %known, %path
  call void @drop(ptr %api, ptr %path)
  %both = and i1 %a, %b
  br i1 %both, label %enter, label %drop_own
enter:
  %entered = call i1 @carry(ptr %self, ptr %notes)
  br i1 %entered, label %run, label %leave
run:
  %result = call ptr @inside(ptr %self, ptr %before, ptr %args, i64 %given,
    ptr %names)
  br label %leave
leave:
  %y = phi ptr [null, %enter], [%result, %run]
  call void @drop(ptr %api, ptr %own)
  call void @drop(ptr %api, ptr %before)
  ret ptr %y
drop_own:
  call void @drop(ptr %api, ptr %own)
  br label %drop_before
drop_before:
  call void @drop(ptr %api, ptr %before)
  br label %lost
lost:  ; in Python it is raised again
  %forget = call ptr @api(ptr %api, i64 $CLEAR)
  call void %forget()
  br label %other
other:
  %long = call ptr @item(ptr %self, i64 $own_long)
  %vector = call ptr @api(ptr %api, i64 $VECTOR)
  %z = call ptr %vector(ptr %long, ptr %args, i64 %given, ptr %names)
  ret ptr %z
}
"""
)


def provide_noted() -> None:
    """Let such calls be entered by machine code from here on."""
    code = _code()
    if code is None:
        return

    def made(long: Callable[..., Any]) -> Any:
        names = "_notes", "_path", "forward"
        own = addresses(), long, *map(sys.intern, names)
        return method(builtin("__call__", code, own, KEYWORDS))

    quicken(made)


@cache
def _code() -> int | None:
    """The function; None where things do not lie as it expects."""
    fields = slots(ThreadState, ["notes"])
    if fields is None or not bound_to_threads():
        return None
    known = {**numbers(), **fields, **{f"own_{name}": k for k, name in enumerate(_OWN)}}
    return loaded("treadle_noted", _TEXT, {}, **known)
