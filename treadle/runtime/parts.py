"""Parts of values that somebody looks at: copied, and nothing runs."""

from __future__ import annotations

import numpy as np

from treadle.base.errors import RunError
from treadle.base.options import current
from treadle.graph.marks import NO_GRAD
from treadle.graph.parts import LONGEST, is_move
from treadle.graph.tensor import Tensor, settle
from treadle.graph.traversal import reach
from treadle.runtime.history import depends, remember


def read_part(node: Tensor) -> bool:
    """Give a node its value, if that is a part of one that is there, or its elements
    in another order; whether it was."""
    if node.stored is None and not is_move(node):
        return False
    chain, x = list[Tensor](), node
    while x.stored is None:
        plain = x.mark is None or x.mark is NO_GRAD
        if not is_move(x) or not plain or len(chain) == LONGEST:
            return False
        chain.append(x)
        x = x.inputs[0]
    if current().engine != "auto":  # somebody wants to know what that one does
        return False
    value = x.array
    try:
        for y in reversed(chain):
            value = y.op.numpy(value, *[i.array for i in y.inputs[1:]])
    except RunError:  # a position is out of range: the run says where
        return False
    settle(node, np.array(value, order="C"))
    known = x.mark.get("carried") if x.mark and x.inputs else None
    if known is None:
        known = x.serial in depends(reach([x]))
    remember(node, known)
    return True
