"""Bodies of nodes of a graph: the same one for nodes that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.caches import Cache
from treadle.base.types import Type
from treadle.graph.body import Body, sign_of
from treadle.graph.frame import tracing
from treadle.graph.leaves import Argument, bits_of
from treadle.graph.tensor import Tensor
from treadle.ops.families import Output, outputs_of

TEMPLATES = 512  # what is kept of a kind, bodies among it

_bodies: Cache[Any, Body] = Cache("bodies of rows", TEMPLATES)


def body_of(
    name: str,
    nodes: Sequence[Tensor],
    operands: Sequence[int | Tensor],
    types: Sequence[Type],
    results: Sequence[int],
) -> Body:
    """The body that makes all of `results` of arguments of some types.

    `operands` are those of all nodes: the place of one among these, the complement of
    that of an argument, or a literal.
    """
    key = (
        name,
        tuple([(sign_of(x.op), len(x.inputs)) for x in nodes]),
        tuple([x if isinstance(x, int) else (x.type, bits_of(x)) for x in operands]),
        tuple(types),
        tuple(results),
    )
    body = _bodies.get(key)
    if body is not None:
        return body
    with tracing(name):
        arguments = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
        copies = _again(nodes, operands, arguments)
        ends = [y for k in results for y in outputs_of(copies[k])]
        body = _bodies[key] = Body(name, arguments, ends)
    return body


def _again(
    nodes: Sequence[Tensor],
    operands: Sequence[int | Tensor],
    arguments: Sequence[Tensor],
) -> list[Tensor]:
    """The nodes made again, of arguments."""
    copies: list[Tensor] = []
    rest = iter(operands)

    def operand() -> Tensor:
        x = next(rest)
        if isinstance(x, Tensor):
            return x
        return copies[x] if x >= 0 else arguments[~x]

    for node in nodes:
        read = [operand() for _ in node.inputs]
        if type(node.op) is Output:
            copies.append(outputs_of(read[0])[node.op.position])
        else:
            copies.append(node.op(*read))
            copies[-1].origin = node.origin
    return copies
