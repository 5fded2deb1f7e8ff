"""A graph of a family with other extents, without values: to be compiled, not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from treadle.base.errors import TreadleError
from treadle.base.symbolic import SymbolicNumber, is_symbolic
from treadle.base.types import Type
from treadle.engines.native.translation.keys import Structure
from treadle.graph.body import Body
from treadle.graph.extents import EXTENTS, is_extent, sized
from treadle.graph.frame import tracing
from treadle.graph.leaves import LITERAL, Constant
from treadle.graph.origin import held
from treadle.graph.tensor import Tensor

Feeds = dict[int, Any]


def resized(
    graph: Structure, feeds: Mapping[int, Any], extents: Iterable[int]
) -> tuple[Structure, Feeds] | None:
    """The structure of a run for the extents of one of its family, and its feeds.

    None where an op takes no such operands, or where there are values with recipes.
    """
    if graph.recipes:
        return None
    integers = iter(extents)
    other, new_feeds = Structure(), dict.fromkeys(feeds)
    bodies: dict[Body, Body] = {}
    nodes = other.nodes
    try:
        with tracing("other extents"), held():
            for x in graph.nodes:
                if x.op is LITERAL or x.stored is not None or x.serial in feeds:
                    node = (
                        _number(x, integers) if x.op is LITERAL else _leaf(x, integers)
                    )
                    new_feeds[node.serial] = None
                else:
                    inputs = tuple([nodes[graph.place[y.serial]] for y in x.inputs])
                    node = _node(x, inputs, integers, bodies)
                other.place[node.serial] = len(nodes)
                nodes.append(node)
    except TreadleError:
        return None
    return other, new_feeds


def _number(x: Tensor, integers: Iterator[int]) -> Tensor:
    value = x.array
    assert value is not None
    if not sized(value):
        return x
    size = next(integers)
    make: Any = np.array if type(size) is int else partial(SymbolicNumber, np.array)
    return Tensor(x.op, (), x.type, make(size, value.dtype))


def _leaf(x: Tensor, integers: Iterator[int]) -> Tensor:
    shape = _filled(x.type.shape, integers)
    if not any(map(is_symbolic, shape)) and shape == x.type.shape:
        return x
    return Tensor(x.op, (), Type(shape, x.type.dtype, x.type.axes))


def _node(
    x: Tensor,
    inputs: tuple[Tensor, ...],
    integers: Iterator[int],
    bodies: dict[Body, Body],
) -> Tensor:
    op = x.op
    changed: dict[str, Any] = {}
    for f in fields(op):  # type: ignore[arg-type]
        value = getattr(op, f.name)
        if f.name in EXTENTS:
            changed[f.name] = _filled(value, integers)
        elif isinstance(value, Body):
            changed[f.name] = _body(value, integers, bodies)
    if changed:
        op = replace(op, **changed)  # type: ignore[type-var]
    op.check(inputs)
    type_: Any = op.infer(*[y.type for y in inputs])
    return Tensor(op, inputs, type_)


def _body(body: Body, integers: Iterator[int], bodies: dict[Body, Body]) -> Body:
    """A body for other extents: one for each that there was."""
    if body.sign_parts() is None:
        return body
    nodes: dict[int, Tensor] = {}
    for x in body.nodes:
        if x.inputs or not isinstance(x.type, Type):
            inputs = tuple([nodes[y.serial] for y in x.inputs])
            nodes[x.serial] = _node(x, inputs, integers, bodies)
        elif isinstance(x.op, Constant):
            nodes[x.serial] = x if x.type.shape else _number(x, integers)
        else:
            nodes[x.serial] = _leaf(x, integers)
    if body not in bodies:
        ends = body.arguments, body.outputs
        bodies[body] = Body(
            body.name, *[[nodes[x.serial] for x in end] for end in ends]
        )
    return bodies[body]


def _filled(x: Any, integers: Iterator[int]) -> Any:
    """Integers in tuples, taken from elsewhere."""
    if isinstance(x, tuple):
        return tuple([_filled(part, integers) for part in x])
    return next(integers) if is_extent(x) else x
