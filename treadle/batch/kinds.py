"""Kinds of ops in a run, and their properties as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Marks, indices_of
from treadle.base.caches import Cache, lazy
from treadle.batch.signature import apart
from treadle.batch.walk import Walk
from treadle.graph.leaves import Version
from treadle.graph.numbers import number_of
from treadle.ops.call import Call
from treadle.ops.families import Movement, Output

PLAIN, LEFT, OUTPUT, CALL, MOVE, VIEW = range(1, 7)  # what an op is here
WIDE = 64  # operands of a node that may be a row

_kinds: Cache[type, int] = Cache("what classes of ops are to rows", 512)


def _kind(op: Any) -> int:
    kind = {Output: OUTPUT, Call: CALL}.get(type(op))
    if kind is None:
        kind = MOVE if isinstance(op, Movement) else LEFT if apart(op) else PLAIN
    _kinds[type(op)] = kind
    return kind


class Ops:
    """Of each node: what its op is here, what it is equal by, and which result."""

    def __init__(self, walk: Walk) -> None:
        self.ops, self.which = walk.ops()
        codes: dict[Any, int] = {}
        kinds = [_kinds.get(type(op)) or _kind(op) for op in self.ops]
        fields = []
        for kind, op in zip(kinds, self.ops, strict=True):
            sign = ("call", op.body.number) if kind == CALL else number_of(op)
            place = op.position if kind == OUTPUT else 0
            fields.append((kind, codes.setdefault(sign, len(codes)), place))
        columns = np.array(fields, np.int64).reshape(-1, 3).T
        self.kind, self.sign, self.position = columns[:, self.which]
        self.constant = self._constant(walk)
        self.sign = 2 * self.sign + self.constant  # they are no rows of one op

    @lazy
    def versions(self) -> Marks:
        """The nodes that are versions of Variables."""
        return self.marked([type(op) is Version for op in self.ops])

    @staticmethod
    def _constant(walk: Walk) -> Marks:
        """The nodes where derivatives end that go on at others: those of `no_grad`."""
        marks = walk.columns.marked & walk.waiting
        for k in indices_of(marks).tolist():
            marks[k] = "no_grad" in walk.nodes[k].mark
        return marks & bool((walk.waiting & ~marks).any())

    def marked(self, wanted: Sequence[bool]) -> Marks:
        """The nodes with those ops that are wanted."""
        return np.array(wanted, np.bool_)[self.which]
