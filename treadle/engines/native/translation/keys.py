"""The structure of a graph as a key: what programs are found by.

Ops, types and literals are written as negative numbers (`graph/numbers.py`), so that a
look-up compares numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.graph.leaves import LITERAL
from treadle.graph.numbers import number, number_of
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import opened
from treadle.graph.variable import Update
from treadle.program.layout import order_of


def layout_of(node: Tensor) -> tuple[int, ...]:
    """The order in which the value of a node lies, if it is not row-major.

    So do values that a program has kept for a gradient to come.
    """
    value = node.stored
    return order_of(value) if isinstance(value, np.ndarray) else ()


class Structure:
    """The nodes of a run in an order that structure alone decides, and their key."""

    __slots__ = ("leaves", "nodes", "parts", "place", "recipes")

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.place: dict[int, int] = {}
        self.parts: list[int] = []
        self.leaves: set[int] = set()  # what has a value, and is nothing else here
        self.recipes: set[int] = set()  # what has a value and is yet derived

    def leaf(self, x: Tensor) -> None:
        """Give a place to a node that has a value."""
        self.place[x.serial] = len(self.nodes)
        self.leaves.add(x.serial)
        self.nodes.append(x)
        t: Any = x.type
        if x.op is LITERAL:
            value = x.array
            assert value is not None
            self.parts.append(number(("literal", t.dtype, value.tobytes())))
        else:  # in parts, which compare sooner than a Type
            self.parts.append(number(("leaf", t.shape, t.dtype, t.axes)))

    def key(self, keep: Iterable[int], *options: Any) -> tuple[int, ...]:
        """A key that also tells which nodes are kept and the options."""
        kept = sorted([self.place[s] for s in keep])
        return (*self.parts, number(options), *kept)


def structure(
    nodes: Sequence[Tensor], feeds: Mapping[int, Any], keep: Set[int]
) -> Structure:
    """The structure of a run: what has a value stands before what reads it first.

    So it does not matter when the values were made, only what is done with them.
    """
    graph = Structure()
    place, order, parts = graph.place, graph.nodes, graph.parts
    recipes = graph.recipes = opened(nodes)
    for node in nodes:
        serial = node.serial
        inputs = node.inputs
        if node.stored is not None or serial in feeds:
            if serial not in recipes:
                if serial in keep:
                    graph.leaf(node)
                continue
            is_recipe = -1
        else:
            is_recipe = 0
        for x in inputs:
            if x.serial not in place:
                graph.leaf(x)
        place[serial] = len(order)
        order.append(node)
        op = node.op
        if is_recipe:
            parts.append(number(("recipe", layout_of(node))))
        # Of which Variable an Update is a version is nothing to its program.
        parts.append(number(Update) if type(op) is Update else number_of(op))
        for x in inputs:
            parts.append(place[x.serial])
    return graph
