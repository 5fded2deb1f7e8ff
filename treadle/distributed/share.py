"""Share: what a rank's shards of an update have come to, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.base.errors import ArgumentError
from treadle.distributed.layout import GradientLayout


class RowGradients(NamedTuple):
    """Rows of the gradient of a sparse parameter, one for each look-up: ids, of which
    one may come several times, and values.

    Those of several shards stand one after the other. An update sums the rows of an id
    in this order, which no number of ranks changes.

    >>> a = RowGradients.of([np.array([1, 4]), np.array([[1.0], [2.0]])])
    >>> b = RowGradients.of([np.array([[5.0], [6.0]])])
    >>> RowGradients.joined([a, b]).ids.tolist()
    [1, 4, 0, 1]
    """

    ids: Array
    values: Array

    @classmethod
    def of(cls, parts: Sequence[Array]) -> RowGradients:
        """The rows that arrays are: ids and values, or the values of all rows."""
        values = parts[-1]
        return cls(parts[0] if len(parts) > 1 else np.arange(len(values)), values)

    @classmethod
    def joined(cls, parts: Sequence[RowGradients]) -> RowGradients:
        """The rows of some shards, in their order."""
        if len(parts) == 1:
            return parts[0]
        ids = np.concatenate([x.ids for x in parts])
        return cls(ids, np.concatenate([x.values for x in parts]))


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
