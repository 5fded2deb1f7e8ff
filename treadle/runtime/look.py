"""How a graph that is to run looks: its structure as a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base import events
from treadle.base.options import current
from treadle.graph.frame import top
from treadle.graph.leaves import LITERAL, Cut, Version
from treadle.graph.numbers import number, number_of
from treadle.graph.references import counted
from treadle.graph.resident import Future
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import Update
from treadle.runtime.evaluate import observers

__all__ = ["Look", "Owned", "look", "settings"]

MOST = 1024  # nodes of a graph that is looked at
MADE = 4 * MOST  # nodes made since the run before: with more, the graph is too large

# Of Variables by id: the number of each while it trains, and while it does not.
Owned = Mapping[int, tuple[int, int]]


class Look:
    """A graph that is to run: its key, and its nodes, of which others may hold some.

    The first `asked` nodes are those whose values are asked for.
    """

    def __init__(
        self, nodes: list[Tensor], asked: int, uses: list[int], serials: list[int]
    ) -> None:
        self.nodes, self.asked, self.serials = nodes, asked, serials
        pairs = zip(counted(nodes), uses, strict=True)
        # By place: the references to a node but for those of these nodes.
        self.others = [count - own for count, own in pairs]
        self.held: list[int] = []
        self.key: tuple[int, ...] = ()


def look(
    asked: Sequence[Tensor],
    more: Sequence[Tensor],
    own: Owned,
    derived: bool,
    since: int = 0,
) -> Look | None:
    """How the graph below what is asked for, and below `more` that its run reads,
    looks; None if there is more to its run than values.

    Nodes are numbered as they are found from these roots. With `derived` a derivative
    is taken. Of the Variables in `own` it matters which they are. `since` is the newest
    serial after the run before.
    """
    if asked and asked[0].serial - since > MADE:
        return None
    nodes, first = [*asked, *more], len(asked) + len(more)
    place = {node.serial: k for k, node in enumerate(nodes)}
    if len(place) < first:
        return None
    uses, parts, waiting, aged = [0] * first, [], [], []
    for k, node in enumerate(nodes):
        op, inputs = node.op, node.inputs
        if node.stored is not None:
            part = _leaf(node, own, derived)
            if part is None:
                return None
            parts.append(part)
            if type(op) is Version:
                aged.append(k)
            continue
        if node.mark is not None or not inputs or type(op) is Update:
            return None
        parts.append(number_of(op))
        waiting.append(k)
        for x in inputs:
            at = place.get(x.serial)
            if at is None:
                place[x.serial] = at = len(nodes)
                if at >= MOST:
                    return None
                nodes.append(x)
                uses.append(0)
            uses[at] += 1
            parts.append(at)
    node = x = inputs = None  # type: ignore[assignment]
    found = Look(nodes, len(asked), uses, list(place))
    found.held = [k for k in waiting if k >= first and found.others[k] > 0]
    # Cotangents are summed, and parameters listed, in the order of their making.
    aged = sorted([*waiting, *aged], key=found.serials.__getitem__)
    found.key = (len(asked), first, *parts, *aged, *found.held)
    return found


def _leaf(node: Tensor, own: Owned, derived: bool) -> int | None:
    """The number of a node with a value; None where a derivative goes on behind it."""
    op, t, stored = node.op, node.type, node.stored
    if node.inputs:
        return None
    if not isinstance(stored, np.ndarray):
        if type(stored) is not Future:
            return None
    elif op is LITERAL:
        return number(("literal", t.dtype, stored.tobytes()))
    if type(op) is Version:
        variable = op.variable
        if variable.frozen is not None:
            return None
        known = own.get(id(variable))
        if known is None:
            return number(("version", variable.trainable, t.shape, t.dtype, t.axes))
        return known[not variable.trainable] if variable.committed is node else None
    carried = isinstance(op, Cut) and op.carried
    if not op.closed or (carried and derived):
        return None
    return number((carried, t.shape, t.dtype, t.axes))


def settings() -> tuple[Any, ...] | None:
    """What decides beside a graph what its run is; None where more is made of it than
    values, or somebody looks on."""
    frame, now = top(), current()
    if frame.tracing or frame.pending or observers.every or events.watchers:
        return None
    if watchers or now.eager or now.check or now.check_numerics:
        return None
    if now.engine not in ("auto", "native"):
        return None
    return now.optimize, now.rules, now.workspace, now.dtype, now.autobatch
