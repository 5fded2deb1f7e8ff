"""What the functions of this folder share: reading an object's fields."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from treadle.engines.native.jit import compile_functions
from treadle.engines.native.objects import layout

__all__ = ["loaded"]

# An int below two to the sixtieth; what a word of an object refers to; words by number.
_COMMON = """
define internal i64 @number(ptr %int) alwaysinline {
  %p = getelementptr i8, ptr %int, i64 $SIZE
  %size = load i64, ptr %p
  %digits = lshr i64 %size, $SHIFT
  %q = getelementptr i8, ptr %int, i64 $DIGITS
  %both = load i64, ptr %q
  %low = and i64 %both, 4294967295
  %upper = lshr i64 %both, 32
  %high = shl i64 %upper, 30
  %some = icmp ugt i64 %digits, 0
  %many = icmp ugt i64 %digits, 1
  %one = select i1 %some, i64 %low, i64 0
  %two = or i64 %low, %high
  %x = select i1 %many, i64 %two, i64 %one
  ret i64 %x
}

define internal ptr @field(ptr %object, i64 %offset) alwaysinline {
  %p = getelementptr i8, ptr %object, i64 %offset
  %x = load ptr, ptr %p
  ret ptr %x
}

define internal i64 @word(ptr %space, i64 %k) alwaysinline {
  %p = getelementptr i64, ptr %space, i64 %k
  %x = load i64, ptr %p
  ret i64 %x
}

define internal ptr @array(ptr %space, i64 %k) alwaysinline {
  %p = getelementptr i64, ptr %space, i64 %k
  %x = load ptr, ptr %p
  ret ptr %x
}

define internal void @store(ptr %space, i64 %k, i64 %x) alwaysinline {
  %p = getelementptr i64, ptr %space, i64 %k
  store i64 %x, ptr %p
  ret void
}
"""


def loaded(name: str, text: str, fields: Mapping[str, int], **numbers: int) -> int:
    """The address of a function; $x in its text is the place of field x, or a number.

    Its code stays loaded as long as the address does.
    """
    known = {"COUNT": layout.COUNT, "KIND": layout.KIND, "SIZE": layout.SIZE}
    known |= {"ITEMS": layout.ITEMS, "LIST_ITEMS": layout.LIST_ITEMS}
    known |= {"DIGITS": layout.DIGITS, "SHIFT": layout.SHIFT}
    filled = Template(_COMMON + text).substitute({**known, **fields, **numbers})
    return compile_functions({name: filled}, lasting=True)[name]
