"""Kinds of ops in a run, and their properties as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.arrays import Marks
from treadle.base.caches import lazy
from treadle.batch.signature import apart
from treadle.batch.walk import Walk
from treadle.graph.leaves import Version
from treadle.graph.numbers import number_of
from treadle.ops.call import Call
from treadle.ops.families import Movement, Output

PLAIN, LEFT, OUTPUT, CALL, MOVE, VIEW = range(6)  # what an op is here
WIDE = 64  # operands of a node that may be a row


class Ops:
    """Of each node: what its op is here, what it is equal by, and which result."""

    def __init__(self, walk: Walk) -> None:
        self.ops, self.which = walk.ops()
        codes: dict[Any, int] = {}
        kinds, signs, places = [], [], []
        for op in self.ops:
            kind = self._kind(op)
            kinds.append(kind)
            sign = ("call", op.body.number) if kind == CALL else number_of(op)
            signs.append(codes.setdefault(sign, len(codes)))
            places.append(op.position if kind == OUTPUT else 0)
        self.kind = np.array(kinds, np.int64)[self.which]
        self.sign = np.array(signs, np.int64)[self.which]
        self.position = np.array(places, np.int64)[self.which]
        self.constant = self._constant(walk)
        self.sign = 2 * self.sign + self.constant  # they are no rows of one op

    @lazy
    def versions(self) -> Marks:
        """The nodes that are versions of Variables."""
        return self.marked(lambda op: type(op) is Version)

    @staticmethod
    def _constant(walk: Walk) -> Marks:
        """The nodes where derivatives end that go on at others: those of `no_grad`."""
        marks = walk.columns.marked & walk.waiting
        for k in np.flatnonzero(marks).tolist():
            marks[k] = "no_grad" in walk.nodes[k].mark
        return marks & bool((walk.waiting & ~marks).any())

    def _kind(self, op: Any) -> int:
        if type(op) is Output:
            return OUTPUT
        if type(op) is Call:
            return CALL
        if isinstance(op, Movement):
            return MOVE
        return LEFT if apart(op) else PLAIN

    def marked(self, wanted: Callable[[Any], bool]) -> Marks:
        """The nodes with an op for which `wanted` holds."""
        marks = np.array([wanted(op) for op in self.ops], np.bool_)
        return marks[self.which]
