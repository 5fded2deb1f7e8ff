"""Graphs to be compiled, as they were when their keys were taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from treadle.engines.native.translation.keys import Structure, structure
from treadle.engines.native.translation.resized import resized
from treadle.graph.frame import tracing
from treadle.graph.tensor import Tensor, copied


class ChangedError(Exception):
    """Another thread has computed a part of a graph since its key was taken."""


@dataclass(frozen=True)
class Wanted:
    """A graph to be compiled, and the serials of what is fed and kept. What is kept in
    `more` lies as it is computed.
    """

    structure: Structure
    feeds: Mapping[int, Any]
    keep: Set[int]
    more: Set[int] = frozenset()

    def frozen(self) -> Wanted:
        """The same of copies, to which no other thread gives values meanwhile. Raises
        ChangedError where one has done so already."""
        copies: dict[int, Tensor] = {}
        with tracing("a program"):
            for x in self.structure.nodes:
                inputs = tuple([copies.get(y.serial, y) for y in x.inputs])
                copy = copies[x.serial] = copied(x, inputs)
                copy.serial, copy.stored = x.serial, x.stored
        graph = structure([*copies.values()], self.feeds, self.keep | self.more)
        if graph.parts != self.structure.parts:
            raise ChangedError
        return replace(self, structure=graph)

    def resized(self, extents: Iterable[int]) -> Wanted | None:
        """The same for other extents of its family, without values."""
        other = resized(self.structure, self.feeds, extents)
        if other is None:
            return None
        graph, place = other[0], self.structure.place
        keep, more = (
            {graph.nodes[place[s]].serial for s in x} for x in (self.keep, self.more)
        )
        return Wanted(*other, keep, more)
