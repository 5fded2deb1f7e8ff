"""What a walk has found in creation order: numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.base.routine import Marks, Numbers, routine
from treadle.engines.native.routines.compiled import compiled

__all__ = [
    "FIELDS",
    "MARKED",
    "SERIAL",
    "VALUE",
    "Found",
    "Ordering",
    "Walked",
    "order",
]

# Of a node: op, kind, type, value or zero, serial, depth, references, if it is marked.
FIELDS = 8
VALUE, SERIAL, MARKED = 3, 4, 7
BITS = 11  # of serials that are sorted by at once


@dataclass(frozen=True)
class Walked:
    """Nodes as a walk finds them: field f of node k is fields[f * room + k]; it reads
    operands[starts[k] : starts[k + 1]], and lies at objects[k].
    """

    fields: Numbers
    room: int
    starts: Numbers
    operands: Numbers
    objects: Numbers


@dataclass(frozen=True)
class Found:
    """Nodes in creation order: their fields, what they read, where they lie."""

    fields: Numbers
    waiting: Marks
    marked: Marks
    sizes: Numbers
    operands: Numbers
    objects: Numbers


class Ordering:
    """Memory for the order of so many nodes, used again."""

    def __init__(self, walked: Walked) -> None:
        self.walked = walked
        self.orders = np.empty((2, walked.room), np.int64)
        self.counts = np.empty(1 << BITS, np.int64)

    def found(self, count: int, read: int) -> Found:
        """What a walk has found: so many nodes, which read so many operands."""
        made = Found(
            np.empty((FIELDS, count), np.int64),
            np.empty(count, np.bool_),
            np.empty(count, np.bool_),
            np.empty(count, np.int64),
            np.empty(read, np.int64),
            np.empty(count, np.int64),
        )
        one, two = self.orders
        compiled(order)(self.walked, made, one, two, self.counts, count)
        return made


@routine
def order(
    w: Walked, found: Found, one: Numbers, two: Numbers, counts: Numbers, n: int
) -> None:
    """Put nodes in creation order, with memory for two orders and for counts."""
    in_one = _sort(w.fields, w.room * SERIAL, one, two, counts, n)
    own, rank = one, two
    if not in_one:
        own, rank = two, one
    for k in range(n):
        rank[own[k]] = k
    read = 0
    for k in range(n):
        node = own[k]
        for field in range(FIELDS):
            found.fields[field * n + k] = w.fields[field * w.room + node]
        found.waiting[k] = w.fields[VALUE * w.room + node] == 0
        found.marked[k] = w.fields[MARKED * w.room + node] != 0
        found.objects[k] = w.objects[node]
        first, last = w.starts[node], w.starts[node + 1]
        found.sizes[k] = last - first
        for j in range(first, last):
            found.operands[read] = rank[w.operands[j]]
            read += 1


@routine
def _sort(
    fields: Numbers, serials: int, one: Numbers, two: Numbers, counts: Numbers, n: int
) -> bool:
    """The order of serials, which lie at a place among fields, by their digits, the
    last one first (a radix sort); whether it is in the first array.
    """
    least, most = 0, 0
    for k in range(n):
        serial = fields[serials + k]
        one[k] = k
        least = serial if k == 0 else min(least, serial)
        most = serial if k == 0 else max(most, serial)
    in_one, shift = True, 0
    while most - least >> shift:
        for k in range(1 << BITS):
            counts[k] = 0
        for k in range(n):
            counts[_digit(fields, serials + k, least, shift)] += 1
        before = 0
        for k in range(1 << BITS):
            own = counts[k]
            counts[k] = before
            before += own
        source, target = one, two
        if not in_one:
            source, target = two, one
        for k in range(n):
            node = source[k]
            digit = _digit(fields, serials + node, least, shift)
            target[counts[digit]] = node
            counts[digit] += 1
        in_one, shift = not in_one, shift + BITS
    return in_one


@routine
def _digit(fields: Numbers, place: int, least: int, shift: int) -> int:
    return fields[place] - least >> shift & (1 << BITS) - 1
