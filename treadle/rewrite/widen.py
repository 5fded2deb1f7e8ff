"""Contractions of 16-bit floats in float32: their results are rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not

from treadle.base.dtypes import HALF, float32
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import reach
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract


def is_half_product(node: Tensor) -> bool:
    """Whether a node is a contraction of 16-bit floats."""
    return type(node.op) is Contract and node.type.dtype in HALF


def widen(roots: dict[int, Tensor], before: Sequence[Tensor]) -> dict[int, Tensor]:
    """The roots, with contractions of 16-bit floats on operands cast to float32.

    After permutations have found their contraction, which a cast would part; the nodes
    `before` that tell whether there are any.
    """
    if not any(map(is_half_product, before)):
        return roots
    nodes = reach(roots.values())
    rewritten: dict[int, Tensor] = {}
    casts: dict[int, Tensor] = {}

    def cast(x: Tensor) -> Tensor:
        if x.serial not in casts:
            wide = x.type.with_dtype(float32)
            casts[x.serial] = Tensor(Cast(float32), (x,), wide)
        return casts[x.serial]

    for node in nodes:
        inputs = tuple([rewritten.get(x.serial, x) for x in node.inputs])
        if is_half_product(node):
            wide = node.type.with_dtype(float32)
            product = remade(node, node.op, tuple(map(cast, inputs)), wide)
            rewritten[node.serial] = Tensor(
                Cast(node.type.dtype), (product,), node.type
            )
        elif any(map(is_not, inputs, node.inputs)):
            rewritten[node.serial] = remade(node, node.op, inputs, node.type)
    return {serial: rewritten.get(x.serial, x) for serial, x in roots.items()}
