"""The nodes of the cells of a run, and which cells do the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.base.routine import Compile, Marks, Numbers, interpreted, mixed, routine
from treadle.batch.grow import grown

__all__ = ["INSIDE", "ROW", "SHARES", "Graph", "Members", "members_of"]

# What an operand of a node in a cell is: a node of the cell, a row that the cell reads,
# or something that all cells share.
INSIDE, ROW, SHARES = range(3)


@dataclass(frozen=True)
class Graph:
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
        """What a node reads."""
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
        """What cells of one kind read as rows, operand by operand, a row a cell."""
        return self.rows[_ranges(self.opens, cells)]


def _ranges(starts: Numbers, cells: Numbers) -> Numbers:
    first = int(cells[0])
    found: Numbers = starts[cells][:, None] + np.arange(
        starts[first + 1] - starts[first]
    )
    return found


@dataclass(frozen=True)
class Cells:
    """What is worked out on the way: the cell of each node as `grow.py` has it, its
    number at the node that it goes by, the place of each node in its cell, and how
    often each node is read.
    """

    own: Numbers
    numbers: Numbers
    places: Numbers
    times: Numbers


@dataclass(frozen=True)
class Keys:
    """What the kinds of cells do, in words: words[starts[kind] : starts[kind + 1]].

    `slots` are a hash table of kinds, one more than each; zero is free.
    """

    words: Numbers
    starts: Numbers
    hashes: Numbers
    slots: Numbers


def members_of(graph: Graph, compiled: Compile = interpreted) -> Members:
    """The cells of a graph."""
    count, edges = len(graph.roles), len(graph.operands)
    own = grown(graph.starts, graph.operands, graph.roles, compiled)
    cells = Cells(own, *np.zeros((3, count), np.int64))
    sizes = count, count + 1, count, count + 1, edges, count
    began, starts, nodes, opens, rows, kinds = map(_room, sizes)
    seen = np.zeros(count, np.bool_)
    found = Members(began, starts, nodes, opens, rows, kinds, seen)
    made = compiled(gather)(cells, found, count)
    compiled(look)(graph, cells, seen, count)
    words, slots = 3 * (count + edges), 1 << (2 * made).bit_length()
    free = np.zeros(slots, np.int64)
    keys = Keys(_room(words), _room(count + 1), _room(count), free)
    compiled(tell)(graph, cells, found, keys, made, slots - 1)
    return Members(
        began[:made],
        starts[: made + 1],
        nodes[: starts[made]],
        opens[: made + 1],
        rows[: opens[made]],
        kinds[:made],
        seen,
    )


def _room(count: int) -> Numbers:
    return np.empty(count, np.int64)


@routine
def gather(cells: Cells, found: Members, nodes: int) -> int:
    """Put the nodes into their cells; how many cells there are."""
    own, numbers, fill = cells.own, cells.numbers, found.kinds
    for k in range(nodes):
        if own[k] >= 0:
            numbers[own[k]] += 1
    made, first = 0, 0
    for k in range(nodes):
        size = numbers[k]
        if size > 0:
            found.began[made] = k
            found.starts[made] = first
            fill[made] = first
            numbers[k] = made
            made += 1
            first += size
    found.starts[made] = first
    for k in range(nodes):
        if own[k] >= 0:
            cell = numbers[own[k]]
            found.nodes[fill[cell]] = k
            cells.places[k] = fill[cell] - found.starts[cell]
            fill[cell] += 1
    return made


@routine
def look(graph: Graph, cells: Cells, seen: Marks, nodes: int) -> None:
    """Mark what others read than a node's own cell, or hold."""
    own, times = cells.own, cells.times
    for k in range(nodes):
        for j in range(graph.starts[k], graph.starts[k + 1]):
            x = graph.operands[j]
            times[x] += 1
            if own[x] != own[k]:
                seen[x] = True
    for k in range(nodes):
        if times[k] == 0 or graph.references[k] > times[k]:
            seen[k] = True


@routine
def tell(
    graph: Graph, cells: Cells, found: Members, keys: Keys, made: int, mask: int
) -> None:
    """Find the kind of each cell, and the rows that it reads."""
    kinds, rows = 0, 0
    keys.starts[0] = 0
    found.opens[0] = 0
    for cell in range(made):
        words, rows, code = _write_down(graph, cells, found, keys, cell, kinds, rows)
        found.opens[cell + 1] = rows
        kind = _kind(keys, words, code, kinds, mask)
        found.kinds[cell] = kind
        kinds += int(kind == kinds)


@routine
def _write_down(
    graph: Graph,
    cells: Cells,
    found: Members,
    keys: Keys,
    cell: int,
    kinds: int,
    rows: int,
) -> tuple[int, int, int]:
    """Write down what a cell does, behind the kinds there are; where that ends, where
    the rows that it reads do, and its hash.
    """
    began = found.began[cell]
    at = keys.starts[kinds]
    code = _add(keys, at, cells.places[began], 0)
    at += 1
    for i in range(found.starts[cell], found.starts[cell + 1]):
        k = found.nodes[i]
        first, last = graph.starts[k], graph.starts[k + 1]
        code = _add(keys, at, graph.codes[k], code)
        code = _add(keys, at + 1, last - first, code)
        at += 2
        for j in range(first, last):
            x = graph.operands[j]
            what, number = ROW, 0
            if graph.shares[x] >= 0:
                what, number = SHARES, graph.shares[x]
            elif cells.own[x] == began:
                what, number = INSIDE, cells.places[x]
            else:
                found.rows[rows] = x
                rows += 1
            code = _add(keys, at, what, code)
            code = _add(keys, at + 1, number, code)
            code = _add(keys, at + 2, graph.types[x], code)
            at += 3
    return at, rows, code


@routine
def _add(keys: Keys, at: int, word: int, code: int) -> int:
    """Write down a word; the hash then."""
    keys.words[at] = word
    return mixed(code, word)


@routine
def _kind(keys: Keys, end: int, code: int, kinds: int, mask: int) -> int:
    """The kind of what was written down last: the same for what is equal word for word.
    A new one is kept.
    """
    first = keys.starts[kinds]
    slot = code & mask
    while keys.slots[slot] > 0:
        kind = keys.slots[slot] - 1
        if keys.hashes[kind] == code and _equal(keys, kind, first, end):
            return kind
        slot = slot + 1 & mask
    keys.slots[slot] = kinds + 1
    keys.hashes[kinds] = code
    keys.starts[kinds + 1] = end
    return kinds


@routine
def _equal(keys: Keys, kind: int, first: int, end: int) -> bool:
    """Whether a kind does what is written down from one word to another."""
    own = keys.starts[kind]
    if keys.starts[kind + 1] - own != end - first:
        return False
    for k in range(end - first):  # noqa: SIM110  # a routine has no all()
        if keys.words[own + k] != keys.words[first + k]:
            return False
    return True
