"""Sets of named axes that keep an order: union, intersection, difference, tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from treadle.base.errors import AxisError
from treadle.base.types import Axis

__all__ = ["Axes"]


class Axes:
    """Axes in order, each name once; `+ | & -` keep the order of the left operand.

    >>> n, c, h = Axis("n", 2), Axis("c", 3), Axis("h", 4)
    >>> a, b = Axes(n, c), Axes(c, h)
    >>> (a | b).names, (a & b).names, (a - b).names
    (('n', 'c', 'h'), ('c',), ('n',))
    >>> a == Axes(c, n), a.is_same_set(Axes(c, n)), Axes(n).is_subset(a)
    (False, True, True)
    """

    __slots__ = ("_items",)

    def __init__(self, *axes: Axis) -> None:
        lengths: dict[str, int] = {}
        for axis in _axes(axes):
            if axis.name in lengths:
                raise AxisError(f"axis {axis.name!r} stands twice in {axes}")
            lengths[axis.name] = axis.length
        self._items = axes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(axis.name for axis in self._items)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths in order."""
        return tuple(axis.length for axis in self._items)

    @property
    def size(self) -> int:
        """The number of elements of a tensor over these axes."""
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, axis: Any) -> bool:
        return (axis.name if isinstance(axis, Axis) else axis) in self.names

    def __getitem__(self, key: str | int) -> Axis:
        """The axis with that name, or at that place."""
        if isinstance(key, str):
            if key not in self.names:
                raise AxisError(f"no axis is named {key!r} in {self}")
            key = self.names.index(key)
        try:
            return self._items[key]
        except (TypeError, IndexError):
            raise AxisError(
                f"no axis is at {key!r} in {self}",
                hint="an axis is known by its name, or its place from 0 on",
            ) from None

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Axes) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __add__(self, other: Iterable[Axis]) -> Axes:
        """Both, one behind the other; a name in both is an error."""
        return Axes(*self._items, *_axes(other))

    def __or__(self, other: Iterable[Axis]) -> Axes:
        """These, then the others that are not among them."""
        return Axes(*self._items, *[a for a in _axes(other) if not self._holds(a)])

    def __and__(self, other: Iterable[Axis]) -> Axes:
        """The intersection, in the order of the first."""
        shared = {a.name for a in _axes(other) if self._holds(a)}
        return Axes(*[a for a in self._items if a.name in shared])

    def __sub__(self, other: Iterable[Axis]) -> Axes:
        """The difference, in the order of the first."""
        gone = {a.name for a in _axes(other) if self._holds(a)}
        return Axes(*[a for a in self._items if a.name not in gone])

    def _holds(self, axis: Axis) -> bool:
        """Whether the axis is one of these; another length is an error."""
        if axis.name not in self.names:
            return False
        known = self[axis.name]
        if known.length != axis.length:
            raise AxisError(
                f"axis {axis.name!r} has lengths {known.length} and {axis.length}"
            )
        return True

    def is_subset(self, other: Iterable[Axis]) -> bool:
        """Whether the other has all of these."""
        return len(self & other) == len(self)

    def is_superset(self, other: Iterable[Axis]) -> bool:
        """Whether these are all that the other has, and perhaps more."""
        others = Axes(*_axes(other))
        return len(self & others) == len(others)

    def is_same_set(self, other: Iterable[Axis]) -> bool:
        """Whether both have the same axes, in whatever order."""
        return self.is_subset(other) and self.is_superset(other)

    def __repr__(self) -> str:
        return f"Axes({', '.join(f'{a.name}={a.length}' for a in self._items)})"


def _axes(other: Any) -> tuple[Axis, ...]:
    """The right operand, if it is axes."""
    axes = tuple(other) if isinstance(other, Iterable) else (other,)
    for axis in axes:
        if not isinstance(axis, Axis):
            raise AxisError(
                f"axes are Axis objects, not {axis!r}",
                hint="an axis has a name and a length: td.Axis('n', 32)",
            )
    return axes
