"""Expressions that are right only as a whole, as rows of one body each."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from treadle.autodiff.spelled import ENDS, GROWS, Expression, body_of, expression
from treadle.batch.kinds import LEFT, PLAIN, Ops
from treadle.batch.walk import Walk
from treadle.graph.body import Body
from treadle.graph.tensor import Tensor

__all__ = ["join_spelled"]


def join_spelled(walk: Walk, ops: Ops, asked: Container[int]) -> dict[int, Body]:
    """Let the last node of each such expression read what the expression reads.

    The bodies by the sign that these nodes have now. What nothing else reads, nor
    holds, waits no more.
    """
    if not ops.marked(lambda op: isinstance(op, GROWS)).any():
        return {}
    ends = walk.waiting & (ops.kind == PLAIN)
    ends &= ops.marked(lambda op: isinstance(op, ENDS))
    if not ends.any():
        return {}
    waits = walk.waiting & (ops.kind != LEFT)
    inner = set(walk.found.serials[waits].tolist())

    def between(x: Tensor) -> bool:
        return x.serial in inner and x.serial not in asked

    found: dict[int, Expression] = {}
    bodies: dict[int, Body] = {}
    signs: dict[int, int] = {}  # by the body's number
    count = int(ops.sign.max(initial=0)) + 1
    for k in np.flatnonzero(ends).tolist():
        own = expression(walk.nodes[k], between)
        body = None if own is None else body_of(own)
        if own is not None and body is not None:
            sign = signs.setdefault(body.number, count + len(signs))
            bodies[sign], found[k] = body, own
            ops.sign[k] = sign
    if found:
        _rewire(walk, found)
    return bodies


def _rewire(walk: Walk, found: dict[int, Expression]) -> None:
    """Have nodes read other operands, and forget what is read no more."""
    count = len(walk.nodes)
    held = walk.found.references > np.bincount(walk.operands, minlength=count)
    owner = np.repeat(np.arange(count), walk.sizes)
    sizes, changed = walk.sizes.copy(), np.zeros(count, np.bool_)
    for k, own in found.items():
        sizes[k], changed[k] = len(own.read), True
    starts = np.concatenate([[0], np.cumsum(sizes)])
    stays = ~changed[owner]
    shift = starts[:-1] - walk.starts[:-1]
    operands = np.empty(int(starts[-1]), np.int64)
    operands[(np.arange(len(owner)) + shift[owner])[stays]] = walk.operands[stays]
    for k, own in found.items():
        operands[starts[k] : starts[k + 1]] = walk.number(own.read)
    walk.operands, walk.sizes, walk.starts = operands, sizes, starts
    readers = np.bincount(operands, minlength=count)
    inside = [x for own in found.values() for x in own.inside[:-1]]
    for k in sorted(set(walk.number(inside).tolist()), reverse=True):
        if not readers[k] and not held[k]:
            walk.waiting[k] = False
            np.subtract.at(readers, operands[starts[k] : starts[k + 1]], 1)
