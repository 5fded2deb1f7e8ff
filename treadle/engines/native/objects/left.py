"""Gives many nodes what a run writes, and lets go of how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from treadle.base.routine import routine
from treadle.engines.native.objects.arrays import NumPy
from treadle.engines.native.objects.interpreter import Interpreter, addresses, keep
from treadle.engines.native.objects.lies import Late
from treadle.engines.native.objects.things import List, Node, Nodes, Object
from treadle.engines.native.routines.compiled import machine
from treadle.graph.op import Op
from treadle.graph.resident import Future, Futures
from treadle.graph.tensor import Tensor, leave, leave_late

__all__ = ["left"]


def left(
    nodes: list[Tensor], arrays: Sequence[Any], run: Futures | None, leaf: Op
) -> None:
    """`leave_late`, in machine code where things lie as expected."""
    function: Any = machine(give)
    if function is None or run is None:
        leave_late(nodes, arrays, run, leaf)
    elif function(nodes, list(arrays), Future, run, leaf, (), addresses()):
        leave(nodes, [x.stored for x in nodes], leaf)  # type: ignore[misc]


@routine
def give(
    nodes: List,
    arrays: List,
    kind: Object,
    run: Object,
    leaf: Object,
    empty: Nodes,
    api: Interpreter,
) -> int:
    """Give each node a Future of its array, and the op of a leaf; how many are marked.

    Futures are in no cycle: they are not shown to the collector.
    """
    marked = 0
    for k in range(nodes.size):
        node = cast(Node, nodes.items[k])
        future = cast(Late, api.alloc(kind, 0))
        if future is None:
            return marked
        future.type = keep(api, node.type)
        future.home = keep(api, api.none)
        future.array = cast(NumPy, keep(api, arrays.items[k]))
        future.before = keep(api, api.none)
        future.run = keep(api, run)
        future._node = keep(api, api.none)
        api.untrack(future)
        stored, op, inputs = node.stored, node.op, node.inputs
        node.stored = future
        api.decref(stored)
        node.op = keep(api, leaf)
        api.decref(op)
        node.inputs = cast(Nodes, keep(api, empty))
        api.decref(inputs)
        marked += int(node.mark is not api.none)
    return marked
