"""Loops around statements, and buffers filled with zeros."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.base.types import Shape
from treadle.graph.tensor import Tensor
from treadle.loops.index import Axis, Index
from treadle.loops.kernel import Argument, Kernel, Literal, Loop, Statement, Store

__all__ = ["Kernels", "nested", "place_of", "zeros"]

Kernels = list[tuple[Kernel, list[Tensor]]]


def nested(
    axes: list[Axis], body: tuple[Statement, ...], kind: str
) -> tuple[Statement, ...]:
    """Loops of one kind around a body."""
    for axis in reversed(axes):
        body = (Loop(axis, body, kind),)
    return body


def place_of(at: Sequence[Index], shape: Shape) -> Index:
    """The place of an element in row-major order."""
    found = Index()
    for i, n in zip(at, shape, strict=True):
        found = found * n + i
    return found


def zeros(node: Tensor) -> tuple[Kernel, list[Tensor]]:
    """The kernel that fills a node's buffer with zeros."""
    axes = [Axis(f"i{k}", n) for k, n in enumerate(node.type.shape)]
    place = place_of([Index.of(a) for a in axes], node.type.shape)
    store = Store(0, place, Literal(0, node.type.dtype))
    loops = nested([a for a in axes if a.extent != 1], (store,), "parallel")
    return Kernel("zeros", (Argument(node.type.dtype, True),), loops), [node]
