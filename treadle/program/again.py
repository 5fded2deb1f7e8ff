"""Checkpoint marks: nodes of a graph that are computed anew, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.graph.tensor import Tensor, copied
from treadle.graph.traversal import by_serial, reached
from treadle.loops.lower import is_virtual
from treadle.ops.flow import Again
from treadle.program.arrange import is_leaf
from treadle.program.units import wait_for


def unbarred(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor]
) -> Mapping[int, Tensor]:
    """The graph without its Again nodes: who reads one waits for what it waits for.

    So does who reads nothing else but such readers, should these be looked through.
    `nodes` are all that the roots depend on; without such nodes the roots are as given.
    """
    if not any(isinstance(n.op, Again) for n in nodes):
        return roots
    newest = _newest(nodes, _live(roots))
    copies: dict[int, Tensor] = {}
    awaited: dict[int, Tensor] = {}  # of the nodes that are computed anew

    def of(x: Tensor) -> Tensor:
        return copies.get(x.serial, x)

    for node in nodes:
        if isinstance(node.op, Again):
            copies[node.serial] = of(node.inputs[0])
            waits = [w for x in node.inputs[1:] if (w := newest[x.serial]) is not None]
            if waits:
                awaited[node.serial] = of(max(waits, key=by_serial))
            continue
        if is_leaf(node):
            continue
        copy = copied(node, tuple(map(of, node.inputs)), marked=False)
        copies[node.serial] = copy
        computed = [x for x in node.inputs if not is_leaf(x)]
        waits = [awaited[x.serial] for x in computed if x.serial in awaited]
        if waits:
            wait_for(copy, max(waits, key=by_serial))
            if len(waits) == len(computed):
                awaited[node.serial] = waits[0]
    return {k: of(root) for k, root in roots.items()}


def _live(roots: Mapping[int, Tensor]) -> set[int]:
    """The serials of nodes computed for their value, and not just waited for."""
    nodes = reached(
        roots.values(), lambda x: x.inputs[:1] if isinstance(x.op, Again) else x.inputs
    )
    return {x.serial for x in nodes}


def _newest(nodes: Sequence[Tensor], live: set[int]) -> dict[int, Tensor | None]:
    """For each node, by serial, itself if it is computed; else the newest of those
    that it is made of.
    """
    newest: dict[int, Tensor | None] = {}
    for x in nodes:
        if is_leaf(x):
            newest[x.serial] = None
        elif x.serial not in live or is_virtual(x) or isinstance(x.op, Again):
            below = [n for y in x.inputs if (n := newest[y.serial]) is not None]
            newest[x.serial] = max(below, key=by_serial, default=None)
        else:
            newest[x.serial] = x
    return newest
