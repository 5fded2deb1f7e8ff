"""Operands that all rows share: literals, Variables, and expressions of them alone."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from treadle.base.arrays import Numbers, distinct, indices_of
from treadle.base.types import TupleType
from treadle.batch.columns import classes, split
from treadle.batch.kinds import MOVE, PLAIN, WIDE, Ops
from treadle.batch.walk import Walk
from treadle.graph.leaves import LITERAL
from treadle.graph.tensor import Tensor


class Shared:
    """The part of a signature that rows share: literals, versions of Variables, and
    what is computed of them alone."""

    def __init__(self, walk: Walk, ops: Ops, asked: Container[int]) -> None:
        self.versions = ops.versions & ~walk.waiting
        self.literals = ops.marked([op is LITERAL for op in ops.ops]) & ~walk.waiting
        self.content = np.zeros(len(walk.nodes), np.int64)
        known: dict[bytes, int] = {}
        for k in indices_of(self.literals).tolist():
            data = np.asarray(walk.nodes[k].array).tobytes()
            self.content[k] = known.setdefault(data, len(known))
        self.expressions: list[Tensor] = []
        self._add_expressions(walk, ops, asked)

    def numbers(self) -> Numbers:
        """A number for each of these, the same for what is equal; -1 for others."""
        literals = np.where(self.literals, 2 * self.content + 1, -1)
        places = 2 * np.arange(len(literals))
        return np.where(self.versions, places, literals)

    def _add_expressions(self, walk: Walk, ops: Ops, asked: Container[int]) -> None:
        """Let all that read an expression of Variables read one of its equals."""
        fits = walk.waiting & (walk.sizes <= WIDE)
        fits &= (ops.kind == PLAIN) | (ops.kind == MOVE)
        code = ops.sign * (WIDE + 1) + walk.sizes
        marks = np.zeros(len(walk.nodes), np.bool_)
        one = np.arange(len(walk.nodes))  # of those that are equal
        while True:
            more = walk.of_operands(fits, self.versions | self.literals | marks)
            for k in indices_of(more & ~marks).tolist():
                node = walk.nodes[k]
                one_value = not isinstance(node.type, TupleType)
                fits[k] = more[k] = one_value and node.serial not in asked
            if (more == marks).all():
                break
            for members in classes(code, more & ~marks):
                read = one[walk.read_by(members, int(walk.sizes[members[0]]))]
                for equal in split(read):
                    one[members[equal]] = members[equal[0]]
            marks = more
        if marks.any():
            firsts = distinct(one[marks])
            self.expressions = [walk.nodes[k] for k in firsts.tolist()]
            walk.operands = one[walk.operands]
            walk.waiting[marks] = False
            self.versions[firsts] = True
