"""Inference of cells: groups of nodes that repeat, without a function around them.

A cell grows from a product of matrices, or from where several cells meet: a node joins
the cell that it reads if it reads nothing else but leaves and what that cell waits for
anyway. A product joins only what has done nothing but move its operands. So cells wait
for cells that began before them, never for each other, and those that were built by the
same steps come out alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from treadle.base.arrays import Numbers
from treadle.core import native

# What a node is: shared by all rows, with a value, a unit of its own, one of several
# results of another; what may be part of a cell, and computes nothing or something, and
# the one product that a cell may have.
SHARED, LEAF, LONE, RESULT, MOVES, PART, PRODUCT = range(7)
# Added to that: it is not read in its own cell, as somebody may derive by it.
ENDS = 8
NODES = 64  # of a cell, at most,
WAITS = 8  # and cells that it waits for


def grown(starts: Numbers, operands: Numbers, roles: Numbers) -> Numbers:
    """The cell of each node, by a node of it; -1 for one that is in none.

    Nodes are in creation order; node k reads operands[starts[k] : starts[k + 1]].
    """
    if native is not None:
        return native.grown(starts, operands, roles)
    ends = starts.tolist()
    every = operands.tolist()
    read = [every[a:b] for a, b in pairwise(ends)]
    return np.array(_Growth(read, roles.tolist()).grow(), np.int64)


@dataclass(eq=False)
class _Cell:
    """A cell. One that is `open` may grow; `level` counts the products one after the
    other up to it.
    """

    began: int
    products: int
    level: int
    computes: bool  # whether it does anything but its product
    ends: bool  # whether it has a node that is not read in it
    opens: bool
    waits: list[_Cell]
    size: int = 1  # in nodes
    readers: set[int] = field(default_factory=set)  # others, by where they began
    into: _Cell | None = None  # the one that it has become part of


class _Growth:
    """The nodes of a run, in creation order, and the cells that they make up."""

    def __init__(self, read: Sequence[Sequence[int]], roles: Sequence[int]) -> None:
        self.read, self.roles = read, roles
        self.cell_of: list[_Cell | None] = []
        self.cells: list[_Cell] = []

    def grow(self) -> list[int]:
        """Find the cells; a node of each, by nodes. What has not grown is none."""
        for k, role in enumerate(self.roles):
            self.cell_of.append(self._place(k, role & ENDS - 1, role >= ENDS))
        for mine, read in zip(self.cell_of, self.read, strict=True):
            for cell in self._of(read) if mine is not None else ():
                if cell is not mine:
                    cell.readers.add(mine.began)  # type: ignore[union-attr]
        totals = self._totals()
        for cell in self.cells:
            self._merge(cell, cell.began in totals)
        for cell in reversed(self.cells):
            if cell.into is not None:
                cell.began = cell.into.began
            elif not cell.opens or cell.size == 1:
                cell.began = -1
        return [-1 if cell is None else cell.began for cell in self.cell_of]

    def _of(self, nodes: Iterable[int]) -> list[_Cell]:
        cells = [self.cell_of[x] for x in nodes]
        return [cell for cell in cells if cell is not None]

    def _place(self, k: int, role: int, ends: bool) -> _Cell | None:
        """The cell of a node: one that it joins, or begins."""
        if role <= LEAF:
            return None
        cells = {cell.began: cell for cell in self._of(self.read[k])}
        waits = [cells[began] for began in sorted(cells)]
        if role == RESULT and self.cell_of[self.read[k][0]] is not None:
            cell = self.cell_of[self.read[k][0]]
            assert cell is not None
            cell.size += 1
            cell.ends |= ends
            return cell
        product = int(role == PRODUCT)
        if waits and self._joins(waits[-1], role, waits, k):
            cell = waits[-1]
            cell.size += 1
            cell.products += product
            cell.level += product
            cell.computes |= role == PART
            cell.ends |= ends
            return cell
        level = max((cell.level for cell in waits), default=0) + product
        known = waits if len(waits) <= WAITS else []
        opens = self._opens(role, waits)
        cell = _Cell(k, product, level, role == PART, ends, opens, known)
        self.cells.append(cell)
        return cell

    def _opens(self, role: int, waits: Sequence[_Cell]) -> bool:
        """Return True if a cell that a node begins may grow: it goes on from where
        others end."""
        if len(waits) > WAITS or role < MOVES:
            return False
        if role == PRODUCT or len(waits) > 1:
            return True
        return len(waits) == 1 and (
            waits[0].opens or self.roles[waits[0].began] & ENDS - 1 == LONE
        )

    def _joins(self, cell: _Cell, role: int, waits: Sequence[_Cell], k: int) -> bool:
        """Return True if a node can be part of a cell: that waits for nothing more
        then, and for nothing that was made after it began."""
        if role < MOVES or not cell.opens or len(waits) > WAITS + 1:
            return False
        if cell.size >= NODES:
            return False
        if role == PRODUCT and (cell.products or cell.computes):
            return False
        awaited = _awaited(cell)
        if any(x is not cell and x not in awaited for x in waits):
            return False
        for x in self.read[k]:
            other = self.cell_of[x]
            if other is cell and self.roles[x] >= ENDS:
                return False
            if other is not None and other is not cell and x >= cell.began:
                return False
        return True

    def _totals(self) -> set[int]:
        """The cells that make a total: without a product, they go on from one that is
        like them, at their level, for which a cell with a product, that fits, does not
        wait. That is no part of them, or one such cell would wait for the other.
        """
        totals: set[int] = set()
        multiply: set[int] = set()  # with what may be part of them
        for cell in self.cells:
            fits = [x for x in cell.waits if cell.opens and _fits(x, cell)]
            added = [x for x in fits if x.began in multiply]
            if cell.products or added:
                multiply.add(cell.began)
            like = cell.level, cell.size, len(cell.waits)
            for y in cell.waits if added and not cell.products else ():
                if y.products or (y.level, y.size, len(y.waits)) != like:
                    continue
                if any(x is not y and y not in _awaited(x) for x in added):
                    totals |= {cell.began, y.began}
        return totals

    def _merge(self, cell: _Cell, is_total: bool) -> None:
        """Let a cell that only this one reads be part of it, the deepest first."""
        best = None
        for x in cell.waits if cell.opens else ():
            fits = _fits(x, cell) and not (is_total and x.products)
            if fits and (best is None or x.level >= best.level):
                best = x
        if best is not None:
            best.into = cell
            cell.products += best.products
            cell.size += best.size


def _awaited(cell: _Cell) -> list[_Cell]:
    """The cells that one waits for, and that these wait for."""
    return [*cell.waits, *(x for one in cell.waits for x in one.waits)]


def _fits(x: _Cell, cell: _Cell) -> bool:
    """Return True if a cell may be part of another one, which alone reads it."""
    fits = x.products + cell.products <= 1 and x.size + cell.size <= NODES
    return fits and x.opens and not x.ends and x.readers == {cell.began}
