"""The nodes of the cells of a run, and which cells do the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.base.arrays import Marks, Numbers
from treadle.batch.grow import ENDS, RESULT, grown
from treadle.core import native

# What an operand of a node in a cell is: a node of the cell, a row that the cell reads,
# or something that all cells share.
INSIDE, ROW, SHARES = range(3)
LEAST = 4  # cells that do the same, or they are no kind


@dataclass(frozen=True)
class CellGraph:
    """The nodes of a run, in creation order, as far as cells are concerned.

    Node k reads operands[starts[k] : starts[k + 1]]. `roles` are those of `grow.py`,
    `shares` has a number for what is shared, -1 for what is not; nodes of one number in
    `codes` do the same, those of one in `types` have one type; `references` counts what
    refers to a node.
    """

    starts: Numbers
    operands: Numbers
    roles: Numbers
    shares: Numbers
    codes: Numbers
    types: Numbers
    references: Numbers

    def read(self, k: int) -> Numbers:
        """The operands of a node."""
        return self.operands[self.starts[k] : self.starts[k + 1]]


@dataclass(frozen=True)
class Members:
    """Cells in the order of the nodes that they go by (`began`).

    Cell c has nodes[starts[c] : starts[c + 1]]. Their operands, in order, are what is
    inside, what is shared, or one of rows[opens[c] : opens[c + 1]]. It does what all
    cells of its kind do, which may read a row twice where another one reads two. `seen`
    marks the nodes of the run that others than those of their cell read, or hold.
    """

    began: Numbers
    starts: Numbers
    nodes: Numbers
    opens: Numbers
    rows: Numbers
    kinds: Numbers
    seen: Marks

    def inside(self, cells: Numbers) -> Numbers:
        """The nodes of cells of one kind, a row each."""
        return self.nodes[_ranges(self.starts, cells)]

    def read(self, cells: Numbers) -> Numbers:
        """The rows that cells of one kind read, operand by operand, a row a cell."""
        return self.rows[_ranges(self.opens, cells)]


def _ranges(starts: Numbers, cells: Numbers) -> Numbers:
    first = int(cells[0])
    return starts[cells][:, None] + np.arange(starts[first + 1] - starts[first])


def members_of(graph: CellGraph) -> Members:
    """The cells of a graph."""
    cells = grown(graph.starts, graph.operands, graph.roles)
    members = _members(graph, cells)
    shorter = _shortened(graph, members, cells)
    if shorter is None:
        return members
    others = _members(graph, shorter)
    return others if _alike(others).sum() > _alike(members).sum() else members


def _members(graph: CellGraph, cells: Numbers) -> Members:
    if native is None:
        return _Found(graph, cells.tolist()).members()
    columns = graph.starts, graph.operands, graph.shares, graph.codes
    return Members(*native.members(*columns, graph.types, graph.references, cells))


def _alike(members: Members) -> Marks:
    """The cells that others do the same as."""
    return np.bincount(members.kinds)[members.kinds] >= LEAST


def _shortened(graph: CellGraph, members: Members, cells: Numbers) -> Numbers | None:
    """The cell of each node, where odd cells are without their last node if others are
    as long then: what a total begins with (0 + loss) joins the first cell alone.
    """
    if not len(members.kinds):
        return None
    alike, sizes = _alike(members), np.diff(members.starts)
    last = members.nodes[members.starts[1:] - 1]
    known = np.zeros(int(sizes.max()) + 1, np.bool_)
    known[sizes[alike]] = True
    odd = ~alike & (last != members.began) & known[sizes - 1]
    odd &= graph.roles[last] & ENDS - 1 != RESULT  # which stays with what has several
    if not odd.any():
        return None
    shorter = cells.copy()
    shorter[last[odd]] = -1
    return shorter


class _Found:
    """The search for members in Python, with kinds by what they do word for word."""

    def __init__(self, graph: CellGraph, cells: list[int]) -> None:
        self.cell_of = cells
        starts, operands = graph.starts.tolist(), graph.operands.tolist()
        self.read = [operands[a:b] for a, b in pairwise(starts)]
        self.shares, self.types = graph.shares.tolist(), graph.types.tolist()
        self.codes, self.references = graph.codes.tolist(), graph.references.tolist()
        self.cells: dict[int, list[int]] = {}
        for k, cell in enumerate(cells):
            if cell >= 0:
                self.cells.setdefault(cell, []).append(k)
        self.cells = dict(sorted(self.cells.items()))
        every = self.cells.values()
        self.place = {k: at for nodes in every for at, k in enumerate(nodes)}

    def members(self) -> Members:
        rows: list[int] = []
        known: dict[tuple[int, ...], int] = {}
        kinds, opens, starts = [], [0], [0]
        for began, nodes in self.cells.items():
            words = self._words(began, nodes, rows)
            kinds.append(known.setdefault(words, len(known)))
            opens.append(len(rows))
            starts.append(starts[-1] + len(nodes))
        nodes = [k for members in self.cells.values() for k in members]
        numbers = list(self.cells), starts, nodes, opens, rows, kinds
        columns: list[Any] = [np.array(x, np.int64) for x in numbers]
        columns.append(np.array(self._seen(), np.bool_))
        return Members(*columns)

    def _words(self, began: int, nodes: list[int], rows: list[int]) -> tuple[int, ...]:
        """The signature of a cell in words; the rows that it reads are added to
        others."""
        words = [self.place[began]]
        for k in nodes:
            words += self.codes[k], len(self.read[k])
            for x in self.read[k]:
                if self.shares[x] >= 0:
                    words += SHARES, self.shares[x], self.types[x]
                elif self.cell_of[x] == began:
                    words += INSIDE, self.place[x], self.types[x]
                else:
                    words += ROW, 0, self.types[x]
                    rows.append(x)
        return tuple(words)

    def _seen(self) -> list[bool]:
        """Return True if others read a node than its own cell, or hold it."""
        times = Counter(x for read in self.read for x in read)
        seen = [not times[k] or n > times[k] for k, n in enumerate(self.references)]
        for k, read in enumerate(self.read):
            for x in read:
                seen[x] |= self.cell_of[x] != self.cell_of[k]
        return seen
