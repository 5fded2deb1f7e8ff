"""Iterative walks over the graph: no recursion, whatever the depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter

import numpy as np

from treadle.core import native
from treadle.graph.leaves import CONSTANT
from treadle.graph.marks import PART
from treadle.graph.tensor import Tensor, copied

by_serial = attrgetter("serial")
NEWEST = (1 << 63) - 1  # no serial is larger
_inputs, _op = attrgetter("inputs"), attrgetter("op")


def reach(
    roots: Iterable[Tensor],
    stop: Callable[[Tensor], bool] | None = None,
    floor: int = -1,
    parts: int = -1,
) -> list[Tensor]:
    """Every node the roots depend on, themselves included, in creation order.

    The inputs of a node are not followed for which `stop` holds, or that has a value
    and is no newer than the serial `floor`, or is a part of data no newer than `parts`.
    """
    stack = list(roots)
    if stop is None and native is not None:
        return native.walk(stack, True, floor, parts)
    seen: dict[int, Tensor] = {}
    while stack:
        node = stack.pop()
        serial = node.serial
        if serial not in seen:
            seen[serial] = node
            known = serial <= floor and node.stored is not None
            known = known or (serial <= parts and node.mark is PART)
            if not known and (stop is None or not stop(node)):
                stack += node.inputs
    return [seen[serial] for serial in sorted(seen)]


def reached(
    roots: Iterable[Tensor], below: Callable[[Tensor], Iterable[Tensor]]
) -> list[Tensor]:
    """The roots and all that leads from them by `below`, each node once."""
    nodes: dict[int, Tensor] = {}
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x.serial not in nodes:
            nodes[x.serial] = x
            stack += below(x)
    return list(nodes.values())


def _living_results(node: Tensor) -> list[Tensor]:
    """The results of a node of several that somebody holds."""
    every = [reference() for reference in node._results or ()]
    return [x for x in every if x is not None]


# Where the core makes nodes, it knows their results.
living_results: Callable[[Tensor], list[Tensor]] = _living_results
if native is not None:
    living_results = native.living_results


def waiting_results(node: Tensor) -> list[Tensor]:
    """Those without values: a run that makes one of them makes all of these."""
    return [x for x in living_results(node) if x.stored is None]


def with_results(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Some nodes, and what somebody holds of the results of those that have several."""
    results = [x for node in nodes for x in living_results(node)]
    return _in_order({*nodes, *results}) if results else [*nodes]


def pending(roots: Iterable[Tensor]) -> list[Tensor]:
    """The nodes a run has to visit: those without a value, and where they begin.

    What is yet to be derived is visited as far as targets can be: its values are known,
    its recipes asked; those of parts of data only by data.
    """
    nodes = _visited(list(roots))
    kinds = set(map(type, map(_op, nodes)))
    if not any(getattr(kind, "family", "") == "derivative" for kind in kinds):
        return nodes
    if not any(x.inputs for x in nodes if x.stored is not None):
        return nodes
    derived = [x for x in nodes if x.op.family == "derivative" and x.stored is None]
    while True:
        below, targets = [x for d in derived for x in d.inputs], targets_of(derived)
        every = reach(below, floor=oldest(targets), parts=oldest_data(targets))
        more: list[Tensor] = []
        if any(d.op.nested for d in derived):  # type: ignore[attr-defined]
            known = {d.serial for d in derived}  # others may be behind values
            inner = (x for x in every if x.op.family == "derivative")
            more = [x for x in inner if x.serial not in known]
        if not more:
            return _in_order({*nodes, *every})
        derived += more


def targets_of(derivatives: Iterable[Tensor]) -> list[Tensor]:
    """The nodes that derivatives are taken by."""
    return [x for d in derivatives for x in d.inputs[2 * d.op.of :]]  # type: ignore[attr-defined]


def oldest(targets: Iterable[Tensor]) -> int:
    """The serial of the oldest of some targets.

    No older node depends on any of them: serials grow from operands to results.
    """
    return min(map(by_serial, targets), default=-1)


def oldest_data(targets: Iterable[Tensor]) -> int:
    """The same of those that are data or lie in it: what is no newer and lies in data
    leads to no target. NEWEST where there are none."""
    data = (x for x in targets if x.op is CONSTANT or x.mark is PART)
    return min(map(by_serial, data), default=NEWEST)


def _visited(roots: list[Tensor]) -> list[Tensor]:
    """The nodes without a value that the roots depend on, and where they begin."""
    if native is not None:
        return native.walk(roots, False)
    seen = set(roots)
    level = seen
    while level:
        waiting = [x for x in level if x.stored is None]
        every = set(chain.from_iterable(map(_inputs, waiting)))
        every.update(chain.from_iterable(map(waiting_results, waiting)))
        level = every - seen
        seen |= level
    return _in_order(seen)


def _in_order(nodes: Iterable[Tensor]) -> list[Tensor]:
    """Nodes in creation order."""
    listed = list(nodes)
    order = np.fromiter(map(by_serial, listed), np.int64, len(listed)).argsort()
    return [listed[k] for k in order.tolist()]


def few(roots: Iterable[Tensor], most: int) -> list[Tensor] | None:
    """`pending` where that is fewer nodes than `most`; None of a larger graph."""
    seen: dict[int, Tensor] = {}
    stack = list(roots)
    evaluated = False
    while stack:
        node = stack.pop()
        serial = node.serial
        if serial in seen:
            continue
        seen[serial] = node
        if len(seen) >= most:
            return None
        if node.stored is None:
            stack += node.inputs
        elif node.inputs:
            evaluated = True
    if evaluated and any(x.op.family == "derivative" for x in seen.values()):
        return pending(roots)
    return [seen[serial] for serial in sorted(seen)]


def opened(nodes: Sequence[Tensor]) -> set[int]:
    """The serials of a run's nodes that have a value and a recipe to be derived."""
    evaluated = [n for n in nodes if n.stored is not None and n.inputs]
    if not evaluated or not any(n.op.family == "derivative" for n in nodes):
        return set()
    here = {n.serial for n in nodes}
    waiting = [n for n in nodes if n.op.family == "derivative" and n.stored is None]
    targets = targets_of(waiting)
    floor, parts = oldest(targets), oldest_data(targets)
    return {
        n.serial
        for n in evaluated
        if n.serial > floor
        and (n.serial > parts or n.mark is not PART)
        and here.issuperset(x.serial for x in n.inputs)
    }


def uses(nodes: Iterable[Tensor]) -> dict[int, int]:
    """How often these nodes read each node, by its serial."""
    return Counter(map(by_serial, chain.from_iterable(map(_inputs, nodes))))


def users(nodes: Iterable[Tensor]) -> dict[int, list[Tensor]]:
    """For each node, by serial, the nodes among these that read it."""
    readers: dict[int, list[Tensor]] = {}
    for node in nodes:
        for x in node.inputs:
            readers.setdefault(x.serial, []).append(node)
    return readers


def rebuild(
    outputs: Iterable[Tensor],
    replaced: dict[int, Tensor],
    stop: Callable[[Tensor], bool] | None = None,
) -> list[Tensor]:
    """The outputs with some nodes (by serial) replaced; untouched parts are shared."""
    outputs = list(outputs)
    rebuilt = dict(replaced)
    for node in reach(outputs, lambda n: n.serial in rebuilt or bool(stop and stop(n))):
        if node.serial in rebuilt:
            continue
        inputs = tuple(rebuilt.get(x.serial, x) for x in node.inputs)
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            continue
        rebuilt[node.serial] = copied(node, inputs)
    return [rebuilt.get(node.serial, node) for node in outputs]


def stages(nodes: Iterable[Tensor]) -> dict[int, int]:
    """The stage of each node by serial: the longest path from a leaf among these.

    Nodes of one stage do not depend on each other.
    """
    depths: dict[int, int] = {}
    for node in nodes:
        depths[node.serial] = 1 + max(
            (depths.get(x.serial, -1) for x in node.inputs), default=-1
        )
    return depths
