"""Loops around statements, and buffers filled with zeros."""

from __future__ import annotations

from treadle.graph.tensor import Tensor
from treadle.loops.index import Axis, Index
from treadle.loops.kernel import Argument, Kernel, Literal, Loop, Statement, Store
from treadle.loops.lower import Strides, placed

Kernels = list[tuple[Kernel, list[Tensor]]]


def nested(
    axes: list[Axis], body: tuple[Statement, ...], kind: str
) -> tuple[Statement, ...]:
    """Loops of one kind around a body."""
    for axis in reversed(axes):
        body = (Loop(axis, body, kind),)
    return body


def zeros(node: Tensor, strides: Strides) -> tuple[Kernel, list[Tensor]]:
    """The kernel that fills a node's buffer with zeros."""
    axes = [Axis(f"i{k}", n) for k, n in enumerate(node.type.shape)]
    place = placed([Index.of(a) for a in axes], strides(node))
    store = Store(0, place, Literal(0, node.type.dtype))
    loops = nested([a for a in axes if a.extent != 1], (store,), "parallel")
    return Kernel("zeros", (Argument(node.type.dtype, True),), loops), [node]
