"""Share: what some neighboring shards of a step have come to, and how shares add up."""

from __future__ import annotations

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
    parameter, which parameters were `used`, and buffers. A shard's are filled in."""

    count: int
    used: Array
    flat: dict[DType, Array]
    rows: dict[int, RowGradients]
    buffers: Buffers

    @classmethod
    def empty(cls, layout: GradientLayout, buffers: Buffers, count: int = 0) -> Share:
        """The share of `count` shards that have no gradients, and buffers of none."""
        used = np.zeros(len(layout.places), bool)
        return cls(count, used, layout.zeros(), {}, buffers)

    def plus(self, other: Share) -> Share:
        """The share of both. A parameter that one has not used counts as zeros there,
        so that the sum is made alike on every number of ranks."""
        rows = dict(self.rows)
        for k, more in other.rows.items():
            rows[k] = rows[k].plus(more) if k in rows else more
        flat = self.flat  # which is summed already where the other has none
        if other.flat:
            flat = {dtype: _added(x, other.flat[dtype]) for dtype, x in flat.items()}
        buffers = self.buffers.plus(other.buffers)
        used = self.used | other.used
        return Share(self.count + other.count, used, flat, rows, buffers)


def _added(a: Array, b: Array) -> Array:
    """a + b in the memory of a, that of a share that is added to nothing else."""
    with np.errstate(all="ignore"):
        return np.add(a, b, out=a)


class Sum:
    """The sum of shares in the order of `fixed.tree`, made as they come: it holds one
    for each level of the tree, not one for each shard.

    `levels` says how often pairs are made.
    """

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._waiting: list[tuple[int, Share]] = []

    def add(self, share: Share) -> None:
        """The share of the next shard."""
        level = 0
        while self._waiting and self._waiting[-1][0] == level:
            share = self._waiting.pop()[1].plus(share)
            level = min(level + 1, self._levels)
        self._waiting.append((level, share))

    def add_part(self, share: Share, dtype: DType, part: slice) -> Array:
        """Part of the sum of all, whose last one is this share, of which no more than
        this has to be there yet."""
        total = share.flat[dtype][part]
        for _, before in reversed(self._waiting):
            total = _added(before.flat[dtype][part], total)
        return total

    def take(self, last: Share) -> Share:
        """The sum of all, whose last one is this share: all parts of the flat arrays
        have been added. It begins anew."""
        total = last
        for _, before in reversed(self._waiting):
            total.flat = {}
            total = before.plus(total)
        self._waiting = []
        return total

    @property
    def count(self) -> int:
        """The shards with a loss so far."""
        return sum(share.count for _, share in self._waiting)

    def used(self, used: Array) -> Array:
        """The parameters that these shards use, or one of those before."""
        for _, share in self._waiting:
            used = used | share.used
        return used


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
