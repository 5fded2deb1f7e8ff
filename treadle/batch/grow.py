"""Which nodes of a run make up cells, though nobody has written a function for them.

A cell grows from a product of matrices, or from where several cells meet: a node joins
the cell that it reads if it reads nothing else but leaves and what that cell waits for
anyway. A product joins only what has done nothing but move its operands. So cells wait
for cells that began before them, never for each other, and those that were built by the
same steps come out alike.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

import numpy as np

from treadle.base.routine import Compile, Numbers, interpreted, room, routine

__all__ = [
    "ENDS",
    "LEAF",
    "LONE",
    "MOVES",
    "NODES",
    "PART",
    "PRODUCT",
    "RESULT",
    "SHARED",
    "grown",
]

# What a node is: shared by all rows, with a value, a unit of its own, one of several
# results of another; what may be part of a cell, and computes nothing or something, and
# the one product that a cell may have.
SHARED, LEAF, LONE, RESULT, MOVES, PART, PRODUCT = range(7)
# Added to that: it is not read in its own cell, as somebody may derive by it.
ENDS = 8
NODES = 64  # of a cell, at most,
WAITS = 8  # and cells that it waits for
MOST = WAITS + 1  # cells that a node can read and join one of them
FIRST = 1 << 12  # nodes there is room for at first
NONE = -1
UNREAD = -2  # of a cell: no other has read it yet


@dataclass(frozen=True)
class Growth:
    """The nodes of a run, in creation order, and the cells that they make up.

    Node k reads operands[starts[k] : starts[k + 1]] and is in the cell own[k], if in
    any. Cells are numbered in the order of the nodes that they began with. One that is
    `open` may grow; `level` counts the products one after the other up to it. It
    waits for `waiting` others, in order from waits[number * WAITS] on.
    """

    starts: Numbers
    operands: Numbers
    roles: Numbers
    own: Numbers
    began: Numbers
    open: Numbers
    products: Numbers  # it has
    computes: Numbers  # whether it does anything but its product
    ends: Numbers  # whether it has a node that is not read in it
    sizes: Numbers  # in nodes
    level: Numbers
    waiting: Numbers
    waits: Numbers
    reader: Numbers  # the only other that reads it; NONE if there are several
    into: Numbers  # the one that it has become part of


class _Own(threading.local):
    """The memory of a thread for growing cells: fresh pages cost as much as they."""

    def __init__(self) -> None:
        self.arrays: list[Numbers] = []
        self.make(FIRST)

    def make(self, nodes: int) -> None:
        """Have room for so many nodes."""
        sizes = [WAITS * nodes if name == "waits" else nodes for name in _GROWN]
        self.arrays = [np.empty(size, np.int64) for size in sizes]


_GROWN = [f.name for f in fields(Growth)][4:]  # what is known of cells
_own = _Own()


def grown(
    starts: Numbers, operands: Numbers, roles: Numbers, compiled: Compile = interpreted
) -> Numbers:
    """The cell of each node, by a node of it; -1 for one that is in none.

    Nodes are in creation order; node k reads operands[starts[k] : starts[k + 1]].
    """
    count = len(roles)
    if len(_own.arrays[0]) < count:
        _own.make(2 * count)
    own = np.empty(count, np.int64)
    growth = Growth(starts, operands, roles, own, *_own.arrays)
    compiled(grow)(growth, count)
    return own


@routine
def grow(g: Growth, nodes: int) -> None:
    """Find the cells; `own` has a node of each then. What has not grown is none."""
    cells = _begin_and_join(g, nodes)
    _note_readers(g, nodes)
    _merge(g, cells)
    for cell in range(cells - 1, -1, -1):
        into = g.into[cell]
        if into >= 0:
            g.began[cell] = g.began[into]
        elif not g.open[cell] or g.sizes[cell] == 1:
            g.began[cell] = NONE
    for k in range(nodes):
        if g.own[k] >= 0:
            g.own[k] = g.began[g.own[k]]


@routine
def _begin_and_join(g: Growth, nodes: int) -> int:
    """Let each node join the cell that it reads, or begin one; how many there are."""
    own, roles = g.own, g.roles
    waits = room(MOST + 1)
    cells = 0
    for k in range(nodes):
        role, first, last = roles[k] & ENDS - 1, g.starts[k], g.starts[k + 1]
        if role <= LEAF:
            own[k] = NONE
            continue
        if role == RESULT and own[g.operands[first]] >= 0:
            own[k] = own[g.operands[first]]
            g.sizes[own[k]] += 1
            g.ends[own[k]] |= roles[k] & ENDS
            continue
        count, best, level = 0, NONE, 0
        for j in range(first, last):
            cell = own[g.operands[j]]
            if cell >= 0:
                best = max(best, cell)
                level = max(level, g.level[cell])
                count = _insert(waits, count, cell)
        product = int(role == PRODUCT)
        if _joins(g, best, role, waits, count, first, last):
            g.sizes[best] += 1
            g.products[best] += product
            g.level[best] += product
            g.computes[best] |= int(role == PART)
            g.ends[best] |= roles[k] & ENDS
            own[k] = best
            continue
        own[k] = cells
        g.began[cells] = k
        g.sizes[cells] = 1
        g.products[cells] = product
        g.level[cells] = level + product
        g.computes[cells] = int(role == PART)
        g.ends[cells] = roles[k] & ENDS
        g.open[cells] = int(_opens(g, best, role, count))
        g.waiting[cells] = count if count <= WAITS else 0
        for j in range(g.waiting[cells]):
            g.waits[cells * WAITS + j] = waits[j]
        g.reader[cells] = UNREAD
        g.into[cells] = NONE
        cells += 1
    return cells


@routine
def _insert(numbers: Numbers, count: int, x: int) -> int:
    """Put a number into a sorted list of different ones; how many there are then. Of
    more than MOST it only matters that they are too many.
    """
    place = 0
    while place < count and numbers[place] < x:
        place += 1
    if count > MOST or (place < count and numbers[place] == x):
        return count
    for k in range(count, place, -1):
        numbers[k] = numbers[k - 1]
    numbers[place] = x
    return count + 1


@routine
def _opens(g: Growth, best: int, role: int, count: int) -> bool:
    """Whether a cell that a node begins may grow: it goes on from where others end."""
    if count > WAITS or role < MOVES:
        return False
    if role == PRODUCT or count > 1:
        return True
    return count == 1 and (
        g.open[best] != 0 or g.roles[g.began[best]] & ENDS - 1 == LONE
    )


@routine
def _joins(
    g: Growth, cell: int, role: int, waits: Numbers, count: int, first: int, last: int
) -> bool:
    """Whether a node can be part of a cell: that waits for nothing more then, and for
    nothing that was made after it began.
    """
    if cell < 0 or role < MOVES or not g.open[cell] or count > MOST:
        return False
    if g.sizes[cell] >= NODES:
        return False
    if role == PRODUCT and (g.products[cell] > 0 or g.computes[cell] != 0):
        return False
    for k in range(count):
        if waits[k] != cell and not _awaits(g, cell, waits[k]):
            return False
    for j in range(first, last):
        x = g.operands[j]
        if g.own[x] == cell and g.roles[x] >= ENDS:
            return False
        if g.own[x] >= 0 and g.own[x] != cell and x >= g.began[cell]:
            return False
    return True


@routine
def _awaits(g: Growth, cell: int, other: int) -> bool:
    """Whether a cell waits for another one, or for one that does."""
    if _waits(g, cell, other):
        return True
    for k in range(cell * WAITS, cell * WAITS + g.waiting[cell]):
        if _waits(g, g.waits[k], other):
            return True
    return False


@routine
def _waits(g: Growth, cell: int, other: int) -> bool:
    for k in range(cell * WAITS, cell * WAITS + g.waiting[cell]):
        if g.waits[k] == other:
            return True
    return False


@routine
def _note_readers(g: Growth, nodes: int) -> None:
    """Note the only other cell that reads each."""
    for k in range(nodes):
        mine = g.own[k]
        if mine < 0:
            continue
        for j in range(g.starts[k], g.starts[k + 1]):
            cell = g.own[g.operands[j]]
            if cell >= 0 and cell != mine:
                known = g.reader[cell]
                g.reader[cell] = mine if known in (UNREAD, mine) else NONE


@routine
def _merge(g: Growth, cells: int) -> None:
    """Let a cell that only one other reads be part of that, the deepest first."""
    for cell in range(cells):
        if not g.open[cell]:
            continue
        best, level = NONE, NONE
        for k in range(cell * WAITS, cell * WAITS + g.waiting[cell]):
            x = g.waits[k]
            if (
                g.open[x] != 0
                and g.ends[x] == 0
                and g.reader[x] == cell
                and g.products[x] + g.products[cell] <= 1
                and g.sizes[x] + g.sizes[cell] <= NODES
                and g.level[x] >= level
            ):
                best, level = x, g.level[x]
        if best >= 0:
            g.into[best] = cell
            g.products[cell] += g.products[best]
            g.sizes[cell] += g.sizes[best]
