"""Nodes made in machine code, by the interpreter's own functions.

`make_node`, `make_results` and `track` of `graph/tensor.py` as built-in functions: a
node has twelve fields, and Python takes longer to fill them than for all the rest of a
recorded op. Where nodes do not lie as expected the ones in Python stay.

A node that is closed is not seen by Python's cyclic garbage collector, as the
interpreter's own tuples of numbers are not, nor are the tuples of several results: it
refers to older nodes and plain data, so it is in no cycle, and counting references is
enough. Graphs of trees have tens of thousands of such nodes, which the collector would
go through again and again. Where a node comes to refer to something else it is shown to
the collector (`track`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from treadle.base.routine import routine
from treadle.engines.native.objects.interpreter import (
    Interpreter,
    addresses,
    builtin,
    keep,
)
from treadle.engines.native.objects.things import (
    Bytes,
    Int,
    Node,
    Nodes,
    Object,
    Tuple,
    number,
)
from treadle.engines.native.routines.compiled import code
from treadle.engines.native.routines.memory import Array, prefetch
from treadle.graph.serials import LOOK
from treadle.graph.tensor import makers

__all__ = ["provide_makers"]


@routine
def closed(api: Interpreter, notes: Object) -> bool:
    """Whether notes are plain data; not so where they do not tell."""
    told = api.getattr(notes, api.closed)
    if told is None:
        api.clear()
        return False
    api.decref(told)
    return told is api.true


@routine
def hide(api: Interpreter, nodes: Tuple) -> None:
    """Hide a tuple of nodes from the collector where it sees none of these."""
    for k in range(nodes.size):
        if api.tracked(nodes.items[k]):
            return
    api.untrack(nodes)


@routine
def depth_of(inputs: Nodes) -> int:
    """How deep a node lies that reads some others."""
    depth = 0
    for k in range(inputs.size):
        depth = max(depth, number(inputs.items[k].depth) + 1)
    return depth


@routine
def fresh(
    api: Interpreter,
    kind: Object,
    op: Object,
    inputs: Nodes,
    type_: Object,
    stored: Object,
    depth: int,
    code: Object,
    offset: Object,
    notes: Object,
    hidden: bool,
) -> Node:
    """A node that lies so deep, out of the collector's sight if it is to be hidden;
    null where the interpreter has raised something.
    """
    node = cast(Node, api.alloc(kind, 0))
    if node is None:
        return None
    node.op = keep(api, op)
    node.inputs = cast(Nodes, keep(api, inputs))
    node.type = keep(api, type_)
    node.stored = keep(api, stored)
    node._code = keep(api, code)
    node._offset = keep(api, offset)
    node._metadata = keep(api, notes)
    node._name = keep(api, api.none)
    node.mark = keep(api, api.none)
    node.depth = api.long(depth)
    node.serial = cast(Int, api.noargs(api.next))
    if node.depth is None or node.serial is None:
        api.decref(node)
        return None
    _fetch(node)
    if number(node.serial) & LOOK == 0:
        said = api.onearg(api.warn, node)
        if said is None:
            api.decref(node)
            return None
        api.decref(said)
    if hidden:
        api.untrack(node)
        api.untrack(inputs)
    return node


@routine
def _fetch(node: Node) -> None:
    """Fetch the memory of what will soon be made behind this: what an earlier graph had
    is mostly taken in order again, and lies in no cache any more.
    """
    prefetch(node, 640, True)
    prefetch(node, 704, True)
    prefetch(node.inputs, 256, True)
    prefetch(node.serial, 192, True)


@routine
def selected(api: Interpreter, kind: Object, node: Node, ops: Tuple) -> Tuple:
    """A tuple of nodes, one for each op: the results of another."""
    hidden = not api.tracked(node)
    depth = number(node.depth) + 1
    types = cast(Tuple, node.type)
    found = api.tuple(ops.size)
    if found is None:
        return None
    for k in range(ops.size):
        inputs = cast(Nodes, api.tuple(1))
        if inputs is None:
            api.decref(found)
            return None
        inputs.items[0] = cast(Node, keep(api, node))
        result = fresh(
            api,
            kind,
            ops.items[k],
            inputs,
            types.items[k],
            api.none,
            depth,
            node._code,
            node._offset,
            node._metadata,
            hidden,
        )
        api.decref(inputs)
        if result is None:
            api.decref(found)
            return None
        found.items[k] = result
    hide(api, found)
    return found


# -- built-in functions: the interpreter's, arguments, how many ------------------------


@routine
def node(own: Bytes, args: Array[Object], given: int) -> Node:
    """node(class, op, inputs, type, stored, code, offset, notes, closed)"""
    api = cast(Interpreter, own)
    inputs = cast(Nodes, args[2])
    return fresh(
        api,
        args[0],
        args[1],
        inputs,
        args[3],
        args[4],
        depth_of(inputs),
        args[5],
        args[6],
        args[7],
        args[8] is api.true,
    )


@routine
def results(own: Bytes, args: Array[Object], given: int) -> Tuple:
    """results(class, node, ops)"""
    api = cast(Interpreter, own)
    return selected(api, args[0], cast(Node, args[1]), cast(Tuple, args[2]))


@routine
def track(own: Bytes, args: Array[Object], given: int) -> Object:
    """track(x): let the collector see a tuple, or a node and what it reads."""
    api = cast(Interpreter, own)
    _show(api, args[0])
    if args[0].kind is not api.tupletype:
        _show(api, cast(Node, args[0]).inputs)
    return keep(api, api.none)


@routine
def _show(api: Interpreter, x: Object) -> None:
    if not api.tracked(x):
        api.track(x)


@cache
def built() -> dict[str, Callable[..., Any]]:
    """The functions by name; none where nodes do not lie as expected."""
    own = {x.__name__: code(x) for x in (node, results, track)}
    return {
        name: builtin(name, place, addresses())
        for name, place in own.items()
        if place is not None
    }


def provide_makers() -> None:
    """Let nodes be made by machine code from here on."""
    for name, function in built().items():
        setattr(makers, name, function)
