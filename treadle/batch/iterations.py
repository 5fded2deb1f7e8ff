"""The values of repeated steps, by number: which nodes they are, and what they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.arrays import indices_of
from treadle.base.types import TupleType
from treadle.batch.repeats import LEAST, Steps, Waiting
from treadle.batch.signature import apart
from treadle.graph.body import effect_of
from treadle.graph.leaves import LITERAL
from treadle.graph.marks import NO_GRAD
from treadle.graph.tensor import Tensor
from treadle.ops.slice import Slice


class RefusedError(Exception):
    """Raised where steps are no loop."""


class Iterations:
    """The values of steps, by number: those of the period, then those outside of it of
    which there is one for each step (`_add_readers`).

    ranks[v] has the node of value v in each step; by rank, `value` and `step` tell
    which value of which step a node is, -1 of other nodes.
    """

    def __init__(self, waiting: Waiting, steps: Steps, least: int = LEAST) -> None:
        self.waiting, self.first = waiting, steps.first
        self.shared = waiting.shared[waiting.places]
        every = steps.first + np.arange(steps.count * steps.period)
        ranks = every.reshape(steps.count, steps.period)
        busy = indices_of(self.shared[ranks].any(1))
        self.count = int(busy[0]) if len(busy) else steps.count
        if self.count < least:
            raise RefusedError
        self.ranks = list(ranks[: self.count].T)
        self.value = np.full(len(waiting.places), -1, np.int64)
        self.step = self.value.copy()
        self.value[ranks[: self.count]] = np.arange(steps.period)
        self.step[ranks[: self.count]] = np.arange(self.count)[:, None]
        self.mark = self._mark()
        for v in range(len(self.ranks)):
            if not _repeats(self.node(v)):
                raise RefusedError
        while self._add_readers():
            pass

    def node(self, value: int, step: int = 0) -> Tensor:
        """The node of a value in a step."""
        return self.nodes[self.waiting.places[self.ranks[value][step]]]

    @property
    def nodes(self) -> list[Tensor]:
        return self.waiting.columns.nodes

    def _mark(self) -> Any:
        """The mark of all nodes of the steps."""
        places = self.waiting.places[np.concatenate(self.ranks)]
        if not self.waiting.columns.marked[places].any():
            return None
        if any(self.nodes[k].mark is not NO_GRAD for k in places.tolist()):
            raise RefusedError
        return NO_GRAD

    def is_before(self, place: int) -> bool:
        """Return True if a node is there before the first step."""
        return bool(self.waiting.rank[place] < self.first)

    def outside(self) -> Iterator[int]:
        """The ranks of other nodes that read values of steps."""
        waiting = self.waiting
        inside = (waiting.ranks >= 0) & (self.value[waiting.ranks] >= 0)
        readers = waiting.readers[inside]
        yield from dict.fromkeys(readers[self.value[readers] < 0].tolist())

    def _add_readers(self) -> bool:
        """Add nodes that do the same with each step, and whether there were any."""
        groups: dict[Any, list[tuple[int, int]]] = {}
        for reader in self.outside():
            step, key = self._one_step(reader)
            if step >= 0:
                groups.setdefault(key, []).append((step, reader))
        every = list(range(self.count))
        more = [x for x in groups.values() if [step for step, _ in x] == every]
        for pairs in more:
            ranks = np.array([reader for _, reader in pairs])
            self.value[ranks], self.step[ranks] = len(self.ranks), every
            self.ranks.append(ranks)
        return bool(more)

    def _one_step(self, reader: int) -> tuple[int, Any]:
        """The step that a node reads alone, -1 if there is none, and what it does."""
        waiting, node = self.waiting, self.nodes[self.waiting.places[reader]]
        step, key = -1, [waiting.code[reader], getattr(node.op, "starts", None)]
        for place in waiting.read(reader):
            rank = int(waiting.rank[place])
            if rank >= 0 and self.value[rank] >= 0:
                if step not in (-1, self.step[rank]):
                    return -1, None
                step = int(self.step[rank])
                key.append(int(self.value[rank]))
            elif self.nodes[place].op is LITERAL:
                key.append(("literal", int(waiting.literals[place])))
            elif self.is_before(place):
                key.append(~place)
            else:
                return -1, None
        fits = node.mark is self.mark and not self.shared[reader] and _repeats(node)
        return (step, tuple(key)) if fits else (-1, None)


def _repeats(node: Tensor) -> bool:
    """Return True if a node may be part of a loop's body."""
    types: Any = node.type if isinstance(node.type, TupleType) else (node.type,)
    named = any(t.axes is not None for t in types)
    return not (named or apart(node.op) or effect_of(node.op))


@dataclass(frozen=True)
class Slices:
    """Slices of one node, one a step, each `stride` behind the last along an axis."""

    source: int
    axis: int
    stride: int


def slices_of(members: Iterations, value: int) -> Slices | None:
    """The slices that a value is, if they move; None if it is none that does."""
    if type(members.node(value).op) is not Slice:
        return None
    ops: list[Any] = [members.node(value, k).op for k in range(members.count)]
    starts = np.array([op.starts for op in ops])
    moves = np.diff(starts, axis=0)
    if not moves.any():
        return None
    axes = indices_of(moves[0])
    places = {members.waiting.read(rank)[0] for rank in members.ranks[value]}
    place = places.pop()
    if places:  # they are slices of other nodes
        raise RefusedError
    if (moves != moves[:1]).any() or len(axes) != 1 or not members.is_before(place):
        raise RefusedError
    axis = int(axes[0])
    if members.node(value).type.shape[axis] != 1:
        raise RefusedError
    return Slices(place, axis, int(moves[0, axis]))
