"""Where NumPy's arrays keep their data: thousands of them asked at once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from treadle.base.routine import Numbers
from treadle.engines.native.objects.layout import place_of, usable
from treadle.engines.native.objects.text import loaded

__all__ = ["addresses_of"]

_TEXT = """
; A word of each of some objects, in the place of where the object is.
define void @treadle_words(ptr %objects, i64 %count, i64 %offset) {
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k1, %body]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %end
body:
  %p = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %p
  %x = call ptr @field(ptr %object, i64 %offset)
  store ptr %x, ptr %p
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret void
}
"""
_WORDS = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def addresses_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Where the first element of each array lies.

    >>> x, y = np.zeros(3), np.ones(2)
    >>> addresses_of([x, y]).tolist() == [x.ctypes.data, y.ctypes.data]
    True
    """
    function, offset = _words()
    if function is None:
        return np.array([x.ctypes.data for x in arrays], np.int64)
    found = np.fromiter(map(id, arrays), np.int64, len(arrays))
    function(found.ctypes.data, len(found), offset)
    return found


@cache
def _words() -> tuple[Any, int]:
    """The function, and the byte of an array where it says where its data lies."""
    if not usable():
        return None, 0
    probe = np.zeros(3)
    place = place_of(probe, probe.ctypes.data)
    if place is None:
        return None, 0
    made = loaded("treadle_words", _TEXT, {})
    function = _WORDS(made)
    function.code = made  # type: ignore[attr-defined]  # stays loaded
    return function, place
