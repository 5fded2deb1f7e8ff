"""Which nodes of a run make up cells, though nobody has written a function for them.

A cell grows from a product of matrices, or from where several cells meet: a node joins
the cell that it reads if it reads nothing else but leaves and what that cell waits for
anyway. A product joins only what has done nothing but move its operands. So cells wait
for cells that began before them, never for each other, and those that were built by the
same steps come out alike. `grown` is how Python finds them; an engine may have a faster
way, with equal results.
"""

from __future__ import annotations

import numpy as np

from treadle.batch.columns import Numbers

__all__ = ["LEAF", "LONE", "MOVES", "PART", "PRODUCT", "RESULT", "SHARED", "grown"]

# What a node is: shared by all rows, with a value, a unit of its own, one of several
# results of another; what may be part of a cell, and computes nothing or something, and
# the one product that a cell may have.
SHARED, LEAF, LONE, RESULT, MOVES, PART, PRODUCT = range(7)
NODES, WAITS = 64, 8  # of a cell, at most: nodes, and cells that it waits for


def grown(starts: Numbers, operands: Numbers, roles: Numbers) -> Numbers:
    """The cell of each node, by a node of it; -1 for one that is in none.

    Nodes are in creation order; node k reads operands[starts[k] : starts[k + 1]].
    """
    growth = _Growth(roles.tolist())
    read, bounds = operands.tolist(), starts.tolist()
    for k in range(len(growth.roles)):
        growth.add(k, read[bounds[k] : bounds[k + 1]])
    growth.merge(read, bounds)
    return np.array(growth.cells(), np.int64)


class _Cell:
    """Nodes of which one reads the other; `open` to more."""

    def __init__(self, number: int, product: bool, waits: list[int]) -> None:
        self.number = number
        self.products = int(product)
        self.computes = False  # anything but its product
        self.count = 1
        self.level = 0  # products one after the other
        self.waits = waits
        self.open = False


class _Growth:
    """The cells so far; a node that is in none is one by itself, and not open."""

    def __init__(self, roles: list[int]) -> None:
        self.roles = roles
        self.own: list[int] = []  # the cell of each node
        self.made: dict[int, _Cell] = {}
        self.into: dict[int, int] = {}

    def add(self, k: int, read: list[int]) -> None:
        """Let a node join the cell it reads, or begin one."""
        role = self.roles[k]
        if role in (SHARED, LEAF):
            self.own.append(-1)
            return
        if role == RESULT and self.own[read[0]] >= 0:
            self.own.append(self.own[read[0]])
            self.made[self.own[k]].count += 1
            return
        waits = sorted({self.own[x] for x in read if self.own[x] >= 0})
        best = self.made[waits[-1]] if waits else None
        if best is not None and role >= MOVES and self._joins(best, k, waits, read):
            best.count += 1
            best.products += role == PRODUCT
            best.level += role == PRODUCT
            best.computes |= role == PART
            self.own.append(best.number)
            return
        few = len(waits) <= WAITS
        cell = self.made[k] = _Cell(k, role == PRODUCT, waits if few else [])
        cell.computes = role == PART
        cell.level = max((self.made[x].level for x in waits), default=0)
        cell.level += cell.products
        if few and role >= MOVES:
            further = best is not None and (
                len(waits) > 1 or best.open or self.roles[best.number] == LONE
            )
            cell.open = role == PRODUCT or further
        self.own.append(k)

    def _joins(self, cell: _Cell, k: int, waits: list[int], read: list[int]) -> bool:
        """Whether a node can be part of a cell: that waits for nothing more then, and
        for nothing that was made after it began.
        """
        if not cell.open or cell.count >= NODES:
            return False
        if self.roles[k] == PRODUCT and (cell.products or cell.computes):
            return False
        own = self.own
        return all(x == cell.number or self._awaits(cell, x) for x in waits) and all(
            own[x] in (-1, cell.number) or x < cell.number for x in read
        )

    def _awaits(self, cell: _Cell, number: int) -> bool:
        """Whether a cell waits for another one, or for one that does."""
        waits = cell.waits
        return number in waits or any(number in self.made[x].waits for x in waits)

    def merge(self, read: list[int], bounds: list[int]) -> None:
        """Let a cell that only one other reads be part of that, the deepest first."""
        readers: dict[int, int] = {}  # of a cell, if it is one; else -1
        for k, mine in enumerate(self.own):
            for x in read[bounds[k] : bounds[k + 1]] if mine >= 0 else ():
                other = self.own[x]
                if other not in (-1, mine):
                    known = readers.setdefault(other, mine)
                    readers[other] = known if known == mine else -1
        for cell in self.made.values():
            if not cell.open:
                continue
            fit = [
                x
                for x in map(self.made.__getitem__, cell.waits)
                if x.open
                and readers[x.number] == cell.number
                and x.products + cell.products <= 1
                and x.count + cell.count <= NODES
            ]
            if fit:
                deepest = max(fit, key=lambda x: (x.level, x.number))
                self.into[deepest.number] = cell.number
                cell.count += deepest.count
                cell.products += deepest.products

    def cells(self) -> list[int]:
        """The cell of each node, if it has several and could grow."""
        last: dict[int, int] = {}
        for number in reversed(self.made):
            into = self.into.get(number)
            last[number] = number if into is None else last[into]
        found = []
        for mine in self.own:
            whole = last.get(mine, -1)
            cell = self.made.get(whole)
            grew = cell is not None and cell.open and cell.count > 1
            found.append(whole if grew else -1)
        return found
