"""Irregular graphs: what can run as rows runs at once, and leaves a tape."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.autodiff.tape import Part, Row, Tape
from treadle.base.options import current
from treadle.batch.forest import Forest, collect
from treadle.engines.base import engine
from treadle.graph.frame import state, top
from treadle.graph.leaves import Cut, as_tensor
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor, cut, mark_run, settle
from treadle.graph.traversal import pending, uses

__all__ = ["run_rows"]

FEW = 32  # nodes of a graph that is never looked at
PAYS = 2  # rows there have to be in a group on average


class _Run:
    """A run of a forest, seen by its rows' numbers."""

    def __init__(self, made: Any, places: list[tuple[int, int, int]]) -> None:
        self.made = made
        self.places = places
        self.order: list[tuple[int, bool]] = []  # source serial, whether rows of it

    def pull(self, given: Mapping[int, Any]) -> list[Any]:
        """The parts of the gradient, in the order of the tape's parts."""
        pairs = [(self.places[k], g) for k, g in given.items()]
        found = self.made.backward(pairs)
        parts = []
        for serial, sparse in self.order:
            if sparse:
                values = found.sparse[serial]
                parts.append(np.concatenate(values) if len(values) > 1 else values[0])
                continue
            total, *more = found.dense[serial]
            for x in more:
                total = total + x
            parts.append(total)
        return parts


def irregular(nodes: Sequence[Tensor]) -> bool:
    """Whether it may pay to look for rows: many nodes do the same at one depth."""
    if len(nodes) < FEW:
        return False
    kinds = {(type(node.op), node.depth) for node in nodes}
    return PAYS * len(kinds) <= len(nodes)


@provide
def run_rows(roots: Sequence[Tensor]) -> bool:
    """Run what of these roots can run as rows, if that pays; whether something ran."""
    options = current()
    if not options.autobatch or options.eager or top().tracing or not options.optimize:
        return False
    if options.check or options.workspace or options.engine not in ("auto", "native"):
        return False
    nodes = pending(roots)
    if not irregular(nodes):
        return False
    held = _held(nodes)
    units = collect(nodes)
    if len(units.nodes) < FEW:
        return False
    forest = Forest(units)
    if forest.rows < PAYS * len(forest.steps) or not forest.steps:
        return False
    exits = _exits(forest, nodes, [*roots, *held])
    gradient = not state.no_grad and _derivable(forest)
    made = engine(options.engine).rows(forest, gradient)
    if made is None:
        return False
    places = [place for _, place in exits]
    run = _Run(made, places)
    tape = _tape(forest, run) if gradient else None
    for number, (node, place) in enumerate(exits):
        settle(node, made.value(place))
        cut(node, Row(tape, number))
    mark_run()
    return True


def _derivable(forest: Forest) -> bool:
    return any(any(x.template.wanted) for x in forest.instances)


def _tape(forest: Forest, run: _Run) -> Tape:
    """The tape of a run, with the parts of its gradient."""
    found: dict[tuple[int, bool], Part] = {}
    ids: dict[int, list[Any]] = {}
    for number, instance in enumerate(forest.instances):
        template, shared = instance.template, instance.signature.shared
        for k in template.shared_cotangents:
            node = shared[k]
            found.setdefault((node.serial, False), Part(node, node.type))
        for k, own in template.sparse.items():
            node = shared[k]
            rows = run.made.ids(number, own)
            ids.setdefault(node.serial, []).append(rows)
            every = np.concatenate(ids[node.serial])
            t = node.type
            values = type(t)((len(every), *t.shape[1:]), t.dtype)
            found[node.serial, True] = Part(node, values, every)
    for node in forest.carried():
        found[node.serial, False] = Part(node, node.type)
    run.order = list(found)
    sources = {part.source.serial: part.source for part in found.values()}
    return Tape(run, list(sources.values()), list(found.values()))


def _exits(
    forest: Forest, nodes: Sequence[Tensor], roots: Sequence[Tensor]
) -> list[tuple[Tensor, tuple[int, int, int]]]:
    """The rows that others read, and those among the roots."""
    inside = forest.serials()
    wanted = {root.serial: root for root in roots if root.serial in inside}
    for node in nodes:
        if node.stored is None and node.serial not in inside:
            for x in node.inputs:
                if x.serial in inside:
                    wanted[x.serial] = x
    found = []
    for node in wanted.values():
        place = forest.place(node.serial)
        if place is not None:
            found.append((node, place))
    return found


def _held(nodes: Sequence[Tensor]) -> list[Tensor]:
    """The nodes that something outside this list and these inputs refers to."""
    counts = list(map(sys.getrefcount, nodes))
    inside = uses(nodes)
    return [
        node
        for node, count in zip(nodes, counts, strict=True)
        if count > _ALONE + inside.get(node.serial, 0) and node.stored is None
    ]


def _extra_references() -> int:
    """What is counted of a node that only a list refers to."""
    nodes = [Tensor(Cut(), (), as_tensor(0.0).type)]
    return next(iter(list(map(sys.getrefcount, nodes))))


_ALONE = _extra_references()
