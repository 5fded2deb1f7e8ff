"""How many rows there is room for: few numbers, so that programs are reused."""

from __future__ import annotations

__all__ = ["room", "steps_of"]

BITS = 4  # leading binary digits of a number of rows


def room(count: int) -> int:
    """A number of rows, at least so many, and one of few: 16 from each power of two
    to the next.

    >>> [room(k) for k in (0, 7, 31, 33, 1000)]
    [0, 7, 31, 34, 1024]
    """
    step = steps_of(count)
    return -(-count // step) * step


def steps_of(count: int) -> int:
    """How far the numbers lie apart there."""
    return 1 << max(count.bit_length() - 1 - BITS, 0)
