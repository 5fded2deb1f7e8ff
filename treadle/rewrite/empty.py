"""Values without elements: known from their types, so that nothing computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.base.symbolic import zeros
from treadle.base.types import Type
from treadle.graph.leaves import LITERAL
from treadle.graph.meaning import is_empty
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import rebuild


def empty(type_: Type) -> Tensor:
    """The constant of a type without elements."""
    array = zeros(type_.shape, type_.dtype)
    array.setflags(write=False)
    return Tensor(LITERAL, (), type_, array)


def is_computed(node: Tensor) -> bool:
    """Whether a node has elements, or is a leaf."""
    return not node.inputs or not is_empty(node.op, node.type)


def without_empty(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor]
) -> dict[int, Tensor]:
    """The roots with constants for what has no elements; `nodes` lead to them all."""
    constants: dict[int, Tensor] = {}
    for node in nodes:
        if not is_computed(node):
            assert isinstance(node.type, Type)
            constants[node.serial] = empty(node.type)
    if not constants:
        return dict(roots)
    return dict(zip(roots, rebuild(roots.values(), constants), strict=True))
