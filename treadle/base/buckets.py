"""Size buckets: numbers of rows rounded up to few, so that programs are reused."""

from __future__ import annotations

FINE = 4  # binary digits after the first, where programs serve many numbers
COARSE = 2  # where each number is a program of its own


def size_bucket(count: int, digits: int = FINE) -> int:
    """A number of rows, at least so many, and one of few: 16 from each power of two
    to the next, or as many as so many binary digits can tell.

    >>> [size_bucket(k) for k in (0, 7, 31, 33, 1000)], size_bucket(33, COARSE)
    ([0, 7, 31, 34, 1024], 40)
    """
    step = steps_of(count, digits)
    return -(-count // step) * step


def steps_of(count: int, digits: int = FINE) -> int:
    """The distance between size buckets near a number of rows."""
    return 1 << max(count.bit_length() - 1 - digits, 0)
