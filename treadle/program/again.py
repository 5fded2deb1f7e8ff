"""What a checkpoint says of a graph: nodes that are computed anew, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.graph.tensor import Tensor, copied
from treadle.loops.lower import is_virtual
from treadle.ops.flow import Again
from treadle.program.arrange import is_leaf
from treadle.program.units import wait_for

__all__ = ["unbarred"]


def unbarred(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor]
) -> Mapping[int, Tensor]:
    """The graph without its Again nodes: who reads one waits for what it waits for.

    So does who reads nothing else but such readers, should these be looked through.
    `nodes` are all that the roots depend on; without such nodes the roots are as given.
    """
    if not any(isinstance(n.op, Again) for n in nodes):
        return roots
    live = _live(roots)
    made: dict[int, Tensor] = {}
    awaited: dict[int, Tensor] = {}  # of the nodes that are computed anew

    def of(x: Tensor) -> Tensor:
        return made.get(x.serial, x)

    for node in nodes:
        if isinstance(node.op, Again):
            made[node.serial] = of(node.inputs[0])
            latest = _latest(node.inputs[1:], live)
            if latest is not None:
                awaited[node.serial] = of(latest)
            continue
        if is_leaf(node):
            continue
        own = copied(node, tuple(map(of, node.inputs)), marked=False)
        made[node.serial] = own
        computed = [x for x in node.inputs if not is_leaf(x)]
        waits = [awaited[x.serial] for x in computed if x.serial in awaited]
        if waits:
            wait_for(own, max(waits, key=lambda n: n.serial))
            if len(waits) == len(computed):
                awaited[node.serial] = waits[0]
    return {k: of(root) for k, root in roots.items()}


def _live(roots: Mapping[int, Tensor]) -> set[int]:
    """What is computed for its value, and not just waited for, by serial."""
    found: set[int] = set()
    stack = list(roots.values())
    while stack:
        x = stack.pop()
        if x.serial not in found:
            found.add(x.serial)
            stack += x.inputs[:1] if isinstance(x.op, Again) else x.inputs
    return found


def _latest(nodes: Sequence[Tensor], live: set[int]) -> Tensor | None:
    """The newest computed node among some, or what they are made of."""
    stack, newest = list(nodes), None
    while stack:
        x = stack.pop()
        if is_leaf(x):
            continue
        if x.serial not in live or is_virtual(x) or isinstance(x.op, Again):
            stack += x.inputs
        elif newest is None or x.serial > newest.serial:
            newest = x
    return newest
