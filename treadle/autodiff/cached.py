"""Gradients of graphs that look like one before: what they reach is known then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.autodiff.dependence import Reached
from treadle.base.caches import Cache
from treadle.base.options import modes
from treadle.graph.frame import top
from treadle.graph.leaves import Version
from treadle.graph.look import Look, assigned, look
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import Variable

LOSSES = 256  # whose gradients are remembered
# By how a loss looks: the places of the versions that it is derived by.
_known: Cache[Any, tuple[int, ...]] = Cache("gradients of losses", LOSSES)


@dataclass
class Seen:
    """How a loss looks, and if one that looked alike was derived, by which versions of
    Variables: each is the only version of its Variable there.
    """

    key: Any
    place: dict[int, int]  # by serial
    versions: list[Tensor] | None

    def note(self, dependence: Reached, parameters: Sequence[Variable]) -> None:
        """Remember what a gradient by parameters has reached, if that is no more than
        one version of each."""
        more = (
            dependence.rows
            or dependence.derivatives
            or dependence.computed_table
            or dependence.rewritten
        )
        by = {
            id(x.op.variable): x for x in dependence.versions if type(x.op) is Version
        }
        versions = [by.get(id(p)) for p in parameters]
        if more or len(by) < len(dependence.versions):
            return
        places = [-1 if x is None else self.place.get(x.serial, -1) for x in versions]
        if places and -1 not in places:
            _known[self.key] = tuple(places)


def seen(loss: Tensor) -> Seen | None:
    """The key of a loss, with what its gradient reached before; None without a key."""
    now, frame = modes.get(), top()
    if frame.tracing or watchers or now.options.eager or not frame.alone():
        return None
    pending = frame.pending
    columns = look([loss], (), assigned(pending), True, pending)
    if columns is None:
        return None
    key = columns.key, now.options.compilation
    places = _known.get(key)
    versions = None if places is None else _versions(columns, places)
    place = {} if versions else {x.serial: k for k, x in enumerate(columns.nodes)}
    return Seen(key, place, versions)


def _versions(columns: Look, places: Sequence[int]) -> list[Tensor] | None:
    """The nodes at these places, if no other version of their Variables is there."""
    variables = [x.op.variable for x in columns.nodes if type(x.op) is Version]
    if len(set(map(id, variables))) < len(variables):
        return None
    return [columns.nodes[k] for k in places]
