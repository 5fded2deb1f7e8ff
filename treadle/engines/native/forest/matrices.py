"""Matrices of row values: one for each value, rows one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from treadle.base.arrays import Array, Numbers
from treadle.base.caches import lazy
from treadle.base.options import current
from treadle.base.types import Type
from treadle.batch.units import LeafView, Leaves
from treadle.engines.native.execution.run import memory_of
from treadle.engines.native.execution.tables import addresses_of, memory_under, straight
from treadle.engines.native.forest.bases import Addresses
from treadle.engines.native.forest.moves import adds

LINE = 64
WIDEST = 16  # bytes of one element
Place = tuple[str, int]  # a source, as `Template` names them


def memory(size: int) -> tuple[Array, int]:
    """Bytes that nobody has written yet, and where they begin.

    They come back when the array dies. Powers of two are taken, so that what one
    minibatch has had does for the next one: pages never written to cost nothing. What
    is not enough for a larger one grows.
    """
    step = 1 << max(size.bit_length() - 1, 12)
    results = memory_of(current().arena).results
    return results.lend([-(-max(size, 1) // step) * step], np.uint8, loose=True)


class Read:
    """Values that rows read and no row makes: which of them have an array each, and
    which lie inside another one.
    """

    def __init__(self, leaves: Leaves, views: Sequence[LeafView]) -> None:
        self.views = views
        self.count = len(leaves)
        inside = {view.leaf for view in views}
        self.whole = [k for k in range(self.count) if k not in inside]
        self.most = max((t.nbytes for t, _ in leaves.types), default=0)
        # Those that a derivative can be taken by, with their types.
        added = [(t, places.tolist()) for t, places in leaves.types if adds(t.dtype)]
        self.floats = [(k, t) for t, places in added for k in places if k not in inside]
        # All but ids, of which there are most. A single element lies in one piece.
        place = dict(zip(self.whole, range(self.count), strict=False))
        wide = [
            places for t, places in leaves.types if t.nbytes > WIDEST or adds(t.dtype)
        ]
        every = [k for places in wide for k in places.tolist()]
        self.wide = [place[k] for k in every if k not in inside]

    def addresses(self, arrays: Sequence[Array]) -> tuple[Numbers, list[Any]]:
        """The addresses of values, and the objects to keep alive; arrays of `whole`.

        Of what may be the value of a Variable that is the memory, not the array.
        """
        arrays = list(arrays)
        for k in self.wide:
            arrays[k] = straight(arrays[k])
        kept: list[Any] = arrays.copy()
        for k in self.wide:
            kept[k] = memory_under(arrays[k])
        if not self.views:  # all are whole
            return addresses_of(arrays), kept
        addresses = np.zeros(self.count, np.int64)
        addresses[self.whole] = addresses_of(arrays)
        self.place_views(addresses)
        return addresses, kept

    def blocks(self, first: int) -> Addresses:
        """The blocks of the leaves, of which those not inside others have their own;
        one numbered -k stands k-th from the end."""
        numbers, offsets = first + np.arange(self.count), np.zeros(self.count, np.int64)
        for view in self.views:
            numbers[view.leaf] = numbers[view.of]
            offsets[view.leaf] = offsets[view.of] + view.offset
        return Addresses(numbers[::-1], offsets[::-1])

    def place_views(self, addresses: Numbers) -> None:
        """Fill in where parts lie, from where that lies which they are part of."""
        for view in self.views:
            addresses[view.leaf] = addresses[view.of] + view.offset


class MatrixPlan:
    """Which matrices lie in one block: of each whose rows they are, the source that it
    has, and the type of a row. `base` stands for where the block will be."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.places: dict[tuple[int, Place], int] = {}
        self.types: list[Type] = []

    def add(self, number: int, place: Place, type_: Type) -> None:
        """A matrix of the rows of an instance."""
        self.places[number, place] = len(self.types)
        self.types.append(type_)

    @lazy
    def sizes(self) -> list[tuple[int, int]]:
        """Whose rows they are, and the bytes of one."""
        every = zip(self.places, self.types, strict=True)
        return [(number, t.nbytes) for (number, _), t in every]


class Matrices:
    """The matrices of a plan, one after the other, for `rows` of each instance.

    A matrix has room for some rows more, which are zeros: sums over rows are taken of
    few different numbers of them.
    """

    def __init__(
        self, plan: MatrixPlan, rows: Sequence[int], room: Sequence[int]
    ) -> None:
        self.plan, self.base, self.rows = plan, plan.base, rows
        self._room = room
        sizes = [-(-self._room[k] * n // LINE) * LINE for k, n in plan.sizes]
        self.offsets = [0, *accumulate(sizes)]
        self.size = self.offsets.pop()

    def find(self, number: int, place: Place) -> tuple[Type, int]:
        """The type of a row of a matrix, and where that begins in the block."""
        at = self.plan.places[number, place]
        return self.plan.types[at], self.offsets[at]

    @lazy
    def addresses(self) -> Numbers:
        """The addresses of all, as places of a family."""
        return np.array(self.offsets, np.int64) + self.base

    @lazy
    def unused(self) -> list[tuple[int, int]]:
        """The bounds of the rows that there is room for and that are none: when all are
        there."""
        rows, room = self.rows, self._room
        return [
            (offset + rows[k] * n, offset + room[k] * n)
            for offset, (k, n) in zip(self.offsets, self.plan.sizes, strict=True)
            if room[k] > rows[k]
        ]


class MatrixMemory:
    """The memory of some matrices in one run."""

    def __init__(self, matrices: Matrices, bytes: Array, address: int) -> None:
        self.matrices = matrices
        self.bytes, self.address = bytes, address

    def array(self, number: int, place: Place) -> Array:
        """A matrix as an array, over this memory."""
        t, start = self.matrices.find(number, place)
        rows = self.matrices.rows[number]
        raw = self.bytes[start : start + rows * t.nbytes]
        return raw.view(t.dtype).reshape(rows, *t.shape)


def blocks(
    zeros: Sequence[Matrices], others: Sequence[Matrices], more: Sequence[int] = ()
) -> tuple[list[MatrixMemory], list[int]]:
    """Memory for matrices, of zeros or of whatever there is, in one piece; and where so
    many bytes more begin each, which are there as long as a block is.
    """
    every = [*zeros, *others]
    sizes = [aligned(x) for x in (*(m.size for m in every), *more)]
    starts = [0, *accumulate(sizes)]
    bytes, address = memory(starts[-1])
    bytes[: starts[len(zeros)]] = 0
    placed = []
    for m, start in zip(every, starts, strict=False):
        placed.append(MatrixMemory(m, bytes[start : start + m.size], address + start))
    for m, start in zip(others, starts[len(zeros) :], strict=False):
        for begin, end in m.unused:
            bytes[start + begin : start + end] = 0
    return placed, [address + start for start in starts[len(every) : -1]]


def aligned(size: Any) -> Any:
    """So many bytes, and as many more as the next matrix needs to begin with a line.

    >>> aligned(65)
    128
    """
    return (size + (LINE - 1)) & -LINE
