"""Cells of a run (`batch/grow.py`) in machine code: numbers alone, no objects."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np

from treadle.batch.columns import Numbers
from treadle.batch.grow import LEAF, LONE, MOVES, NODES, PART, PRODUCT, RESULT, WAITS
from treadle.engines.native.forest.growth import FIELDS, GROWTH, WAITED
from treadle.engines.native.objects.text import loaded

__all__ = ["grown"]

FIRST = 1 << 12  # cells there is room for at first

_TEXT = """
; Note the one cell that reads each cell; -1 where several do.
define internal void @readers(ptr %starts, ptr %operands, i64 %nodes, ptr %own,
                              ptr %cells) {
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %done]
  %in = icmp slt i64 %k, %nodes
  br i1 %in, label %node, label %end
node:
  %k1 = add i64 %k, 1
  %mine = call i64 @word(ptr %own, i64 %k)
  %is = icmp sge i64 %mine, 0
  br i1 %is, label %read, label %done
read:
  %s = call i64 @word(ptr %starts, i64 %k)
  %e = call i64 @word(ptr %starts, i64 %k1)
  br label %operand
operand:
  %j = phi i64 [%s, %read], [%j1, %next]
  %more = icmp slt i64 %j, %e
  br i1 %more, label %one, label %done
one:
  %j1 = add i64 %j, 1
  %t = call i64 @word(ptr %operands, i64 %j)
  %c = call i64 @word(ptr %own, i64 %t)
  %some = icmp sge i64 %c, 0
  %other = icmp ne i64 %c, %mine
  %outside = and i1 %some, %other
  br i1 %outside, label %note, label %next
note:
  %known = call i64 @get(ptr %cells, i64 %c, i64 6)
  %first = icmp eq i64 %known, -2
  %same = icmp eq i64 %known, %mine
  %one_reader = or i1 %first, %same
  %x = select i1 %one_reader, i64 %mine, i64 -1
  call void @put(ptr %cells, i64 %c, i64 6, i64 %x)
  br label %next
next:
  br label %operand
done:
  br label %loop
end:
  ret void
}

; Let cells become part of the only one that reads them.
define internal void @merge(ptr %cells, i64 %count) {
entry:
  br label %loop
loop:
  %c = phi i64 [0, %entry], [%c1, %done]
  %in = icmp slt i64 %c, %count
  br i1 %in, label %cell, label %end
cell:
  %c1 = add i64 %c, 1
  %open = call i64 @get(ptr %cells, i64 %c, i64 1)
  %is = icmp ne i64 %open, 0
  br i1 %is, label %waits, label %done
waits:
  %n = call i64 @get(ptr %cells, i64 %c, i64 5)
  %products = call i64 @get(ptr %cells, i64 %c, i64 2)
  %nodes = call i64 @get(ptr %cells, i64 %c, i64 3)
  br label %look
look:
  %k = phi i64 [0, %waits], [%k1, %next]
  %best = phi i64 [-1, %waits], [%best1, %next]
  %level = phi i64 [-1, %waits], [%level1, %next]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %one, label %chosen
one:
  %f = add i64 %k, $WAITED
  %x = call i64 @get(ptr %cells, i64 %c, i64 %f)
  %xopen = call i64 @get(ptr %cells, i64 %x, i64 1)
  %xis = icmp ne i64 %xopen, 0
  %reader = call i64 @get(ptr %cells, i64 %x, i64 6)
  %only = icmp eq i64 %reader, %c
  %xproducts = call i64 @get(ptr %cells, i64 %x, i64 2)
  %all = add i64 %products, %xproducts
  %few = icmp sle i64 %all, 1
  %xnodes = call i64 @get(ptr %cells, i64 %x, i64 3)
  %both = add i64 %nodes, %xnodes
  %small = icmp sle i64 %both, $NODES
  %a = and i1 %xis, %only
  %b = and i1 %few, %small
  %fits = and i1 %a, %b
  %xlevel = call i64 @get(ptr %cells, i64 %x, i64 4)
  %deep = icmp sge i64 %xlevel, %level
  %better = and i1 %fits, %deep
  br label %next
next:
  %best1 = select i1 %better, i64 %x, i64 %best
  %level1 = select i1 %better, i64 %xlevel, i64 %level
  %k1 = add i64 %k, 1
  br label %look
chosen:
  %found = icmp sge i64 %best, 0
  br i1 %found, label %join, label %done
join:
  call void @put(ptr %cells, i64 %best, i64 7, i64 %c)
  %p = call i64 @get(ptr %cells, i64 %best, i64 2)
  %m = call i64 @get(ptr %cells, i64 %best, i64 3)
  call void @more(ptr %cells, i64 %c, i64 2, i64 %p)
  call void @more(ptr %cells, i64 %c, i64 3, i64 %m)
  br label %done
done:
  br label %loop
end:
  ret void
}

; The node that each cell goes by in the end; -1 if it has not grown.
define internal void @named(ptr %cells, i64 %count) {
entry:
  br label %loop
loop:
  %left = phi i64 [%count, %entry], [%c, %done]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %cell, label %end
cell:
  %c = sub i64 %left, 1
  %into = call i64 @get(ptr %cells, i64 %c, i64 7)
  %whole = icmp slt i64 %into, 0
  br i1 %whole, label %own, label %part
own:
  %open = call i64 @get(ptr %cells, i64 %c, i64 1)
  %is = icmp ne i64 %open, 0
  %nodes = call i64 @get(ptr %cells, i64 %c, i64 3)
  %several = icmp sgt i64 %nodes, 1
  %grew = and i1 %is, %several
  %node = call i64 @get(ptr %cells, i64 %c, i64 0)
  %named = select i1 %grew, i64 %node, i64 -1
  br label %done
part:
  %known = call i64 @get(ptr %cells, i64 %into, i64 7)
  br label %done
done:
  %x = phi i64 [%named, %own], [%known, %part]
  call void @put(ptr %cells, i64 %c, i64 7, i64 %x)
  br label %loop
end:
  ret void
}

define void @treadle_grown(ptr %starts, ptr %operands, ptr %roles, i64 %nodes, ptr %own,
                           ptr %cells) {
entry:
  %count = call i64 @grow(ptr %starts, ptr %operands, ptr %roles, i64 %nodes, ptr %own,
                          ptr %cells)
  call void @readers(ptr %starts, ptr %operands, i64 %nodes, ptr %own, ptr %cells)
  call void @merge(ptr %cells, i64 %count)
  call void @named(ptr %cells, i64 %count)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %done]
  %in = icmp slt i64 %k, %nodes
  br i1 %in, label %node, label %end
node:
  %k1 = add i64 %k, 1
  %c = call i64 @word(ptr %own, i64 %k)
  %is = icmp sge i64 %c, 0
  br i1 %is, label %one, label %done
one:
  %x = call i64 @get(ptr %cells, i64 %c, i64 7)
  call void @store(ptr %own, i64 %k, i64 %x)
  br label %done
done:
  br label %loop
end:
  ret void
}
"""
_GROWN = ctypes.PYFUNCTYPE(
    None, *[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 2
)


class _Own(threading.local):
    """The memory of a thread for cells: fresh pages cost as much as they."""

    def __init__(self) -> None:
        self.cells = np.empty((FIRST, FIELDS), np.int64)


_own = _Own()


def grown(starts: Numbers, operands: Numbers, roles: Numbers) -> Numbers:
    """As `batch/grow.py` has it."""
    count = len(roles)
    if len(_own.cells) < count:
        _own.cells = np.empty((2 * count, FIELDS), np.int64)
    found = np.empty(count, np.int64)
    given = [x.ctypes.data for x in (starts, operands, roles)]
    _function()(*given, count, found.ctypes.data, _own.cells.ctypes.data)
    return found


@cache
def _function() -> Any:
    """The machine code."""
    numbers = {"LEAF": LEAF, "LONE": LONE, "MOVES": MOVES, "NODES": NODES}
    numbers |= {"PART": PART, "PRODUCT": PRODUCT, "RESULT": RESULT, "WAITS": WAITS}
    numbers |= {
        "FIELDS": FIELDS,
        "WAITED": WAITED,
        "MOST": WAITS + 1,
        "ROOM": WAITS + 3,
    }
    made = loaded("treadle_grown", GROWTH + _TEXT, {}, **numbers)
    function = _GROWN(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function
