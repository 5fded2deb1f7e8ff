"""The nodes of a run as numbers: looked at all together, not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType
from treadle.batch.columns import Columns
from treadle.graph.tensor import Tensor

_serial = attrgetter("serial")


class Walk:
    """Nodes in creation order; a node is its place in that order.

    Node k reads `operands[starts[k] : starts[k + 1]]`; one with a value reads nothing.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.nodes = columns.nodes
        self.waiting = columns.waiting
        self.sizes = columns.sizes
        self.operands = columns.operands
        self.depths = columns.depths
        self.starts = columns.starts

    def forget(self) -> None:
        """Let go of the nodes; the numbers stay."""
        self.nodes = self.columns.nodes = []

    def held(self) -> Numbers:
        """The nodes without a value that something besides these nodes refers to."""
        inside = np.bincount(self.operands, minlength=len(self.nodes))
        return indices_of(self.waiting & (self.columns.references > inside))

    def alike(self, which: Numbers) -> bool:
        """Return True if some nodes have one type."""
        types = self.types(which)
        return bool((types == types[:1]).all())

    def several(self, which: Numbers) -> Marks:
        """Which of some nodes have several results."""
        types = self.types(which)
        first = _first(types, int(types.max(initial=-1)) + 1)
        nodes = [self.nodes[which[k]] if k >= 0 else None for k in first.tolist()]
        kinds = [x is not None and isinstance(x.type, TupleType) for x in nodes]
        return np.array(kinds, np.bool_)[types]

    def inexact(self, which: Numbers) -> Marks:
        """Which of some nodes have a value that could be derived by."""
        types = self.types(which)
        first = _first(types, int(types.max(initial=-1)) + 1)
        nodes = [self.nodes[which[k]] if k >= 0 else None for k in first.tolist()]
        kinds = [x is not None and is_inexact(x.type.dtype) for x in nodes]
        return np.array(kinds, np.bool_)[types]

    def has(self, family: str) -> bool:
        """Return True if an op of a family is there."""
        first = _first(self.columns.kinds, self.columns.count)
        return any(
            self.nodes[k].op.family == family for k in first[first >= 0].tolist()
        )

    def ops(self) -> tuple[list[Any], Numbers]:
        """The different op objects, as they come first, and which one each node has."""
        first = _first(self.columns.ops, self.columns.count)
        known = indices_of(first >= 0)
        known = known[np.argsort(first[known])]
        rank = np.empty(len(first), np.int64)
        rank[known] = np.arange(len(known))
        return [self.nodes[k].op for k in first[known]], rank[self.columns.ops]

    def types(self, which: Numbers) -> Numbers:
        """A number for the type of each of some nodes, the same for the same type."""
        return self.columns.types[which]

    def read_by(self, which: Numbers, count: int) -> Numbers:
        """A row of operands for each of some nodes that read so many."""
        places = self.starts[which][:, None] + np.arange(count)
        return self.operands[places]

    def read(self, k: int) -> Numbers:
        """The operands of a node."""
        return self.operands[self.starts[k] : self.starts[k + 1]]

    def resize(self, sizes: Numbers, stays: Marks) -> None:
        """Make room for so many operands of each node: those of nodes that stay as they
        are stay, the others' are to be put down.
        """
        count = len(self.nodes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        owner = np.repeat(np.arange(count), self.sizes)
        kept = stays[owner]
        places = np.arange(len(owner)) + (starts - self.starts)[owner]
        operands = np.empty(int(starts[-1]), np.int64)
        operands[places[kept]] = self.operands[kept]
        self.operands, self.sizes, self.starts = operands, sizes, starts

    def of_operands(self, which: Marks, marks: Marks) -> Marks:
        """Which of some nodes read marked operands alone, and at least one."""
        marked = np.zeros(len(self.nodes), np.bool_)
        some = indices_of(which & (self.sizes > 0))
        some = some[marks[self.operands[self.starts[some]]]]  # few are left, mostly
        sizes = self.sizes[some]
        ends = np.cumsum(sizes)
        if len(some):
            places = np.repeat(self.starts[some] - (ends - sizes), sizes)
            reads = marks[self.operands[places + np.arange(len(places))]]
            marked[some] = np.logical_and.reduceat(reads, ends - sizes)
        return marked

    def number(self, nodes: Sequence[Tensor]) -> Numbers:
        """The places of some nodes, -1 for one that is not here."""
        known = self.columns.serials
        serials = np.fromiter(map(_serial, nodes), np.int64, len(nodes))
        places = np.searchsorted(known, serials)
        places[places == len(known)] = 0
        places[known[places] != serials] = -1
        return places


def _first(values: Numbers, count: int) -> Numbers:
    """The first place of each number below `count`; -1 for one that is not there."""
    first = np.full(count, -1, np.int64)
    first[values[::-1]] = np.arange(len(values))[::-1]  # the last one written stays
    return first
