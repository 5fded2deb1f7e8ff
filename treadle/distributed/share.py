"""Share: what a rank's shards of an update have come to, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.base.errors import ArgumentError
from treadle.distributed.layout import GradientLayout

# The gradients of sparse parameters as rows, one for each look-up, by `row_numbers`:
# ids, of which one may come several times, and values. Those of several shards stand
# one after the other: an update sums the rows of an id in this order.
Rows = dict[int, Array]


def row_numbers(k: int) -> tuple[int, int]:
    """The numbers of the ids and of the values of a parameter's rows, as plans have
    them.

    >>> row_numbers(0), row_numbers(1)
    ((-1, -2), (-3, -4))
    """
    return ~(2 * k), ~(2 * k + 1)


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
    """Sums over `count` shards: flat gradients by dtype, rows, which parameters were
    `used`, and buffers. They are filled in."""

    count: int
    used: Array
    flat: dict[DType, Array]
    rows: Rows
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
