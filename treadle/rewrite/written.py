"""Expansions of ops into smaller ones, found once for equal types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.base.caches import Cache
from treadle.base.options import current
from treadle.base.types import without_names
from treadle.graph.leaves import LITERAL, Argument, bits_of
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.families import Composite


@dataclass(frozen=True)
class Written:
    """An op written in smaller ones: nodes over arguments, in order."""

    arguments: tuple[Tensor, ...]
    nodes: list[Tensor]
    outputs: tuple[Tensor, ...]
    several: bool


KNOWN = 1024  # ops on operands of some types
_known: Cache[Any, Written] = Cache("ops written out", KNOWN)


def written(op: Any, operands: Sequence[Tensor]) -> Written:
    """The expansion of an op; made once for operands of the same types.

    A rule may look at a number that is an operand, and at which operands are the same.
    """
    first: dict[int, int] = {}
    places = [first.setdefault(x.serial, len(first)) for x in operands]
    types = [(without_names(x.type), bits_of(x)) for x in operands]
    key = op, current().compilation, *places, *types
    recipe = _known.get(key)
    if recipe is not None:
        return recipe
    by_serial: dict[int, Tensor] = {}
    for x in operands:
        if x.serial not in by_serial:
            bare = Tensor(Argument(len(by_serial)), (), without_names(x.type))
            by_serial[x.serial] = x if x.op is LITERAL else bare
    arguments = tuple([by_serial[x.serial] for x in operands])
    result = (
        op.expand(*arguments) if isinstance(op, Composite) else op.scalar(*arguments)
    )
    outputs = result if isinstance(result, tuple) else (result,)
    known = {x.serial for x in arguments}
    nodes = [x for x in reach(outputs) if x.serial not in known]
    recipe = Written(arguments, nodes, outputs, isinstance(result, tuple))
    # A node of numbers alone would be a part of every graph.
    if not any(x.inputs and all(y.op is LITERAL for y in x.inputs) for x in nodes):
        _known[key] = recipe
    return recipe
