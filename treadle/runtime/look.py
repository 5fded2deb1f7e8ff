"""How a graph that is to run looks: its structure as a key."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base import events
from treadle.base.options import current
from treadle.batch.columns import Columns, Numbers
from treadle.engines.base import engine
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
FEW = 96  # nodes made since the run before that are looked at one by one
MADE = 4 * MOST  # nodes made since the run before: with more, the graph is too large

# Of Variables by id: the number of each while it trains, and while it does not.
Owned = Mapping[int, tuple[int, int]]


@dataclass
class Look:
    """A graph that is to run: its key, and its nodes, of which others may hold some.

    The first `asked` nodes are those whose values are asked for. By place, `others`
    counts the references to a node but for those of these nodes, `held` lists the nodes
    without a value that have any.
    """

    nodes: list[Tensor]
    asked: int
    serials: list[int]
    others: Sequence[int]
    held: list[int]
    key: tuple[Any, ...]


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
    made = asked[0].serial - since if asked else 0
    if made > MADE or len({*map(id, asked), *map(id, more)}) < len(asked) + len(more):
        return None
    way = _by_columns if made > FEW else _by_nodes
    return way([*asked, *more], len(asked), own, derived)


def _by_nodes(
    roots: list[Tensor], asked: int, own: Owned, derived: bool
) -> Look | None:
    """`look`, node by node."""
    nodes, first = roots, len(roots)
    place = {node.serial: k for k, node in enumerate(nodes)}
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
    others = [count - own for count, own in zip(counted(nodes), uses, strict=True)]
    serials = list(place)
    held = [k for k in waiting if k >= first and others[k] > 0]
    # Cotangents are summed, and parameters listed, in the order of their making.
    aged = sorted([*waiting, *aged], key=serials.__getitem__)
    key = asked, first, *_bytes(parts, aged, held)
    return Look(nodes, asked, serials, others, held, key)


def _by_columns(
    roots: list[Tensor], asked: int, own: Owned, derived: bool
) -> Look | None:
    """`look`, all nodes at once: faster where there are many."""
    found = engine(current().engine).columns(roots, found=True)
    nodes, waits, sizes = found.nodes, found.waiting, found.sizes
    if len(nodes) > MOST or (waits & (found.marked | (sizes == 0))).any():
        return None
    heads = np.arange(len(nodes)) + np.cumsum(sizes) - sizes
    parts = np.empty(len(nodes) + len(found.operands), np.int64)
    inside = np.ones(len(parts), np.bool_)
    inside[heads] = False
    parts[inside] = found.operands
    numbers = _ops(found)
    if numbers is None:
        return None
    parts[heads] = numbers
    ages = waits.copy()
    for k in np.flatnonzero(~waits).tolist():
        part = _leaf(nodes[k], own, derived)
        if part is None:
            return None
        parts[heads[k]] = part
        ages[k] = type(nodes[k].op) is Version
    others = found.references - np.bincount(found.operands, minlength=len(nodes))
    first = len(roots)
    others[:first] -= 1  # the list of roots
    held = np.flatnonzero(waits & (others > 0))
    held = held[held >= first]
    aged = np.flatnonzero(ages)
    aged = aged[np.argsort(found.serials[aged])]
    key = asked, first, *_bytes(parts, aged, held)
    serials = found.serials.tolist()
    return Look(nodes, asked, serials, others.tolist(), held.tolist(), key)


def _bytes(*numbers: Sequence[int] | Numbers) -> list[bytes]:
    """Numbers for a key: they are compared, and hashed once, as bytes."""
    return [
        x.tobytes() if isinstance(x, np.ndarray) else array("q", x).tobytes()
        for x in numbers
    ]


def _ops(found: Columns) -> Numbers | None:
    """The numbers of the ops of nodes without a value; None if one is an update."""
    ops = np.where(found.waiting, found.ops, found.count)
    places = np.full(found.count + 1, -1, np.int64)
    places[ops] = np.arange(len(ops))
    places[found.count] = -1
    numbers = np.zeros(found.count + 1, np.int64)
    for k in np.flatnonzero(places >= 0).tolist():
        op = found.nodes[places[k]].op
        if type(op) is Update:
            return None
        numbers[k] = number_of(op)
    return numbers[ops]


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
