"""Parts of what has a value: where they lie is known, so nothing computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.graph.frame import top
from treadle.graph.leaves import CONSTANT, Cut, Version, cut_of
from treadle.graph.marks import NO_GRAD, PART
from treadle.graph.tensor import Tensor, cut, settle

__all__ = ["settle_part"]

SMALL = 1 << 16  # bytes


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
        if not whole.mark or whole.mark.get("carried", True):
            return
        mark = {"carried": False}
    elif type(whole.op) is not Cut or whole.op.carried:
        return
    if top().tracing or current().engine != "auto":
        return
    value = stored[key if type(key) is tuple else (key, ...)]
    small = value.nbytes <= SMALL
    if value.shape != part.type.shape or not (small or value.flags.c_contiguous):
        return
    settle(part, value.copy() if small else value)
    if part.mark is NO_GRAD or mark is None:
        cut(part, cut_of(part.op.name, False))
    else:
        part.mark = mark
