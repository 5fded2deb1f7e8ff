"""Parts of what has a value: where they lie is known, so nothing computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.graph.frame import top
from treadle.graph.leaves import CONSTANT, Cut, Version, cut_of
from treadle.graph.marks import NO_GRAD, PART
from treadle.graph.tensor import Tensor, cut, settle

SMALL = 1 << 16  # bytes
LONGEST = 16  # moves, one after the other


def is_move(x: Tensor) -> bool:
    """Return True if a node is a part of its first input, or that in another order,
    which no data decides but single positions that are there."""
    if x.op.family != "gather":
        return x.op.family == "movement"
    return all(i.op is CONSTANT and not i.type.shape for i in x.inputs[1:])


def is_differentiable_part(x: Tensor) -> bool:
    """Return True if a tensor is, or is part of, what has a value that derivatives may
    go on behind."""
    for _ in range(LONGEST):
        if x.stored is not None:
            carried = not x.mark or x.mark.get("carried", True)
            return bool(x.inputs) and x.mark is not PART and carried
        if not is_move(x):
            break
        x = x.inputs[0]
    return False


def settle_part(part: Tensor, whole: Tensor, key: Any) -> None:
    """Give the node of `whole[key]` its value, if that lies in what has one and no
    derivative goes on behind it.

    An index is data then: what is computed from the part looks alike for each. What is
    small is copied, and keeps no whole alive; the rest has to lie in one piece.
    """
    stored, mark = whole.stored, None
    if type(stored) is not np.ndarray or type(whole.op) is Version:
        return
    if whole.op is CONSTANT or whole.mark is PART:
        mark = PART
    elif whole.inputs:
        if is_differentiable_part(whole):
            return
        mark = {"carried": False}
    elif type(whole.op) is not Cut or whole.op.carried:
        return
    if top().tracing or current().engine != "auto":
        return
    # NumPy gives an element as a scalar, which is no array that a run can read.
    value = np.asarray(stored[key if type(key) is tuple else (key, ...)])
    small = value.nbytes <= SMALL
    if value.shape != part.type.shape or not (small or value.flags.c_contiguous):
        return
    settle(part, value.copy() if small else value)
    if part.mark is NO_GRAD or mark is None:
        cut(part, cut_of(part.op.name, False))
    else:
        part.mark = mark
