"""The nodes of a run as numbers: looked at all together, not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from treadle.batch.columns import Columns, Marks, Numbers
from treadle.graph.tensor import Tensor

__all__ = ["Walk"]

_serial = attrgetter("serial")


class Walk:
    """Nodes in creation order; a node is its place in that order.

    Node k reads `operands[starts[k] : starts[k + 1]]`; one with a value reads nothing.
    """

    def __init__(self, found: Columns) -> None:
        self.found = found
        self.nodes = found.nodes
        self.waiting = found.waiting
        self.sizes = found.sizes
        self.operands = found.operands
        self.depths = found.depths
        self.starts = np.concatenate([[0], np.cumsum(found.sizes)])

    def forget(self) -> None:
        """Let go of the nodes; the numbers stay."""
        self.nodes = self.found.nodes = []

    def held(self) -> list[Tensor]:
        """The nodes without a value that something besides these nodes refers to."""
        inside = np.bincount(self.operands, minlength=len(self.nodes))
        held = self.waiting & (self.found.references > inside)
        return [self.nodes[k] for k in np.flatnonzero(held).tolist()]

    def has(self, family: str) -> bool:
        """Whether an op of a family is there."""
        first = np.unique(self.found.kinds, return_index=True)[1]
        return any(self.nodes[k].op.family == family for k in first.tolist())

    def ops(self) -> tuple[list[Any], Numbers]:
        """The different op objects, as they come first, and which one each node has."""
        first, which = _kinds(self.found.ops)
        return [self.nodes[k].op for k in first.tolist()], which

    def types(self, which: Numbers) -> Numbers:
        """A number for the type of each of some nodes, the same for the same type."""
        return self.found.types[which]

    def read_by(self, which: Numbers, count: int) -> Numbers:
        """A row of operands for each of some nodes that read so many."""
        places = self.starts[which][:, None] + np.arange(count)
        found: Numbers = self.operands[places]
        return found

    def of_operands(self, marks: Marks) -> Marks:
        """Whether all operands of a node are marked; those that read none are not."""
        found = np.zeros(len(self.nodes), np.bool_)
        (some,) = np.nonzero(self.sizes)
        if len(some):
            own = marks[self.operands]
            found[some] = np.logical_and.reduceat(own, self.starts[some])
        return found

    def number(self, nodes: Sequence[Tensor]) -> Numbers:
        """The places of some nodes, -1 for one that is not here."""
        known = self.found.serials
        serials = np.fromiter(map(_serial, nodes), np.int64, len(nodes))
        found = np.searchsorted(known, serials)
        found[found == len(known)] = 0
        found[known[found] != serials] = -1
        return found


def _kinds(values: Numbers) -> tuple[Numbers, Numbers]:
    """Where each of the different values comes first, in order, and which one of them
    stands at each place.
    """
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[which]
