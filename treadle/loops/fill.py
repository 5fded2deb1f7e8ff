"""Loops around statements, and buffers filled with zeros."""

from __future__ import annotations

from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Const, Kernel, KernelArgument, Loop, Statement, Store
from treadle.loops.lower import Strides, placed

Kernels = list[tuple[Kernel, list[Tensor]]]


def nested(
    axes: list[LoopAxis], body: tuple[Statement, ...], kind: str
) -> tuple[Statement, ...]:
    """Loops of one kind around a body."""
    for axis in reversed(axes):
        body = (Loop(axis, body, kind),)
    return body


def zeros(node: Tensor, strides: Strides) -> tuple[Kernel, list[Tensor]]:
    """The kernel that fills a node's buffer with zeros."""
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(node.type.shape)]
    place = placed([Index.of(a) for a in axes], strides(node))
    store = Store(0, place, Const(0, node.type.dtype))
    loops = nested([a for a in axes if a.extent != 1], (store,), "parallel")
    return Kernel("zeros", (KernelArgument(node.type.dtype, True),), loops), [node]
