"""The nodes of cells as numbers: what each does to which operands, cell by cell."""

from __future__ import annotations

import numpy as np

from treadle.batch.columns import Marks, Numbers, grouped, order_of, split
from treadle.batch.kinds import Ops
from treadle.batch.walk import Walk

__all__ = ["INSIDE", "ROW", "SHARES", "Members"]

# An operand is a number of one of three kinds: the place of a node in its cell, a row,
# by its place among those that the cell reads in the order it does, or what is shared.
INSIDE, ROW, SHARES = range(3)


class Members:
    """Cells, each a number, and what has one entry for each of their nodes (`nodes`),
    of the operands of these (`read`), and of the rows that the cells read (`rows`).

    `began` has the node that a cell goes by. The nodes of a cell are in creation order.
    """

    def __init__(self, walk: Walk, owner: Numbers, shares: Numbers) -> None:
        """`owner` has the cell of a node, by the node it goes by, or -1; `shares` a
        number for what nodes share, -1 for what may be a row.
        """
        self.walk = walk
        count = len(owner)
        (inside,) = np.nonzero(owner >= 0)
        (self.began,) = np.nonzero(np.bincount(owner[inside], minlength=count))
        cell = np.zeros(count, np.int64)
        cell[self.began] = np.arange(len(self.began))
        order = order_of(cell[owner[inside]])
        self.nodes = inside[order]
        self.cell = cell[owner[self.nodes]]
        self._nodes = _Parts(self.cell, len(self.began))
        self.place = np.zeros(count, np.int64)
        self.place[self.nodes] = self._nodes.numbers(self.cell)
        sizes = walk.sizes[self.nodes]
        places = np.arange(int(sizes.sum())) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        self.read = walk.operands[np.repeat(walk.starts[self.nodes], sizes) + places]
        self.kinds, self.operands = self._operands(
            np.repeat(self.cell, sizes), owner, shares
        )
        self.seen = self._seen(owner)

    def _operands(
        self, reader: Numbers, owner: Numbers, shares: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Of each operand: of which kind its number is, and the number."""
        read, cells = self.read, len(self.began)
        self._read = _Parts(reader, cells)
        shared = shares[read]
        inside = (owner[read] == self.began[reader]) & (shared < 0)
        (rows,) = np.nonzero(~inside & (shared < 0))
        values = reader[rows] * len(owner) + read[rows]
        order = np.argsort(values, kind="stable")
        new = np.diff(values[order], prepend=-1) != 0
        comes = order[new]  # where each is read first
        turn = np.argsort(comes)
        self.rows = read[rows[comes[turn]]]
        own = reader[rows[comes[turn]]]
        self._rows = _Parts(own, cells)
        number = np.empty(len(turn), np.int64)
        number[turn] = self._rows.numbers(own)
        which = np.empty(len(rows), np.int64)
        which[order] = number[np.cumsum(new) - 1]
        kinds = np.where(inside, INSIDE, SHARES)
        operands = np.where(inside, self.place[read], shared)
        kinds[rows], operands[rows] = ROW, which
        return kinds, operands

    def _seen(self, owner: Numbers) -> Marks:
        """The nodes of the walk that others than those of their cell read, or hold."""
        walk = self.walk
        readers = np.repeat(owner, walk.sizes)
        read = np.bincount(walk.operands, minlength=len(owner))
        seen = (read == 0) | (walk.found.references > read)
        seen[walk.operands[owner[walk.operands] != readers]] = True
        return seen

    def alike(self, ops: Ops) -> list[Numbers]:
        """The cells in lists of those that do the same."""
        found: list[Numbers] = []
        of_nodes = _codes(ops.sign, ops.position, self.walk.sizes)[self.nodes]
        of_read = _codes(self.kinds, self.operands, self.walk.types(self.read))
        shape = _codes(self._nodes.counts, self._read.counts, self._rows.counts)
        began = self.place[self.began][:, None]
        for cells in grouped(np.arange(len(shape)), shape):
            nodes, read = self._nodes.of(cells), self._read.of(cells)
            keys = [began[cells], of_nodes[nodes], of_read[read]]
            found += [cells[x] for x in split(np.concatenate(keys, 1))]
        return found

    def inside(self, cells: Numbers) -> Numbers:
        """The nodes of cells that are alike, a row each."""
        return self.nodes[self._nodes.of(cells)]

    def reads(self, cells: Numbers) -> Numbers:
        """The rows that cells read which are alike, a row each."""
        return self.rows[self._rows.of(cells)]

    def edges(self, cell: int) -> list[tuple[int, int, int]]:
        """The operands of the nodes of a cell, one after the other: the kind of each,
        its number, and its place in the walk.
        """
        own = self._read.of(np.array([cell]))[0]
        columns = self.kinds[own], self.operands[own], self.read[own]
        return list(zip(*[x.tolist() for x in columns], strict=True))


def _codes(*columns: Numbers) -> Numbers:
    """A number for each row of some columns, of numbers that are not negative."""
    found, *others = columns
    for x in others:
        found = found * (int(x.max(initial=0)) + 1) + x
    return found


class _Parts:
    """Things in order of their cells: how many each has, and from where on."""

    def __init__(self, cell: Numbers, cells: int) -> None:
        self.counts = np.bincount(cell, minlength=cells)
        self.starts = np.cumsum(self.counts) - self.counts

    def numbers(self, cell: Numbers) -> Numbers:
        """The place of each thing among those of its cell."""
        found: Numbers = np.arange(len(cell)) - self.starts[cell]
        return found

    def of(self, cells: Numbers) -> Numbers:
        """Where the things of cells are that have as many each, a row a cell."""
        found: Numbers = self.starts[cells][:, None] + np.arange(self.counts[cells[0]])
        return found
