"""SliceRange of a slice: as Python's range, for symbolic integers too."""

from __future__ import annotations

from typing import Any, NamedTuple

from treadle.base.symbolic import Symbolic


class SliceRange(NamedTuple):
    """The integers from `start` on, before `stop`, in steps.

    >>> places = SliceRange(7, 0, -3)
    >>> places.count, places.low, places.high
    (3, 1, 7)
    """

    start: Any
    stop: Any
    step: int

    @classmethod
    def of(cls, item: slice, size: Any) -> SliceRange:
        """The range of a slice in a dimension, as `slice.indices`.

        >>> SliceRange.of(slice(None, -1), 5)
        SliceRange(start=0, stop=4, step=1)
        """
        parts = item.start, item.stop, size
        if not any(type(x) is Symbolic for x in parts):
            return cls(*item.indices(size))
        step = 1 if item.step is None else item.step.__index__()
        low, high = (0, size) if step > 0 else (-1, size - 1)

        def place(x: Any, otherwise: Any) -> Any:
            if x is None:
                return otherwise
            x = x + size if x < 0 else x
            return low if x < low else high if x > high else x

        first, last = (low, high) if step > 0 else (high, low)
        return cls(place(item.start, first), place(item.stop, last), step)

    @property
    def count(self) -> Any:
        """The number of positions in the range."""
        count = -((self.start - self.stop) // self.step)
        return count if count > 0 else 0

    @property
    def low(self) -> Any:
        """The least of some."""
        return self.start if self.step > 0 else self._last

    @property
    def high(self) -> Any:
        """The greatest of some."""
        return self._last if self.step > 0 else self.start

    @property
    def _last(self) -> Any:
        return self.start + (self.count - 1) * self.step
