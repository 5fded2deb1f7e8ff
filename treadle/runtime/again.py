"""Runs that look like one before: their program at once, on the values of now.

A loop that builds its graph anew has the graph of the iteration before, but for the
values. `look` writes its structure as a key; what the run of such a graph came to is
put down as a `Plan`: a program, where its arguments lie, what becomes of its results.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.derivative import endangered
from treadle.base import events
from treadle.base.options import current
from treadle.engines.base import Failed, Found, chosen
from treadle.graph.frame import state, top
from treadle.graph.leaves import CONSTANT, LITERAL, Cut, Version, cut_of
from treadle.graph.numbers import number, number_of
from treadle.graph.references import counted
from treadle.graph.tensor import Tensor, cut, mark_run, new_node, settle, watchers
from treadle.graph.variable import Update, Variable, variable_of
from treadle.runtime.evaluate import ARRAY_ALONE, depends, observers, outdated

__all__ = ["Look", "Owned", "Plans", "look"]

MOST = 512  # nodes of a graph that is looked at
PLANS = 32  # of one caller

Array = np.ndarray[Any, Any]
Note = Callable[[Sequence[Tensor], Set[int]], None]
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
    asked: Sequence[Tensor], more: Sequence[Tensor], own: Owned, derived: bool
) -> Look | None:
    """How the graph below what is asked for, and below `more` that its run reads,
    looks; None if there is more to its run than values.

    Nodes are numbered as they are found from these roots. With `derived` a derivative
    is taken. Of the Variables in `own` it matters which they are.
    """
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
    if node.inputs or not isinstance(stored, np.ndarray):
        return None
    if op is LITERAL:
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


class Plan:
    """A run: a program, its arguments, the nodes and Variables that have its results.

    Arguments are places of the graph that is looked at, Variables, or constants.
    """

    def __init__(self, found: Found, sources: list[Any]) -> None:
        self.program = found.program
        self.sources = sources
        self.reused = [(k, sources[k]) for k in sorted(found.reused)]
        self.nodes: list[tuple[int, int, Cut]] = []  # result, place, what it is cut to
        self.changes: list[tuple[int, Variable]] = []

    def run(self, look: Look) -> None:
        """Run the program for this graph, settle and cut its nodes, and commit."""
        nodes = look.nodes
        spent: set[int] = set()
        if not state.transactions:  # they hold what is there now
            for k, x in self.reused:
                if _sole(look, x) if type(x) is int else _alone(x):
                    spent.add(k)
        bases = [variable.committed for _, variable in self.changes]
        found = self.program.run([_array(nodes, x) for x in self.sources], spent)
        mark_run()
        for (_, variable), base in zip(self.changes, bases, strict=True):
            if variable.committed is not base:  # by another thread
                raise outdated(variable).located("step", repr(variable.type))
        for k, place, leaf in self.nodes:
            node = nodes[place]
            settle(node, found[k])
            cut(node, leaf)
        for k, variable in self.changes:
            array = found[k]
            array.flags.writeable = False
            version = new_node(variable.version, (), variable.type, 2, array)
            variable.commit(version)


def _array(nodes: Sequence[Tensor], source: Any) -> Any:
    if type(source) is int:
        return nodes[source].stored
    return source.committed.stored if isinstance(source, Variable) else source


def _sole(look: Look, place: int) -> bool:
    """Whether an old version is its Variable's and this graph's alone."""
    node = look.nodes[place]
    if type(node.op) is not Version or look.others[place] > 1:
        return False
    return sys.getrefcount(node.stored) <= ARRAY_ALONE


def _alone(variable: Any) -> bool:
    """Whether what a Variable holds is its own alone."""
    if not isinstance(variable, Variable) or variable.committed.stored is None:
        return False
    if counted([variable.committed])[0] > 1:
        return False
    return sys.getrefcount(variable.committed.stored) <= ARRAY_ALONE


class Plans:
    """The plans of a caller, by how graphs look; one is made at the second sight."""

    def __init__(self) -> None:
        self._table: OrderedDict[Any, Plan | bool] = OrderedDict()

    def __deepcopy__(self, memo: object) -> Plans:
        return Plans()

    def __reduce__(self) -> Any:
        return Plans, ()

    def run(self, key: Any, look: Look) -> bool:
        """Run a graph as one that looked alike, if there was one; whether it ran."""
        plan = self._table.get(key)
        if not isinstance(plan, Plan):
            return False
        roots = {node.serial for node in look.nodes[: look.asked]}
        if any(x.serial not in roots for x in endangered(look.nodes[: look.asked])):
            return False
        try:
            plan.run(look)
        except Failed:
            del self._table[key]
            return False
        self._table.move_to_end(key)
        return True

    def note(self, key: Any, look: Look, own: Owned, chosen: Set[int]) -> Note | None:
        """What is to be told of the run of a graph that looks like this, of which is
        cut what depends on the `chosen` Variables."""
        seen = self._table.get(key)
        if seen is None:
            self._table[key] = True
            if len(self._table) > PLANS:
                self._table.popitem(last=False)
        look.nodes = []  # what it holds would count as asked for
        if seen is not True:
            return None

        def tell(nodes: Sequence[Tensor], keep: Set[int]) -> None:
            self._table[key] = _planned(nodes, keep, look, own, chosen) or False

        return tell


def _planned(
    nodes: Sequence[Tensor], keep: Set[int], look: Look, own: Owned, cuts: Set[int]
) -> Plan | None:
    """The plan of a run that is about to be; None where it is not to be foretold."""
    place = {serial: k for k, serial in enumerate(look.serials)}
    found = chosen(current().engine, nodes).program(nodes, keep)
    if found is None:
        return None
    sources: list[Any] = []
    for x in found.arguments:
        if x.serial in place:
            sources.append(place[x.serial])
        elif type(x.op) is Version and id(x.op.variable) in own:
            sources.append(x.op.variable)
        elif x.op is CONSTANT or x.op is LITERAL:
            sources.append(x.array)
        else:
            return None
    plan = Plan(found, sources)
    trained, stale = depends(nodes), _stale(nodes, cuts)
    for node in nodes:
        serial = node.serial
        if serial not in keep:
            continue
        if isinstance(node.op, Update):
            plan.changes.append((found.results[serial], node.op.variable))
            continue
        k = place.get(serial, -1)
        if not (0 <= k < look.asked or (k in look.held and serial in stale)):
            return None
        leaf = cut_of(node.op.name, serial in trained)
        plan.nodes.append((found.results[serial], k, leaf))
    return plan


def _stale(nodes: Sequence[Tensor], cuts: Set[int]) -> set[int]:
    """The nodes that depend on these Variables."""
    found: set[int] = set()
    for node in nodes:
        variable = variable_of(node)
        if id(variable) in cuts or any(x.serial in found for x in node.inputs):
            found.add(node.serial)
    return found


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
    return now.optimize, now.rules, now.workspace, now.dtype
