"""A graph as it is where building shares nothing: each op by primitives of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.engines.native.translation.translate import claimed
from treadle.graph.body import Body
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.families import Composite, Elementwise, Output

__all__ = ["spelled"]


def spelled(body: Body) -> list[Tensor]:
    """The nodes of a traced body, its composites written out one by one.

    What the program's text names once is one node; nothing else is found to be equal.
    """
    made: dict[int, Any] = {}
    with pushed(TraceFrame("spelled out")):
        for node in body.nodes:
            made[node.serial] = _written(node, made)
    return reach([made[y.serial] for y in body.outputs])


def _written(node: Tensor, made: Mapping[int, Any]) -> Any:
    """A node on what its inputs became; several where it has several results."""
    op: Any = node.op
    if not node.inputs:
        return node
    inputs = tuple(made[x.serial] for x in node.inputs)
    if isinstance(op, Output) and isinstance(inputs[0], tuple):
        return inputs[0][op.position]
    primitive = isinstance(op, Elementwise) and op.traits.primitive
    if primitive or not isinstance(op, (Composite, Elementwise)) or claimed(op):
        return Tensor(op, inputs, node.type)
    out = op.expand(*inputs) if isinstance(op, Composite) else op.scalar(*inputs)
    own: dict[int, Any] = {x.serial: x for x in inputs}
    several = out if isinstance(out, tuple) else (out,)
    for inner in reach(several, lambda x: x.serial in own):
        if inner.serial not in own:
            own[inner.serial] = _written(inner, own)
    found = tuple(own[y.serial] for y in several)
    return found if isinstance(out, tuple) else found[0]
