"""Repeated steps: where the nodes of a run do the same again and again.

A loop of Python records the nodes of each pass in one order, so that node i + p does
what node i does, p nodes later: with what was computed p nodes later, or the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.arrays import Marks, Numbers, distinct, indices_of
from treadle.base.caches import lazy
from treadle.batch.columns import Columns, order_of
from treadle.core import native
from treadle.graph.body import sign_of
from treadle.graph.leaves import CONSTANT, LITERAL, Version, bits_of
from treadle.ops.slice import Slice

LEAST = 4  # steps of a loop
SMALLEST, LARGEST = 4, 256  # nodes of a step
TRIED = 8  # periods, those first that most pairs of equal nodes are apart


@dataclass(frozen=True)
class Steps:
    """So many steps of `period` nodes each, from the waiting node `first` on."""

    first: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The first waiting node behind them."""
        return self.first + self.period * self.count


class Waiting:
    """The nodes without a value, by rank: what each does, and the edges to operands.

    Nodes of one `code` have equal ops, but for where a slice begins, and equal types.
    Edge e leads from the node of rank readers[e] to the place operands[e], whose rank
    is ranks[e], -1 of one with a value. Each node is in so many lists (`listed`).
    """

    def __init__(self, columns: Columns, listed: int = 0) -> None:
        self.columns, self.listed = columns, listed
        self.places = indices_of(columns.waiting & (columns.sizes > 0))
        self.rank = np.full(len(columns.nodes), -1, np.int64)
        self.rank[self.places] = np.arange(len(self.places))
        sizes = columns.sizes[self.places]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.readers = np.repeat(np.arange(len(self.places)), sizes)
        self.operands = columns.operands
        self.ranks = self.rank[self.operands]
        self.types = _equal(columns.nodes, columns.types, columns.count, _type)
        ops = _equal(columns.nodes, columns.ops, columns.count, _what)
        code = ops * (int(self.types.max(initial=0)) + 1) + self.types
        code = code[self.places] * (int(sizes.max(initial=0)) + 1) + sizes
        self.code = np.unique(code, return_inverse=True)[1]

    @lazy
    def shared(self) -> Marks:
        """Which nodes others refer to than what reads them here."""
        uses = np.bincount(self.operands, minlength=len(self.rank))
        return self.columns.references > uses + self.listed

    @lazy
    def data(self) -> Marks:
        """Which nodes are data that no derivative is taken by: steps may differ."""
        nodes, known = self.columns.nodes, ~(self.columns.waiting | self.shared)
        for k in indices_of(known).tolist():
            op, stored = nodes[k].op, nodes[k].stored
            known[k] = op is CONSTANT and type(stored) is np.ndarray
        return known

    @lazy
    def literals(self) -> Numbers:
        """A number for each literal, the same for equal ones; -1 of other nodes."""
        numbers = np.full(len(self.rank), -1, np.int64)
        known: dict[Any, int] = {}
        nodes, types = self.columns.nodes, self.types.tolist()
        for k in indices_of(~self.columns.waiting).tolist():
            bits = bits_of(nodes[k])
            if bits is not None:
                numbers[k] = known.setdefault((types[k], bits), len(known))
        return numbers

    def read(self, rank: int) -> list[int]:
        """The places of what a node reads."""
        return self.operands[self.starts[rank] : self.starts[rank + 1]].tolist()

    def each(self, ranks: Numbers) -> Numbers:
        """The places of what nodes of one code read, a row each."""
        count = self.starts[ranks[0] + 1] - self.starts[ranks[0]]
        return self.operands[self.starts[ranks][:, None] + np.arange(count)]


def _type(node: Any) -> Any:
    return node.type


def _what(node: Any) -> Any:
    """The key by which an op is equal; a slice, wherever it begins."""
    op = node.op
    return (Slice, op.steps) if type(op) is Slice else sign_of(op)


def _equal(nodes: Any, numbers: Numbers, count: int, key: Any) -> Numbers:
    """Numbers of objects made numbers of what is equal."""
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    known: dict[Any, int] = {}
    table = np.zeros(count, np.int64)
    for k in indices_of(first >= 0).tolist():
        table[k] = known.setdefault(key(nodes[first[k]]), len(known))
    return table[numbers]


def reads_of_steps(graph: Columns) -> bool:
    """Return True if the steps of a loop may all read one node that is yet to be
    computed of data.

    A loop has to, and trees have no such node: they need no closer look.
    """
    fields = graph.operands, graph.sizes, graph.waiting
    return any(is_of_data(graph, k) for k in read_often(*fields).tolist())


def read_often(operands: Numbers, sizes: Numbers, waiting: Marks) -> Numbers:
    """The waiting nodes that as many nodes read as a loop has steps, a step apart or
    beside other operands."""
    apart = (LEAST - 1) * SMALLEST
    if native is not None:
        return native.read_often(operands, sizes, waiting, LEAST, apart)
    count = len(sizes)
    readers = np.repeat(np.arange(count), sizes)
    wide = np.bincount(operands[sizes[readers] > 1], minlength=count) >= LEAST
    often = np.bincount(operands, minlength=count) >= LEAST
    first, last = np.full(count, count), np.zeros(count, np.int64)
    np.minimum.at(first, operands, readers)
    np.maximum.at(last, operands, readers)
    return indices_of(waiting & often & (wide | (last - first >= apart)))


def is_of_data(graph: Columns, place: int) -> bool:
    """Return True if a node is yet to be computed of more than Variables: it is no row,
    and what reads it is none."""
    nodes, known, todo = graph.nodes, {place}, [place]
    while todo:
        k = todo.pop()
        if graph.waiting[k]:
            more = {*graph.read(k)} - known
            known |= more
            todo += more
        elif nodes[k].op is not LITERAL and type(nodes[k].op) is not Version:
            return k != place
    return False


def repeated(waiting: Waiting) -> list[Steps]:
    """The steps that most nodes are in, and then others of which each does what one of
    these does, of a shorter sentence, say."""
    best: Steps | None = None
    for period in sorted(_periods(waiting.code)):
        steps = _steps(waiting, period)
        if steps is None or steps.count < LEAST:
            continue
        if best is None or steps.end - steps.first > 1.1 * (best.end - best.first):
            best = steps  # twice the period covers as much, almost
    return [] if best is None else [best, *_alike(waiting.code, best)]


def _alike(code: Numbers, steps: Steps) -> Iterator[Steps]:
    """Other steps whose nodes have the codes of some steps."""
    first, period = steps.first, steps.period
    places = np.arange(len(code) - period + 1)
    for k, x in enumerate(code[first : first + period].tolist()):
        places = places[code[places + k] == x]
    begins, end = set(places.tolist()), 0
    for begin in places.tolist():
        if begin < end or first - period < begin < steps.end:
            continue
        count = 1
        while begin + period * count in begins:
            count += 1
        end = begin + period * count
        if count > 1:
            yield Steps(begin, period, count)


def _periods(code: Numbers) -> Iterator[int]:
    """How far equal nodes are apart, what is most frequent first."""
    order = order_of(code)
    ordered = code[order]
    # The next but one, too: a step may have two nodes that do the same.
    pairs = [(ordered[k:] == ordered[:-k], order[k:] - order[:-k]) for k in (1, 2)]
    apart = np.concatenate([distance[same] for same, distance in pairs])
    apart = apart[(apart >= SMALLEST) & (apart <= LARGEST)]
    counts = np.bincount(apart)
    for period in np.argsort(-counts, kind="stable")[:TRIED].tolist():
        if counts[period] >= LEAST - 1:
            yield period


def _steps(waiting: Waiting, period: int) -> Steps | None:
    """The most steps of a period."""
    code = waiting.code
    same = code[period:] == code[:-period]
    fits, later = _pairs(waiting, same, period)
    readers = waiting.readers[: len(fits)]
    good = same & (np.bincount(readers[~fits], minlength=len(same)) == 0)
    begins, ends = _runs(good)
    if not len(begins):
        return None
    longest = int(np.argmax(ends - begins))
    first, end = int(begins[longest]), int(ends[longest]) + period
    if end - first < (LEAST - 1) * period:
        return None
    first = _earlier(waiting, same, fits, later, first, period)
    edges = slice(waiting.starts[first], waiting.starts[end - period])
    fixed = waiting.operands[edges] == later[edges]
    inside = waiting.ranks[edges][fixed & fits[edges]]
    first = max(first, 1 + int(inside.max(initial=-1)))
    count = (end - first) // period
    if count < LEAST:
        return None
    spare = end - first - period * count
    apart = [_carried(waiting, first + k, period) for k in range(spare + 1)]
    return Steps(first + int(np.argmin(apart)), period, count)


def _pairs(waiting: Waiting, same: Marks, period: int) -> tuple[Marks, Numbers]:
    """Of the edges of all nodes that have a later one: whether that reads what is as
    much later or the same, and what it reads (-1 where it is no equal node).
    """
    last = int(waiting.starts[len(same)])
    readers = waiting.readers[:last]
    shift = waiting.starts[period:-1] - waiting.starts[: len(same)]
    valid = same[readers]
    place = np.where(valid, np.arange(last) + shift[readers], 0)
    later = np.where(valid, waiting.operands[place], -1)
    now, rank = waiting.operands[:last], waiting.ranks[:last]
    after = np.where(valid, waiting.ranks[place], -1)
    moves = (rank >= 0) & (after - rank == period)
    moves &= waiting.code[rank] == waiting.code[after]  # no other node by chance
    literal = waiting.literals[now]
    written = (literal >= 0) & (literal == waiting.literals[later])
    data = waiting.data[now] & waiting.data[later]
    data &= waiting.types[now] == waiting.types[later]
    return valid & (moves | (now == later) | written | data), later


def _runs(marks: Marks) -> tuple[Numbers, Numbers]:
    """The bounds of the runs of marked elements."""
    changes = np.diff(np.concatenate([[False], marks, [False]]).astype(np.int8))
    return indices_of(changes == 1), indices_of(changes == -1)


def _earlier(
    waiting: Waiting,
    same: Marks,
    fits: Marks,
    later: Numbers,
    first: int,
    period: int,
) -> int:
    """The first step, which may read other things than the value of the step before it,
    of its type."""
    bound = max(first - period, 0)
    while first > bound and same[first - 1]:
        node = first - 1
        for e in range(waiting.starts[node], waiting.starts[node + 1]):
            if fits[e]:
                continue
            value = waiting.operands[e]
            carried = int(waiting.rank[later[e]])
            if carried < 0 or waiting.types[value] != waiting.types[later[e]]:
                return first
            if not bound <= carried < first + period:
                return first
            bound = max(bound, 1 + int(waiting.rank[value]))
        if node < bound:
            return first
        first = node
    return first


def _carried(waiting: Waiting, first: int, period: int) -> int:
    """How many values a step reads of the one before."""
    second = first + period
    edges = slice(waiting.starts[second], waiting.starts[second + period])
    ranks = waiting.ranks[edges]
    return len(distinct(ranks[(ranks >= first) & (ranks < second)]))
