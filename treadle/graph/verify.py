"""Checks of a graph: what must hold of every node, told in one message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType, Type
from treadle.graph.leaves import Argument, Leaf, Unbound, as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.text import bodies_of
from treadle.graph.traversal import reach

__all__ = ["verify"]


def problems(nodes: Sequence[Tensor]) -> Iterator[tuple[Tensor, str]]:
    """Each node that breaks a rule, with the rule."""
    for node in nodes:
        yield from ((node, message) for message in _problems_of(node))


def _problems_of(node: Tensor) -> Iterator[str]:
    for x in node.inputs:
        if x.serial >= node.serial:
            yield f"reads {x.name}, which was made after it"
    if isinstance(node.op, Leaf):
        yield from _leaf_problems(node)
        return
    if not node.inputs and node.op.arity:
        yield "has lost its inputs"
        return
    try:
        node.op.check(node.inputs)
        inferred = node.op.infer(*[x.type for x in node.inputs])
    except TreadleError as error:
        yield f"does not fit its inputs: {error.message}"
        return
    if not _same(inferred, node.type):
        yield f"has type {node.type}, its inputs make {inferred}"
    yield from _value_problems(node)


def _leaf_problems(node: Tensor) -> Iterator[str]:
    if node.inputs:
        yield "is a leaf with inputs"
    if node.stored is None:
        if isinstance(node.op, Unbound):
            yield f"placeholder {node.op.variable.name!r} is not bound"
        elif not isinstance(node.op, Argument):
            yield "is a leaf without a value"
    yield from _value_problems(node)


def _value_problems(node: Tensor) -> Iterator[str]:
    value = node.stored
    if value is None or isinstance(node.type, TupleType):
        return
    if value.shape != node.type.shape or value.dtype != node.type.dtype:
        value_type = Type(value.shape, value.dtype)
        yield f"has type {node.type} and a value of {value_type}"
    if isinstance(value, np.ndarray) and value.flags.writeable:
        yield "has a value that could be changed"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, TupleType) or isinstance(b, TupleType):
        return isinstance(a, TupleType) and isinstance(b, TupleType) and a == b
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def verify(y: Any) -> tuple[bool, str]:
    """Return whether the graph of `y` (a tensor, or a tree of them) is sound, and why
    not.

    The message names the first node that breaks a rule, and its line.

    >>> td.verify(td.constant(1.0) + 2.0)
    (True, '')
    >>> "placeholder 'x' is not bound" in td.verify(td.placeholder(name="x") + 2.0)[1]
    True
    """
    leaves, _ = trees.flatten(y)
    nodes = reach(functions.written_out([as_tensor(leaf) for leaf in leaves]))
    for node, message in problems(nodes):
        return False, _told(node, message)
    for body in bodies_of(nodes):
        for node, message in problems(body.nodes):
            return False, f"in {body.name}: {_told(node, message)}"
    return True, ""


def _told(node: Tensor, message: str) -> str:
    where = f" (at {node.line})" if node.line else ""
    return f"{node.name}: {message}{where}"
