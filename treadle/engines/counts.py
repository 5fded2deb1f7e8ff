"""Counts of copies and launches, as engines with a memory of their own keep them."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """Counts of copies and launches so far.

    >>> Counts(copies_in=5) - Counts(copies_in=2, launches=1)
    Counts(copies_in=3, bytes_in=0, copies_out=0, bytes_out=0, launches=-1)
    """

    copies_in: int = 0
    bytes_in: int = 0
    copies_out: int = 0
    bytes_out: int = 0
    launches: int = 0

    def __sub__(self, other: Counts) -> Counts:
        names = [f.name for f in fields(self)]
        return Counts(*[getattr(self, x) - getattr(other, x) for x in names])
