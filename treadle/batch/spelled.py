"""Expressions that are right only as a whole, as rows of one body each."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from treadle.autodiff.expressions import ENDS, GROWS, Expression, expressions_in
from treadle.base.arrays import Numbers, indices_of
from treadle.batch.kinds import LEFT, PLAIN, Ops
from treadle.batch.walk import Walk
from treadle.graph.body import Body
from treadle.graph.tensor import Tensor


def join_spelled(walk: Walk, ops: Ops, asked: Container[int]) -> dict[int, Body]:
    """Let the last node of each such expression read what the expression reads.

    The bodies by the sign that these nodes have now. What nothing else reads waits no
    more; what somebody holds is no row: it overflows, and asked for by itself it is put
    right as any expression.
    """
    if not any(isinstance(op, GROWS) for op in ops.ops):
        return {}
    ends = walk.waiting & (ops.kind == PLAIN)
    ends &= ops.marked([isinstance(op, ENDS) for op in ops.ops])
    if not ends.any():
        return {}
    waits = walk.waiting & (ops.kind != LEFT)
    inner = set(walk.columns.serials[waits].tolist())

    def between(x: Tensor) -> bool:
        return x.serial in inner and x.serial not in asked

    nodes = [walk.nodes[k] for k in indices_of(ends).tolist()]
    expressions = expressions_in(nodes, between)
    for serial, (_, expression) in list(expressions.items()):
        inside = walk.number(expression.inside)
        if len(set(ops.constant[inside].tolist())) > 1:  # a derivative ends in it
            ops.kind[inside[-1]] = LEFT
            del expressions[serial]
    if not expressions:
        return {}
    bodies = {body.number: body for body, _ in expressions.values()}
    first = int(ops.sign.max(initial=0)) + 1
    signs = {number: first + k for k, number in enumerate(bodies)}
    last = walk.number(
        [expression.inside[-1] for _, expression in expressions.values()]
    )
    ops.sign[last] = [signs[body.number] for body, _ in expressions.values()]
    _rewire(walk, ops, last, [expression for _, expression in expressions.values()])
    return {signs[number]: body for number, body in bodies.items()}


def _rewire(
    walk: Walk, ops: Ops, last: Numbers, expressions: Sequence[Expression]
) -> None:
    """Have the last nodes of expressions read what these read, and forget what is read
    no more.
    """
    count = len(walk.nodes)
    held = walk.columns.references > np.bincount(walk.operands, minlength=count)
    sizes, stays = walk.sizes.copy(), np.ones(count, np.bool_)
    sizes[last], stays[last] = (
        [len(expression.read) for expression in expressions],
        False,
    )
    walk.resize(sizes, stays)
    for k, expression in zip(last.tolist(), expressions, strict=True):
        walk.read(k)[:] = walk.number(expression.read)
    readers = np.bincount(walk.operands, minlength=count)
    inside = [x for expression in expressions for x in expression.inside[:-1]]
    for k in sorted(set(walk.number(inside).tolist()), reverse=True):
        if not readers[k]:
            walk.waiting[k] = held[k]
            ops.kind[k] = LEFT
            np.subtract.at(readers, walk.read(k), 1)
