"""How the buffers inside a program lie in memory: images with channels last.

Convolutions are quickest on channels that lie side by side, and what is computed
element by element of their results takes over their order. What the user gives or gets
is row-major; the kernels at the rim read or write it so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from treadle.graph.tensor import Tensor
from treadle.graph.traversal import users
from treadle.ops.families import Elementwise
from treadle.ops.movement import PermuteDims, Reshape
from treadle.ops.pool import MaxPool, MaxPoolGradient, SumPool, SumPoolGradient
from treadle.ops.window import Fold

__all__ = ["orders_of", "strides_in"]

Order = tuple[int, ...]
CHANNELS_LAST = (0, 2, 3, 1)


def orders_of(nodes: Sequence[Tensor], asked: Collection[int]) -> dict[int, Order]:
    """The order of dimensions, outermost first, of the nodes that are not row-major."""
    found: dict[int, Order] = {}
    readers = users(nodes)
    for node in nodes:
        if (
            node.serial in asked
            or not hasattr(node.type, "ndim")
            or node.type.ndim != 4
        ):
            continue
        if any(_flattens(node, r) for r in readers.get(node.serial, [])):
            continue
        if isinstance(node.op, PermuteDims) and node.op.order == (0, 3, 1, 2):
            found[node.serial] = CHANNELS_LAST  # as it lies where it is looked through
        elif isinstance(node.op, Fold):
            found[node.serial] = CHANNELS_LAST
        elif isinstance(
            node.op,
            (Elementwise, MaxPool, SumPool, MaxPoolGradient, SumPoolGradient),
        ):
            for x in node.inputs:
                if x.serial in found and x.type.ndim == 4:
                    same = x.type.shape == node.type.shape
                    if same or not isinstance(node.op, Elementwise):
                        found[node.serial] = found[x.serial]
                        break
    return found


def _flattens(node: Tensor, reader: Tensor) -> bool:
    """Whether a reader takes several dimensions of a node for one."""
    if not isinstance(reader.op, Reshape):
        return False
    before = [n for n in node.type.shape if n != 1]
    return before != [n for n in reader.type.shape if n != 1]


def strides_in(node: Tensor, order: Order) -> tuple[int, ...]:
    """The strides of a node in elements, dimensions lying in this order."""
    shape = node.type.shape
    return tuple(
        math.prod(shape[k] for k in order[order.index(d) + 1 :])
        for d in range(len(shape))
    )
