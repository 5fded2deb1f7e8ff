"""The outline of a graph (`graph/outline.py`) in machine code.

It reads what the interpreter has of nodes where it lies (`layout.py`), as a walk does,
and adds a list of them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from treadle.base.routine import Numbers, routine
from treadle.engines.native.objects.interpreter import Interpreter, addresses, keep
from treadle.engines.native.objects.table import Table, emptied, place
from treadle.engines.native.objects.things import List, Node, Object, number
from treadle.engines.native.routines.compiled import machine
from treadle.engines.native.routines.memory import Array, address, behind
from treadle.graph.outline import AGELESS, Outline, outline
from treadle.graph.tensor import Tensor

__all__ = ["outlined"]

READ = 4  # operands of a node there is room for, on average
# Numbers that are told: parts, leaves, held nodes, whether none is marked, nodes, ops.
TOLD = 6
PARTS, LEAVES, HELD, PLAIN, NODES, OPS = range(TOLD)


@dataclass(frozen=True)
class Outlining:
    """What an outline writes: the nodes and ops it has met, and what `Outline` has of
    them; op k comes first as that of node `first[k]`. What `others` has of a run is
    there until the next one.
    """

    nodes: Table
    known: Array[Node]  # the objects of the table of nodes
    ops: Table
    parts: Numbers
    room: int  # for parts
    heads: Numbers
    ages: Numbers
    others: Numbers
    leaves: Numbers
    first: Numbers
    held: Numbers
    told: Numbers


@routine
def write(roots: List, w: Outlining, none: Object, api: Interpreter) -> Object:
    """A list of the nodes below a list of roots; None if there is no room for them."""
    found = _found(roots, w, none, api)
    w.told[NODES] = emptied(w.nodes)
    w.told[OPS] = emptied(w.ops)
    return found


@routine
def _found(roots: List, w: Outlining, none: Object, api: Interpreter) -> Object:
    """As `write`, which then empties the tables."""
    given = roots.size
    _begin(w)
    for k in range(given):
        if _read(w.nodes, w.others, cast(Node, roots.items[k])) < 0:
            return keep(api, none)
    parts = _describe(w, none)
    if parts < 0:
        return keep(api, none)
    w.told[PARTS] = parts
    for k in range(given, w.nodes.count[0]):
        if w.ages[k] != AGELESS and w.others[k] > 0:
            w.held[w.told[HELD]] = k
            w.told[HELD] += 1
    return _listed(w, api)


@routine
def _begin(w: Outlining) -> None:
    """Forget what was written last."""
    others = w.others
    for k in range(w.told[NODES]):
        others[k] = 0
    w.told[LEAVES], w.told[HELD], w.told[PLAIN] = 0, 0, 1


@routine
def _describe(w: Outlining, none: Object) -> int:
    """Put down all nodes, and those that they read; how many parts they have. -1 if
    there is no room for them.
    """
    nodes, others = w.nodes, w.others
    k, end = 0, 0
    while k < nodes.count[0]:
        node = w.known[k]
        others[k] += node.count
        w.heads[k] = end
        if node.stored is none:
            end = _pending(w, nodes, others, k, end, none)
            if end < 0:
                return -1
        else:
            if end >= w.room:
                return -1
            w.parts[end] = 0
            w.ages[k] = AGELESS
            w.leaves[w.told[LEAVES]] = k
            w.told[LEAVES] += 1
            end += 1
        k += 1
    return end


@routine
def _pending(
    w: Outlining, nodes: Table, others: Numbers, k: int, head: int, none: Object
) -> int:
    """Put down a node without a value, whose parts begin somewhere; where they end. -1
    if there is no room for them.
    """
    node = w.known[k]
    inputs = node.inputs
    end = head + 1 + inputs.size
    if end > w.room:
        return -1
    w.ages[k] = number(node.serial)
    before = w.ops.count[0]
    op = place(w.ops, address(node.op))
    if op < 0:
        return -1
    w.parts[head] = op
    if op == before:
        w.first[op] = k
    if node.mark is not none or inputs.size == 0:
        w.told[PLAIN] = 0
    parts = behind(w.parts, head + 1)
    for j in range(inputs.size):
        x = _read(nodes, others, inputs.items[j])
        if x < 0:
            return -1
        parts[j] = x
    return end


@routine
def _read(nodes: Table, others: Numbers, node: Node) -> int:
    """The place of a node that is read once more; -1 if there is no room for it."""
    k = place(nodes, address(node))
    if k >= 0:
        others[k] -= 1
    return k


@routine
def _listed(w: Outlining, api: Interpreter) -> List:
    """A list of the nodes; null where the interpreter has raised something."""
    count = w.nodes.count[0]
    found = api.list(count)
    if found is None:
        return None
    items, known = found.items, w.known
    for k in range(count):
        items[k] = keep(api, known[k])
    return found


class _Space:
    """Memory for outlines of so many nodes, one after the other, by machine code."""

    def __init__(self, function: Any, room: int) -> None:
        self.function = function
        self.room = room
        self.busy = False
        nodes, ops, told = Table.of(room), Table.of(room), np.zeros(TOLD, np.int64)
        parts, known = np.empty(READ * room, np.int64), cast(Any, nodes.objects)
        heads, ages, others, leaves, first, held = np.zeros((6, room), np.int64)
        own = heads, ages, others, leaves, first, held, told
        self.words = Outlining(nodes, known, ops, parts, len(parts), *own)

    def outline(self, roots: list[Tensor]) -> Outline | None:
        """As of Python; what is told is the caller's own."""
        w = self.words
        nodes = self.function(roots, w, None, addresses())
        parts, leaves, held, plain, count, ops = w.told.tolist()
        if nodes is None or not plain:
            return None
        return Outline(
            nodes,
            [nodes[k].op for k in w.first[:ops].tolist()],
            w.leaves[:leaves].tolist(),
            w.others[:count].tolist(),
            w.held[:held].tolist(),
            w.parts[:parts].copy(),
            w.heads[:count].copy(),
            w.ages[:count].copy(),
        )


class _Own(threading.local):
    """The memory of a thread."""

    space: _Space | None = None


_own = _Own()


def outlined(roots: list[Tensor], most: int) -> Outline | None:
    """`outline`, in machine code where nodes lie as expected."""
    space = _own.space
    # A busy one was interrupted, or a finalizer is in the midst of it.
    if space is None or space.busy or space.room != most:
        function = machine(write)
        if function is None:
            return outline(roots, most)
        space = _own.space = _Space(function, most)
    space.busy = True
    found = space.outline(roots)
    space.busy = False
    return found
