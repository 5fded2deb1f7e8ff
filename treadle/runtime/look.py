"""How a graph that is to run looks: its structure as a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base import events
from treadle.base.caches import Cache
from treadle.base.options import current, modes
from treadle.base.types import TupleType, Type
from treadle.graph import serials
from treadle.graph.frame import top
from treadle.graph.leaves import CONSTANT, LITERAL, Cut, Version
from treadle.graph.numbers import number, number_of
from treadle.graph.op import Op
from treadle.graph.outline import AGELESS, MOST, Outline, outline
from treadle.graph.resident import Future
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import Update
from treadle.runtime.recorder import observers

__all__ = ["Look", "Owned", "look", "settings"]

KNOWN = 1 << 12  # types of data
SEEN = 2  # references of a frame to what was assigned
_RECIPE = {"carried", "program"}  # the marks of what has run
MADE = 4 * MOST  # nodes made since the run before: with more, the graph is too large

# Of Variables by id: the number of each while it trains, and while it does not.
Owned = Mapping[int, tuple[int, int]]


@dataclass
class Look:
    """A graph that is to run: its key, and its nodes, of which others may hold some.

    The first `asked` nodes are those whose values are asked for; `updates` are what was
    assigned and waits for the run. By place, `others`
    counts the references to a node but for those of nodes that the run does away with,
    `held` lists the nodes without a value that have any.
    """

    nodes: list[Tensor]
    asked: int
    updates: list[Tensor]
    others: list[int]
    held: list[int]
    key: tuple[Any, ...]


def look(
    asked: Sequence[Tensor],
    more: Sequence[Tensor],
    own: Owned,
    derived: bool,
    updates: Sequence[Tensor] = (),
    whole: bool = False,
) -> Look | None:
    """How the graph below what is asked for, and below `more` that its run reads and
    the `updates` that wait for it, looks; None if there is more to its run than these.

    Nodes are numbered as they are found from these roots. With `derived` a derivative
    is taken: then, and if it is to be the `whole`, that goes on behind values. Of the
    Variables in `own` it matters which they are.
    """
    made = asked[0].serial - serials.last_run if asked else 0
    count = len(asked) + len(more) + len(updates)
    if made > MADE or len({*map(id, (*asked, *more, *updates))}) < count:
        return None
    whole = whole or derived
    found = outline([*asked, *more, *updates], MOST, whole)
    if found is not None and not whole and _derives(found):
        found = None  # its list would count
        found = outline([*asked, *more, *updates], MOST, True)
    if found is None or not _are_all(updates, found, len(asked) + len(more)):
        return None
    if not all(_can_be_derived(found.nodes[k]) for k in found.open):
        return None
    nodes, parts, leaves, ages = found.nodes, found.parts, found.leaves, found.ages
    numbers = []
    for k in leaves:
        node = nodes[k]
        if node.op is CONSTANT and type(node.stored) is np.ndarray:
            part = _constants.get(node.type) or _constant(node.type)
        else:
            told = _leaf(node, own, derived)
            if told is None:
                return None
            part = told
            if type(node.op) is Version:
                ages[k] = node.serial
        numbers.append(part)
    parts[found.heads[leaves]] = numbers
    # Cotangents are summed, and parameters listed, in the order of their making.
    # They mostly lie in runs of falling ones, which a stable sort takes as they are.
    aged = ages.argsort(kind="stable")[: np.count_nonzero(ages != AGELESS)]
    ops = tuple([_op(x, own) for x in found.ops])
    order = len(asked), len(more), len(updates)
    places = tuple(found.open), tuple(found.held)
    key = *order, ops, *places, parts.tobytes(), aged.tobytes()
    return Look(nodes, len(asked), list(updates), *_left(found), key)


def _derives(found: Outline) -> bool:
    """Whether derivatives are yet to be written out, which go on behind values."""
    return any(op.family == "derivative" for op in found.ops)


def _are_all(updates: Sequence[Tensor], found: Outline, first: int) -> bool:
    """Whether these are all Updates of a graph, from place `first` on, and nothing but
    the frame refers to them: it sees them, and has them carried out.
    """
    if sum(type(op) is Update for op in found.ops) != len(updates):
        return False
    return all(found.others[first + k] == SEEN for k in range(len(updates)))


def _op(op: Op, own: Owned) -> int:
    """The number of an op; of an Update it matters of which Variable it is."""
    if type(op) is Update:
        return number(("update", own[id(op.variable)][0]))
    return number_of(op)


def _can_be_derived(node: Tensor) -> bool:
    """Whether no more is known of how a node with a value was made than its recipe."""
    mark = node.mark
    return not mark or _RECIPE.issuperset(mark)


def _left(found: Outline) -> tuple[list[int], list[int]]:
    """References that are left by a run, and which nodes it has values for.

    Who holds another result of a node of several will compute it from its operands.
    """
    nodes, others, held = found.nodes, found.others, found.held
    stay = [k for k in held if isinstance(nodes[k].type, TupleType)]
    if not stay:
        return others, held
    held = [k for k in held if k not in stay]
    ends = [*found.heads.tolist(), len(found.parts)]
    seen = set(stay)
    for k in stay:  # grows
        if nodes[k].stored is None:
            for x in found.parts[ends[k] + 1 : ends[k + 1]].tolist():
                others[x] += 1
                if x not in seen:
                    seen.add(x)
                    stay.append(x)
    return others, held


_constants: Cache[Type, int] = Cache("types of data", KNOWN)


def _constant(t: Type) -> int:
    """The number of data of the user."""
    found = _constants[t] = number((False, t.shape, t.dtype, t.axes))
    return found


def _leaf(node: Tensor, own: Owned, derived: bool) -> int | None:
    """The number of a node with a value; None where a derivative goes on behind it."""
    op, t, stored = node.op, node.type, node.stored
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
    if node.inputs:  # it is read as it is
        carried = bool(node.mark and node.mark.get("carried"))
        return number(("value", carried, t.shape, t.dtype, t.axes))
    carried = isinstance(op, Cut) and op.carried
    if not op.closed or (carried and derived):
        return None
    return number((carried, t.shape, t.dtype, t.axes))


def settings() -> tuple[Any, ...] | None:
    """What decides beside a graph what its run is; None where more is made of it than
    values, or somebody looks on."""
    frame, now = top(), current()
    if frame.tracing or observers.every or events.watchers:
        return None
    if frame.versions and (modes.get().transactions or not frame.alone()):
        return None
    if watchers or now.eager or now.check or now.check_numerics:
        return None
    if now.engine not in ("auto", "native"):
        return None
    return (now.compilation,)
