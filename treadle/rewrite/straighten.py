"""Contractions put into an order of dimensions that is a plain matrix product."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.contract import Contract, letters
from treadle.ops.movement import PermuteDims

__all__ = ["straighten"]


def straighten(roots: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """The roots, with each contraction as [batch, m, k] times [batch, k, n].

    The permutations this takes are looked through wherever memory allows.
    """
    made: dict[int, Tensor] = {}
    for node in reach(roots.values()):
        inputs = tuple(made.get(x.serial, x) for x in node.inputs)
        if isinstance(node.op, Contract):
            made[node.serial] = _ordered(node.op, inputs, node)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            made[node.serial] = Tensor(node.op, inputs, node.type)
            made[node.serial].origin = node.origin
    return {serial: made.get(x.serial, x) for serial, x in roots.items()}


def _ordered(op: Contract, inputs: tuple[Tensor, ...], node: Tensor) -> Tensor:
    """The contraction with its dimensions in groups: batch, m, k, n."""
    a, b, out = letters(op.spec)
    batch = "".join(c for c in out if c in a and c in b)
    m = "".join(c for c in out if c not in b)
    n = "".join(c for c in out if c not in a)
    k = "".join(c for c in a if c in b and c not in out)
    wanted = batch + m + k, batch + k + n, batch + m + n
    if (a, b, out) == wanted:
        found = Tensor(op, inputs, node.type)
    else:
        x, y = _permuted(inputs[0], a, wanted[0]), _permuted(inputs[1], b, wanted[1])
        found = Contract(f"{wanted[0]},{wanted[1]}->{wanted[2]}")(x, y)
    found.origin = node.origin
    return _permuted(found, wanted[2], out)


def _permuted(x: Tensor, own: str, wanted: str) -> Tensor:
    """x, with dimensions named by `own`, in the order of `wanted`."""
    if own == wanted:
        return x
    return PermuteDims(tuple(own.index(c) for c in wanted))(x)
