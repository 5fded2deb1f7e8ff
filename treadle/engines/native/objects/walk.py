"""A walk over the nodes of a graph in machine code.

It reads CPython's objects where they lie (`layout.py`), with the interpreter's lock
held, and changes none. Nodes are numbered as they are found; a table of addresses
knows those that were.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.routine import Numbers, routine
from treadle.batch.columns import Columns, columns
from treadle.engines.native.objects.ordered import (
    FIELDS,
    MARKED,
    SERIAL,
    VALUE,
    Found,
    Ordering,
    Walked,
)
from treadle.engines.native.objects.table import Table, place, slot_of
from treadle.engines.native.objects.things import Node, Object, number
from treadle.engines.native.routines.compiled import machine
from treadle.engines.native.routines.memory import Array, address, prefetch
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import follow

__all__ = ["provide_walk", "walked"]

FIRST = 1 << 12  # nodes there is room for at first


@dataclass(frozen=True)
class Walking:
    """What a walk writes: the nodes it has found, the other things that these refer to,
    and what it knows of the nodes.
    """

    nodes: Table
    known: Array[Node]  # the objects of the table of nodes
    things: Table
    found: Walked
    read: int  # operands there is room for


@routine
def walk(roots: Array[Node], given: int, w: Walking, none: Object, whole: bool) -> int:
    """How many nodes there are below the roots, all or to where values begin; -1 if
    there is no room for them.
    """
    for k in range(given):
        if place(w.nodes, address(roots[k])) < 0:
            return -1
    k, read = 0, 0
    w.found.starts[0] = 0
    while k < w.nodes.count[0]:
        _fetch(w, k)
        node = w.known[k]
        if _describe(w, node, k, none) or whole:
            inputs = node.inputs
            if read + inputs.size > w.read:
                return -1
            for j in range(inputs.size):
                number = place(w.nodes, address(inputs.items[j]))
                if number < 0:
                    return -1
                w.found.operands[read + j] = number
            read += inputs.size
        k += 1
        w.found.starts[k] = read
    return k


@routine
def _describe(w: Walking, node: Node, k: int, none: Object) -> bool:
    """Put down the fields of a node; whether it waits for its value."""
    fields, room = w.found.fields, w.found.room
    waits = node.stored is none
    fields[k] = place(w.things, address(node.op))
    fields[room + k] = place(w.things, address(node.op.kind))
    fields[2 * room + k] = place(w.things, address(node.type))
    fields[VALUE * room + k] = 0 if waits else address(node.stored)
    fields[SERIAL * room + k] = number(node.serial)
    fields[5 * room + k] = number(node.depth)
    fields[6 * room + k] = node.count
    fields[MARKED * room + k] = int(node.mark is not none)
    return waits


@routine
def _fetch(w: Walking, k: int) -> None:
    """Fetch the memory of nodes that come soon, what the fields of nearer ones refer
    to, and where the operands of the next are looked for.
    """
    count = w.nodes.count[0]
    if k + 16 < count:
        prefetch(w.known[k + 16], 0, False)
        prefetch(w.known[k + 16], 64, False)
    if k + 8 < count:
        prefetch(w.known[k + 8].inputs, 0, False)
        prefetch(w.known[k + 8].serial, 0, False)
        prefetch(w.known[k + 8].op, 0, False)
    if k + 4 < count:
        inputs = w.known[k + 4].inputs
        for j in range(min(inputs.size, 4)):
            slot = slot_of(w.nodes, address(inputs.items[j]))
            prefetch(w.nodes.slots, 16 * slot, False)


class _Space:
    """Memory for a walk of so many nodes, which read three times as many.

    It is used again: fresh pages cost as much as the walk.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.count = 0  # of different things that the last walk has met
        self.nodes = Table.of(room)
        self.things = Table.of(3 * room)
        starts = np.empty(room + 1, np.int64)
        fields, read = np.empty(FIELDS * room, np.int64), np.empty(3 * room, np.int64)
        self.walked = Walked(fields, room, starts, read, self.nodes.objects)
        known: Any = self.nodes.objects
        self.words = Walking(self.nodes, known, self.things, self.walked, len(read))
        self.ordering = Ordering(self.walked)

    def walk(self, function: Any, roots: Numbers, whole: bool) -> int:
        """How many nodes there are; less than none if there is no room for them."""
        tables = self.nodes, self.things
        if any(table.count[0] for table in tables):  # the last walk was interrupted
            for table in tables:
                table.slots[:], table.count[0] = 0, 0
        found: int = function(roots, len(roots), self.words, None, whole)
        self.count = int(self.things.count[0])
        for table in tables:
            table.clear(int(table.count[0]))
            table.count[0] = 0
        return found

    def found(self, count: int) -> Found:
        """What was found, in creation order."""
        return self.ordering.found(count, int(self.walked.starts[count]))

    def nodes_of(self, found: Found) -> list[Any]:
        """The objects themselves."""
        return _objects(found.objects, self.room)

    def columns(self, count: int) -> Columns:
        """All that is known of so many nodes."""
        found = self.found(count)
        ops, kinds, types, values, serials, depths, held, _ = found.fields
        return Columns(
            self.nodes_of(found),
            self.count,
            ops,
            kinds,
            types,
            values,
            found.waiting,
            found.marked,
            serials,
            depths,
            held,
            found.sizes,
            found.operands,
        )


class _Own(threading.local):
    """The memory of a thread: a larger one takes its place as a whole."""

    def __init__(self) -> None:
        self.space = _Space(FIRST)


_own = _Own()


def walked(roots: Sequence[Tensor]) -> Columns:
    """`columns`, in machine code where nodes lie as expected."""
    function = machine(walk)
    if function is None:
        return columns(roots)
    space, count = _went(function, roots)
    return space.columns(count)


def provide_walk() -> None:
    """Let large graphs be gone through by machine code from here on."""
    function = machine(walk)
    if function is None:
        return

    def nodes(roots: Sequence[Tensor], whole: bool) -> list[Tensor]:
        space, count = _went(function, roots, whole)
        return space.nodes_of(space.found(count))

    follow(nodes)


def _went(
    function: Any, roots: Sequence[Tensor], whole: bool = False
) -> tuple[_Space, int]:
    """The memory of a walk from some roots, and how many nodes it has found."""
    first = np.fromiter(map(id, roots), np.int64, len(roots))
    while True:
        space = _own.space
        found = space.walk(function, first, whole)
        if found >= 0:
            return space, found
        _own.space = _Space(2 * space.room)


def _objects(addresses: Numbers, room: int) -> list[Any]:
    """The objects at these addresses."""
    padded = np.zeros(room, np.int64)
    padded[: len(addresses)] = addresses
    # One length of array for many: each is a class of its own.
    array = (ctypes.py_object * room).from_buffer(padded.data)
    found: list[Any] = array[: len(addresses)]
    return found
