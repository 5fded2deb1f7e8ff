"""The nodes of a run as numbers: looked at all together, not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any

import numpy as np

from treadle.graph.references import references
from treadle.graph.tensor import Tensor

__all__ = ["Numbers", "Walk"]

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]

_serial, _stored, _depth = map(attrgetter, ("serial", "stored", "depth"))
_op, _type = attrgetter("op"), attrgetter("type")


class Walk:
    """Nodes in creation order; a node is its place in that order.

    Node k reads `operands[starts[k] : starts[k + 1]]`; one with a value reads nothing.
    """

    def __init__(self, nodes: Sequence[Tensor]) -> None:
        """The nodes that `pending` finds."""
        self.nodes = nodes
        count = len(nodes)
        self.waiting: Marks = np.fromiter(
            map(is_, map(_stored, nodes), repeat(None)), np.bool_, count
        )
        inputs = [x.inputs if x.stored is None else () for x in nodes]
        self.sizes: Numbers = np.fromiter(map(len, inputs), np.int64, count)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self.serials: Numbers = np.fromiter(map(_serial, nodes), np.int64, count)
        read = map(_serial, chain.from_iterable(inputs))
        serials = np.fromiter(read, np.int64, int(self.starts[-1]))
        self.operands: Numbers = np.searchsorted(self.serials, serials)

    def held(self) -> list[Tensor]:
        """The nodes without a value that something besides these nodes and the list of
        them refers to.
        """
        inside = np.bincount(self.operands, minlength=len(self.nodes))
        held = self.waiting & (references(self.nodes) > inside)
        return [self.nodes[k] for k in np.flatnonzero(held).tolist()]

    def depths(self, which: Numbers) -> Numbers:
        """How deep some nodes lie."""
        nodes = map(self.nodes.__getitem__, which.tolist())
        return np.fromiter(map(_depth, nodes), np.int64, len(which))

    def has(self, family: str) -> bool:
        """Whether an op of a family is there."""
        kinds = set(map(type, map(_op, self.nodes)))
        return any(getattr(kind, "family", "") == family for kind in kinds)

    def ops(self) -> tuple[list[Any], Numbers]:
        """The different op objects, as they come first, and which one each node has."""
        every = list(map(_op, self.nodes))
        first, which = _kinds(np.fromiter(map(id, every), np.int64, len(every)))
        return [every[k] for k in first.tolist()], which

    def types(self, which: Numbers) -> Numbers:
        """A number for the type of each of some nodes, the same for the same type."""
        types = map(_type, map(self.nodes.__getitem__, which.ravel().tolist()))
        ids = np.fromiter(map(id, types), np.int64, which.size)
        return _kinds(ids)[1].reshape(which.shape)

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
        serials = np.fromiter(map(_serial, nodes), np.int64, len(nodes))
        found = np.searchsorted(self.serials, serials)
        found[found == len(self.serials)] = 0
        found[self.serials[found] != serials] = -1
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
