"""Lets go of many nodes: their memory is fetched before the interpreter frees it."""

from __future__ import annotations

from typing import Any, cast

from treadle.base.routine import routine
from treadle.engines.native.objects.interpreter import Interpreter, addresses
from treadle.engines.native.objects.things import List, Node
from treadle.engines.native.routines.compiled import machine
from treadle.engines.native.routines.memory import prefetch
from treadle.graph.tensor import Tensor

__all__ = ["forgotten"]


def forgotten(nodes: list[Tensor]) -> None:
    """Empty a list of nodes, the last one first."""
    function: Any = machine(forget)
    if function is None:
        nodes.clear()
    else:
        function(nodes, addresses())


@routine
def forget(nodes: List, api: Interpreter) -> None:
    """Take the nodes out of a list, the last one first."""
    while nodes.size > 0:
        last = nodes.size - 1
        _fetch(nodes, last)
        node = nodes.items[last]
        nodes.size = last
        api.decref(node)


@routine
def _fetch(nodes: List, last: int) -> None:
    """Fetch the memory of a node that goes soon, and what a nearer one refers to."""
    if last >= 15:
        prefetch(nodes.items[last - 15], -16, True)
        prefetch(nodes.items[last - 15], 48, True)
    if last >= 7:
        near = cast(Node, nodes.items[last - 7])
        prefetch(near.inputs, -16, True)
        prefetch(near.serial, 0, True)
