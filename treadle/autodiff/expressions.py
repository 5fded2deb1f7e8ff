"""Stabilized derivatives of expressions that overflow where mathematics does not.

The logarithm of a sigmoid is minus infinity where the sigmoid rounds to zero, and a
derivative through it op by op is no number. Rules know such expressions, but not all
that becomes of them in a derivative, nor in rows, which are done op by op. So an
expression is found first, as one body that the rules have made right: that is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle.base.caches import Cache
from treadle.base.options import current
from treadle.base.symbolic import bits
from treadle.base.types import TupleType, has_names
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.leaves import LITERAL, Argument
from treadle.graph.numbers import number, number_of
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import rebuild
from treadle.ops.activation import Sigmoid
from treadle.ops.elementary import Cosh, Exp, Sinh, Tanh
from treadle.ops.elementwise import Divide, Negative
from treadle.ops.families import Elementwise, Movement, Reduction
from treadle.ops.gather import Index
from treadle.ops.loss import PickLabel
from treadle.ops.pick import TakeAlong
from treadle.ops.power import Expm1, Log, Log1p, Reciprocal
from treadle.ops.softmax import Softmax

ENDS = (Log, Log1p, Divide, Reciprocal)  # the last op of such an expression
GROWS = (Exp, Expm1, Sigmoid, Softmax, Tanh, Sinh, Cosh)  # it has one of these
CHOOSES = (
    Movement,
    PickLabel,
    TakeAlong,
    Index,
)  # what moves elements and computes none
BETWEEN = (Elementwise, Reduction, Softmax, *CHOOSES)
MOST = 24  # ops of an expression
KNOWN = 256  # expressions whose bodies are kept

Between = Callable[[Tensor], bool]
_bodies: Cache[Any, Body | None] = Cache("expressions", KNOWN)


@dataclass
class Expression:
    """Nodes in order, the last one is the result, and those that they read; `key` says
    how they do it.
    """

    inside: list[Tensor] = field(default_factory=list)
    read: list[Tensor] = field(default_factory=list)
    key: list[int] = field(default_factory=list)


Expressed = tuple[Body, Expression]  # what an expression comes to, and itself


def expression(last: Tensor, between: Between) -> Expression | None:
    """The expression that ends with a node, of nodes that may be `between`.

    None if nothing in it grows as exponentials do, or if it is long. What such an op
    reads is no part of it, but for its sign.
    """
    result = Expression()
    place: dict[int, int] = {}
    grows = False
    stack = [(last, False)]  # each with whether an op that grows reads it
    while stack:
        node, below = stack[-1]
        inner = node is last or (isinstance(node.op, BETWEEN) and between(node))
        if node.serial in place:
            stack.pop()
        elif not inner or (below and type(node.op) is not Negative):
            stack.pop()
            _read(result, place, node)
        else:
            under = below or isinstance(node.op, GROWS)
            more = [(x, under) for x in node.inputs if x.serial not in place]
            if more:
                stack += reversed(more)
            else:
                stack.pop()
                place[node.serial] = len(result.inside)
                result.inside.append(node)
                result.key += [
                    number_of(node.op),
                    *[place[x.serial] for x in node.inputs],
                ]
                grows = grows or isinstance(node.op, GROWS)
        if len(stack) + len(result.inside) > 2 * MOST:
            return None
    return result if grows and result.read and len(result.inside) <= MOST else None


def _read(expression: Expression, place: dict[int, int], node: Tensor) -> None:
    """Note what an expression reads; a literal is a part of it."""
    if node.op is LITERAL and node.array is not None:
        place[node.serial] = number(("literal", node.type, bits(node.array)))
    else:
        place[node.serial] = number(("operand", len(expression.read), node.type))
        expression.read.append(node)


def body_of(expression: Expression) -> Body | None:
    """The stabilized body of an expression; None if no rule makes it right."""
    key = current().compilation, *expression.key
    body: Body | bool | None = _bodies.get(key, False)
    if isinstance(body, bool):
        body = _bodies[key] = _made(expression)
    return body


def _made(expression: Expression) -> Body | None:
    if any(isinstance(x.type, TupleType) or has_names(x.type) for x in expression.read):
        return None  # rules know no names
    last = expression.inside[-1]
    with tracing(last.op.name):
        arguments = [
            Tensor(Argument(k), (), x.type) for k, x in enumerate(expression.read)
        ]
        pairs = zip(expression.read, arguments, strict=True)
        result = functions.stabilized(rebuild([last], {x.serial: a for x, a in pairs}))
    return None if result is None else Body(last.op.name, arguments, result)


@provide
def inlined(body: Body, read: Sequence[Tensor]) -> Tensor:
    """A body's result, of these operands. Its numbers are made again: no graph reads
    those of another one.
    """
    replaced = {a.serial: x for a, x in zip(body.arguments, read, strict=True)}
    for x in body.nodes:
        if x.stored is not None:
            replaced[x.serial] = Tensor(x.op, (), x.type, x.stored)
    (result,) = rebuild(body.outputs, replaced)
    return result


@provide
def expressions_in(nodes: Iterable[Tensor], between: Between) -> dict[int, Expressed]:
    """The expressions that end with one of some nodes, by its serial."""
    expressed = {}
    for node in nodes:
        candidate = expression(node, between) if isinstance(node.op, ENDS) else None
        body = None if candidate is None else body_of(candidate)
        if candidate is not None and body is not None:
            expressed[node.serial] = body, candidate
    return expressed
