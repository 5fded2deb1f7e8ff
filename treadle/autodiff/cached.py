"""Gradients of graphs that look like one before: what they reach is known then."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.base.caches import Cache
from treadle.base.options import modes
from treadle.graph.frame import top
from treadle.graph.leaves import Version
from treadle.graph.look import Look, assigned, look
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import Variable

LOSSES = 256  # whose gradients are remembered


class TargetGroup(NamedTuple):
    """The nodes that a derivative by one target is taken by, and its position among the
    targets; or, of a table, the look-ups that alone read it.
    """

    position: int
    nodes: list[Tensor]
    reads: bool = False


class _Known(NamedTuple):
    """The node that was recorded, and its groups as positions, places and `reads`."""

    op: Any
    type: Any
    groups: list[tuple[int, list[int], bool]]


_known: Cache[Any, _Known] = Cache("gradients of losses", LOSSES)


@dataclass
class SeenResults:
    """How results look with what they are derived by, and if some that looked alike
    were derived, the op and the type of the node that was recorded, and its groups.
    """

    key: Any
    place: dict[int, int]  # by serial, where nothing is known
    op: Any = None
    type: Any = None
    groups: Sequence[TargetGroup] = ()

    def note(self, derivative: Tensor, groups: Sequence[TargetGroup]) -> None:
        """Remember the node that was recorded."""
        place = self.place
        places = [[place.get(x.serial, -1) for x in group.nodes] for group in groups]
        if not any(-1 in each for each in places):
            pairs = zip(groups, places, strict=True)
            kept = [(group.position, each, group.reads) for group, each in pairs]
            _known[self.key] = _Known(derivative.op, derivative.type, kept)


def seen(
    ys: Sequence[Tensor], xs: Sequence[Operand] | None = None
) -> SeenResults | None:
    """The key of results that are derived by `xs`, or by all that is trained, with what
    was recorded of it before; None without a key."""
    now, frame = modes.get(), top()
    if frame.tracing or watchers or now.options.eager or not frame.alone():
        return None
    pending = frame.pending
    wanted, more = _targets(xs or (), {x.serial for x in (*ys, *pending)})
    variables = tuple([isinstance(x, Variable) for x in xs or ()])
    by = [] if True in variables else [x.node() for x in xs or ()]
    columns = look(ys, more, assigned(pending), True, pending, by=by)
    if columns is None:
        return None
    roots = {x.serial: k for k, x in enumerate((*ys, *more, *pending))}
    places = None if xs is None else tuple([roots[n] for n in wanted])
    key = columns.key, now.options.compilation, bool(now.no_grad), places, variables
    known, nodes = _known.get(key), columns.nodes
    if not (by or _are_different(columns)):  # the key does not tell versions of one
        return None
    if known is None:
        return SeenResults(key, {x.serial: k for k, x in enumerate(nodes)})
    _known.renew(key)
    groups = [
        TargetGroup(k, [nodes[n] for n in at], reads) for k, at, reads in known.groups
    ]
    return SeenResults(key, {}, known.op, known.type, groups)


def _targets(
    xs: Sequence[Operand], known: Container[int]
) -> tuple[list[int], list[Tensor]]:
    """The serial of each target's node, and the nodes but for those that are known: who
    else refers to what is assigned is counted."""
    serials, more = list[int](), dict[int, Tensor]()
    for x in xs:
        node = x.node()
        serials.append(node.serial)
        if node.serial not in known:
            more[node.serial] = node
    return serials, list(more.values())


def _are_different(columns: Look) -> bool:
    """Return True if no two versions of one Variable are there."""
    variables = [x.op.variable for x in columns.nodes if type(x.op) is Version]
    return len(set(map(id, variables))) == len(variables)
