"""The nodes of the cells of a run, and which cells do the same.

`members_of` is how Python finds them; an engine may have a faster way, with equal
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from treadle.batch.columns import Marks, Numbers
from treadle.batch.grow import grown

__all__ = ["INSIDE", "ROW", "SHARES", "Find", "Graph", "Members", "members_of"]

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


Find = Callable[[Graph], Members]


def _ranges(starts: Numbers, cells: Numbers) -> Numbers:
    first = int(cells[0])
    found: Numbers = starts[cells][:, None] + np.arange(
        starts[first + 1] - starts[first]
    )
    return found


def members_of(graph: Graph) -> Members:
    """The cells of a graph."""
    owner = grown(graph.starts, graph.operands, graph.roles).tolist()
    cells: dict[int, list[int]] = {}
    for k, own in enumerate(owner):
        if own >= 0:
            cells.setdefault(own, []).append(k)
    began = sorted(cells)
    known: dict[tuple[int, ...], int] = {}
    kinds: list[int] = []
    read: list[list[int]] = []
    for own in began:
        rows: list[int] = []
        key = tuple(_key(graph, own, cells[own], owner, rows))
        kinds.append(known.setdefault(key, len(known)))
        read.append(rows)
    inside = [cells[own] for own in began]
    return Members(
        _array(began),
        np.cumsum([0, *map(len, inside)]),
        _array(list(chain.from_iterable(inside))),
        np.cumsum([0, *map(len, read)]),
        _array(list(chain.from_iterable(read))),
        _array(kinds),
        _seen(graph, owner),
    )


def _key(
    graph: Graph, own: int, inside: list[int], owner: list[int], rows: list[int]
) -> Iterator[int]:
    """What a cell does, in numbers; the rows that it reads are noted."""
    place = {k: number for number, k in enumerate(inside)}
    yield place[own]
    for k in inside:
        read = graph.read(k).tolist()
        yield int(graph.codes[k])
        yield len(read)
        for x in read:
            shared = int(graph.shares[x])
            if shared >= 0:
                yield from (SHARES, shared)
            elif owner[x] == own:
                yield from (INSIDE, place[x])
            else:
                yield from (ROW, 0)
                rows.append(x)
            yield int(graph.types[x])


def _seen(graph: Graph, owner: list[int]) -> Marks:
    count = len(owner)
    times, seen = [0] * count, [False] * count
    for k, (first, last) in enumerate(pairwise(graph.starts.tolist())):
        for x in graph.operands[first:last].tolist():
            times[x] += 1
            seen[x] |= owner[x] != owner[k]
    held = graph.references.tolist()
    every = zip(times, seen, held, strict=True)
    return np.array([own or not n or refers > n for n, own, refers in every], np.bool_)


def _array(values: list[int]) -> Numbers:
    return np.array(values, np.int64)
