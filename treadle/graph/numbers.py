"""Numbers for ops, types and literals: keys of structure compare numbers alone.

They are negative, and a number is never used again for something else.
"""

from __future__ import annotations

import itertools
from typing import Any

from treadle.base.caches import Cache
from treadle.base.types import Type
from treadle.graph.body import sign_of
from treadle.graph.op import Op

KNOWN = 1 << 16  # ops, types and whatever else has a number

_numbers: Cache[Any, int] = Cache("numbers of structures", KNOWN)
# The same the other way round.
_things: Cache[int, Any] = Cache("structures by number", KNOWN)
_next = itertools.count(-1, -1)


def number(x: Any, before: int | None = None) -> int:
    """The number of whatever is hashable: that of `before`, if it has none now."""
    known = _numbers.get(x)
    if known is None:
        known = _numbers.setdefault(x, next(_next) if before is None else before)
        _things[known] = x
    return known


def known_by(n: int) -> Any:
    """The object of a number; None if too much has been numbered since."""
    return _things.get(n)


def number_of(op: Op) -> int:
    """The number of an op, by what it is equal by; it keeps it."""
    known: int | None = getattr(op, "_number", None)
    if known is None or known not in _things:
        known = number(sign_of(op), known)
        object.__setattr__(op, "_number", known)
    return known


def number_of_type(t: Type) -> int:
    """The number of a type, which keeps it."""
    known: int | None = getattr(t, "_number", None)
    if known is None or known not in _things:
        known = t._number = number(t, known)
    return known
