"""The structure of a graph as a key: what programs are found by.

Ops, types and literals are written as negative numbers (`graph/numbers.py`), so that a
look-up compares numbers alone.

Graphs that differ in extents alone are a family: `family` tells its key, and the
extents of one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.types import Type
from treadle.graph.body import Body, sign_of
from treadle.graph.leaves import LITERAL, Constant
from treadle.graph.numbers import known_by, number, number_of
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import opened
from treadle.graph.variable import Update
from treadle.program.layout import order_of

__all__ = ["EXTENTS", "Open", "Structure", "family", "lies", "sized", "structure"]

KNOWN = 1 << 16  # ops and types without extents
# Fields of ops that hold extents, or where something begins and ends.
EXTENTS = {"shape", "extents", "extent", "count", "columns", "mask"}
EXTENTS |= {"starts", "stops", "widths"}
WRITTEN = 8  # rules look for no larger number
LARGE = 1 << 31  # no size in a literal

Open = tuple[Any, tuple[int, ...]]  # what is left without extents, and these

_open: Cache[int, Open] = Cache("ops and types without extents", KNOWN)


def family(key: Sequence[int], nodes: Sequence[Tensor]) -> Open | None:
    """The key that a family of graphs has in common, and the extents of this one.

    `nodes` are those of the structure. None if too much has been numbered since.
    """
    parts: list[int] = []
    extents: list[int] = []
    for part in key:
        if part >= 0:
            parts.append(part)
            continue
        known = _open.get(part)
        if known is None:
            x = known_by(part)
            if x is None:
                return None
            known = _open[part] = _opened(part, x, nodes)
        parts.append(known[0])
        extents += known[1]
    return tuple(parts), tuple(extents)


def _opened(own: int, x: Any, nodes: Sequence[Tensor]) -> Open:
    """The number of a thing without the extents in it, and these; `own` is its own."""
    found: list[int] = []
    if type(x) is tuple and isinstance(x[0], type):  # the sign of an op with bodies
        ops = (node.op for node in nodes if type(node.op) is x[0])
        x = next((op for op in ops if sign_of(op) == x), x)
    if isinstance(x, Op):
        shown = _op(x, found)
        return (number(shown), tuple(found)) if found else (own, ())
    if type(x) is not tuple:
        return own, ()
    if x[0] == "leaf":
        _, shape, *rest = x
        return number(("leaf", _without(shape, found), *rest)), tuple(found)
    if x[0] == "literal":
        _, dtype, raw = x
        value = np.frombuffer(raw, dtype)[0]
        if sized(value):
            return number(("literal", dtype, None)), (int(value),)
    return own, ()


def _op(op: Op, found: list[int]) -> Any:
    """An op without extents, which are moved to a list."""
    shown: list[Any] = [type(op)]
    for f in fields(op):  # type: ignore[arg-type]
        value = getattr(op, f.name)
        if f.name in EXTENTS:
            value = _without(value, found)
        shown.append(_body(value, found) if isinstance(value, Body) else value)
    return tuple(shown)


def _body(body: Body, found: list[int]) -> Any:
    """A body without extents, which are moved to a list."""
    if body.sign_parts() is None:
        return "body", body.sign
    place = {node.serial: k for k, node in enumerate(body.nodes)}
    parts: list[Any] = []
    for x in body.nodes:
        read = tuple([place[y.serial] for y in x.inputs])
        shown, type_ = _op(x.op, found), x.type
        if x.inputs or not isinstance(type_, Type):
            parts.append((shown, read))
        elif isinstance(x.op, Constant):
            assert x.array is not None
            if not type_.shape and sized(x.array):
                found.append(int(x.array))
                parts.append((shown, type_))
            else:
                parts.append((shown, type_, x.array.tobytes()))
        else:
            shape = _without(type_.shape, found)
            parts.append((shown, shape, type_.dtype, type_.axes))
    ends = body.arguments, body.outputs
    places = [tuple([place[x.serial] for x in own]) for own in ends]
    return tuple(parts), tuple(places)


def sized(literal: Any) -> bool:
    """Whether a number may come from a size."""
    if literal.dtype.kind not in "fiu":
        return False
    value = float(literal)
    return WRITTEN < abs(value) < LARGE and value.is_integer()


def _without(x: Any, found: list[int]) -> Any:
    """Integers in tuples, moved to a list."""
    if isinstance(x, tuple):
        return tuple([_without(part, found) for part in x])
    if type(x) is int:
        found.append(x)
        return None
    return x


def lies(node: Tensor) -> tuple[int, ...]:
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
    made = Structure()
    place, order, parts = made.place, made.nodes, made.parts
    recipes = made.recipes = opened(nodes)
    for node in nodes:
        serial = node.serial
        inputs = node.inputs
        if node.stored is not None or serial in feeds:
            if serial not in recipes:
                if serial in keep:
                    made.leaf(node)
                continue
            own = -1
        else:
            own = 0
        for x in inputs:
            if x.serial not in place:
                made.leaf(x)
        place[serial] = len(order)
        order.append(node)
        op = node.op
        if own:
            parts.append(number(("recipe", lies(node))))
        # Of which Variable an Update is a version is nothing to its program.
        parts.append(number(Update) if type(op) is Update else number_of(op))
        for x in inputs:
            parts.append(place[x.serial])
    return made
