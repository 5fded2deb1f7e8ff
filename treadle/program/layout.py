"""Layouts of the buffers inside a program: images with channels last.

Convolutions are quickest on channels that lie side by side, and what is computed
element by element of their results, cut out or joined takes over their order. What the
user gives or gets is row-major; the kernels at the rim read or write it so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.types import TupleType, equal_shapes
from treadle.graph.tensor import Tensor
from treadle.ops.convolution import Conv, ConvInputGradient
from treadle.ops.families import Elementwise
from treadle.ops.join import Concat
from treadle.ops.movement import PermuteDims, Reshape
from treadle.ops.padding import Pad
from treadle.ops.pool import MaxPool, MaxPoolGradient, SumPool, SumPoolGradient
from treadle.ops.slice import Slice
from treadle.ops.window import Fold

IMAGES = (Conv, ConvInputGradient, Fold)
# These take over the order of an operand.
FOLLOWERS = (
    *(Elementwise, MaxPool, SumPool, MaxPoolGradient, SumPoolGradient),
    *(Concat, Pad, Slice),
)

Order = tuple[int, ...]


def channels_last(ndim: int) -> Order:
    """The order of an image's dimensions with the channels innermost."""
    return (0, *range(2, ndim), 1)


def orders_of(
    nodes: Sequence[Tensor], asked: Collection[int], known: Mapping[int, Order]
) -> dict[int, Order]:
    """The order of dimensions, outermost first, of the nodes that are not row-major.

    What is `asked` for is; `known` are the orders of arguments.
    """
    orders = dict(known)
    flattened = {
        node.inputs[0].serial
        for node in nodes
        if isinstance(node.op, Reshape) and _flattens(node.inputs[0], node)
    }
    for node in nodes:
        if node.serial in asked or isinstance(node.type, TupleType):
            continue
        ndim = node.type.ndim
        if not 3 <= ndim <= 5:
            continue
        if node.serial in flattened:
            continue
        if isinstance(node.op, IMAGES) or _moves_channels(node):
            orders[node.serial] = channels_last(ndim)
        elif isinstance(node.op, FOLLOWERS):
            for x in node.inputs:
                if x.serial in orders and x.type.ndim == ndim:
                    same = equal_shapes(x.type.shape, node.type.shape)
                    if same or not isinstance(node.op, Elementwise):
                        orders[node.serial] = orders[x.serial]
                        break
    return orders


def _moves_channels(node: Tensor) -> bool:
    """Whether a node is a view of images that lie with channels last."""
    op, ndim = node.op, node.type.ndim
    order = (0, ndim - 1, *range(1, ndim - 1))
    return ndim > 3 and isinstance(op, PermuteDims) and op.order == order


def _flattens(node: Tensor, reader: Tensor) -> bool:
    """Whether a reshape takes several dimensions of a node for one."""
    before = [n for n in node.type.shape if n != 1]
    return before != [n for n in reader.type.shape if n != 1]


def strides_in(node: Tensor, order: Order) -> tuple[int, ...]:
    """The strides of a node in elements, dimensions lying in this order."""
    shape = node.type.shape
    return tuple(
        math.prod(shape[k] for k in order[order.index(d) + 1 :])
        for d in range(len(shape))
    )


def laid(memory: np.ndarray[Any, Any], order: Order) -> np.ndarray[Any, Any]:
    """The array whose dimensions lie in this order in `memory`.

    >>> laid(np.zeros((2, 5, 3)), (0, 2, 1)).shape
    (2, 3, 5)
    """
    return memory.transpose([order.index(k) for k in range(len(order))])


def order_of(x: np.ndarray[Any, Any]) -> Order:
    """The order of an array's dimensions in memory; () if row-major or with gaps.

    >>> order_of(laid(np.zeros((2, 5, 3)), (0, 2, 1))), order_of(np.zeros((2, 3)))
    ((0, 2, 1), ())
    """
    if x.flags.c_contiguous:
        return ()
    order = tuple(sorted(range(x.ndim), key=lambda k: (-x.strides[k], k)))
    return order if x.transpose(order).flags.c_contiguous else ()
