"""Where CPython keeps what a node has: looked for in memory, never assumed.

Machine code reads the fields of thousands of nodes in less time than Python takes for
fifty. Where something does not lie as expected (another interpreter, or one without a
lock), `offsets` says so, and Python reads.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from treadle.engines.native.routines.memory import Unknown
from treadle.graph.tensor import Tensor

__all__ = [
    "BYTES",
    "COUNT",
    "DIGITS",
    "FIELDS",
    "ITEMS",
    "KIND",
    "LIST_ITEMS",
    "SHIFT",
    "SIZE",
    "WORD",
    "known_slots",
    "offsets",
    "place_of",
    "slots",
    "usable",
]

WORD = 8
COUNT, KIND = 0, WORD  # of any object: references to it, its class
SIZE = 2 * WORD  # of a tuple and an int: how many items or digits
DIGITS = 3 * WORD  # of an int: the first of them
SHIFT = 3 if sys.version_info >= (3, 12) else 0  # bits below the count of digits
# Of a tuple: the first item, behind a hash in later versions.
ITEMS = (4 if sys.version_info >= (3, 14) else 3) * WORD
LIST_ITEMS = 3 * WORD  # of a list: where its items lie
BYTES = bytes.__basicsize__ - 1  # of bytes: where their contents begin
_BITS = 30  # in a digit
FIELDS = tuple(name for name in Tensor.__slots__ if name != "__weakref__")


@cache
def offsets() -> dict[str, int] | None:
    """The byte where each field of a node that is read lies; None if one is not found.

    >>> sorted(offsets() or FIELDS) == sorted(FIELDS)
    True
    """
    return slots(Tensor, FIELDS)


def slots(kind: type, names: Sequence[str]) -> dict[str, int] | None:
    """The byte where each of these slots of a class lies; None if one is not found."""
    if not usable():
        return None
    found = {}
    for name in names:
        one: Any = object.__new__(kind)
        token = object()
        setattr(one, name, token)
        place = place_of(one, id(token))
        if place is None:
            return None
        found[name] = place
    return found


def known_slots(kind: type, *names: str) -> Mapping[str, int]:
    """As `slots`. Raises Unknown."""
    found = slots(kind, names)
    if found is None:
        raise Unknown
    return found


def place_of(x: object, word: int) -> int | None:
    """The byte of an object where a word stands; None if there is none, or several."""
    words = _words(x, 0, type(x).__basicsize__ // WORD)
    places = [k for k, own in enumerate(words) if own == word]
    return places[0] * WORD if len(places) == 1 else None


@cache
def usable() -> bool:
    """Whether tuples, ints and counts of references lie where CPython puts them."""
    if (
        platform.python_implementation() != "CPython"
        or ctypes.sizeof(ctypes.c_void_p) != WORD
    ):
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    one, two = object(), object()
    pair = one, two
    if _words(pair, KIND, 1) != [id(tuple)] or _words(pair, SIZE, 1) != [2]:
        return False
    if _words(pair, ITEMS, 2) != [id(one), id(two)]:
        return False
    more = [one] * 3
    (items,) = _words(more, LIST_ITEMS, 1)
    if list((ctypes.c_int64 * 3).from_address(items)) != [id(one)] * 3:
        return False
    held = 2 + len(more)  # by its name and the pair, too
    if ctypes.c_int64.from_address(id(one) + COUNT).value != held:
        return False
    return all(_digits(x) == x for x in (0, 1, 5, (1 << _BITS) - 1, (1 << 45) + 3))


def _words(x: object, offset: int, count: int) -> list[int]:
    """Some words of an object, from a byte on."""
    return list((ctypes.c_int64 * count).from_address(id(x) + offset))


def _digits(x: int) -> int:
    """An int below two to the sixtieth as machine code reads it."""
    count = ctypes.c_int64.from_address(id(x) + SIZE).value >> SHIFT
    digits = (ctypes.c_uint32 * 2).from_address(id(x) + DIGITS)
    return sum(digits[k] << _BITS * k for k in range(min(count, 2)))
