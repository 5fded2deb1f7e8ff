"""Share: what a rank's shards of an update have come to, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.base.errors import ArgumentError
from treadle.distributed.layout import GradientLayout


def distinct(ids: Array) -> tuple[Array, Array]:
    """The distinct numbers of an array in order, and where each comes first.

    >>> [x.tolist() for x in distinct(np.array([3, 1, 3]))]
    [[1, 3], [1, 0]]
    """
    order = ids.argsort(kind="stable")
    ordered = ids[order]
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first], order[first]


@dataclass(frozen=True)
class RowGradients:
    """Rows of the gradient of a sparse parameter: distinct ids in order, one row each.

    >>> a = RowGradients(np.array([1, 4]), np.array([[1.0], [2.0]]))
    >>> b = RowGradients(np.array([0, 4]), np.array([[5.0], [6.0]]))
    >>> both = a.plus(b)
    >>> both.ids.tolist(), both.values.tolist()
    ([0, 1, 4], [[5.0], [1.0], [8.0]])
    """

    ids: Array
    values: Array

    @classmethod
    def of(cls, parts: Sequence[Array]) -> RowGradients:
        """The rows that arrays are: ids and the sum of each one's rows, or all rows."""
        values = parts[-1]
        if len(parts) == 1:
            return cls(np.arange(len(values)), values)
        ids, first = distinct(parts[0])
        return cls(ids.astype(np.int64), values[first])

    def plus(self, other: RowGradients) -> RowGradients:
        """The rows of both, summed where both have them."""
        ids, _ = distinct(np.concatenate([self.ids, other.ids]))
        values = np.empty((len(ids), *self.values.shape[1:]), self.values.dtype)
        before, places = ids.searchsorted(self.ids), ids.searchsorted(other.ids)
        here = np.zeros(len(ids), bool)
        here[before] = True
        both = here[places]
        values[before] = self.values
        values[places[both]] += other.values[both]
        values[places[~both]] = other.values[~both]
        return RowGradients(ids, values)


@dataclass(frozen=True)
class Buffers:
    """What shards have made of the buffers (statistics of a BatchNorm): floats, of
    which the mean counts, and whole numbers, of which the greatest does."""

    floats: Array
    integers: Array

    def plus(self, other: Buffers) -> Buffers:
        return Buffers(
            self.floats + other.floats, np.maximum(self.integers, other.integers)
        )


@dataclass
class Share:
    """Sums over `count` shards: flat gradients by dtype, rows by the number of their
    parameter, which parameters were `used`, and buffers. They are filled in."""

    count: int
    used: Array
    flat: dict[DType, Array]
    rows: dict[int, RowGradients]
    buffers: Buffers

    @classmethod
    def empty(cls, layout: GradientLayout, buffers: Buffers, count: int = 0) -> Share:
        """The share of `count` shards that have no gradients, and buffers of none."""
        used = np.zeros(len(layout.places), bool)
        return cls(count, used, layout.empty(), {}, buffers)


def levels(shards: int) -> int:
    """The number of times that so many shards can be halved.

    >>> levels(8), levels(6), levels(3)
    (3, 1, 0)
    """
    return (shards & -shards).bit_length() - 1


def shards_of(shards: int, size: int) -> int:
    """The shards of each rank; ArgumentError where their sums could not be made in
    the order that all numbers of ranks have in common.

    >>> shards_of(8, 2), shards_of(6, 3), shards_of(6, 1)
    (4, 2, 6)
    """
    share, rest = divmod(shards, size)
    if shards < 1 or rest or (size > 1 and share & (share - 1)):
        raise ArgumentError(
            f"{shards} shards are not to be had on {size} ranks alike",
            hint="let shards be the number of ranks times 1, 2, 4, 8 or so on",
        )
    return share
