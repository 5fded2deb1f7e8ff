"""Residuals: values that a program keeps for the gradient asked for after it.

The first gradient after a value computes again what it reads. It tells which nodes
these were; from then on the program that made the value keeps them, as long as
gradients follow. So who never derives keeps nothing. What a call computes inside has no
node in the graph: it is kept as results of another call, beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.base.caches import Cache, Hashed
from treadle.base.locks import lock
from treadle.base.types import TupleType
from treadle.core import native
from treadle.engines.native.translation.keys import Structure
from treadle.graph.body import effect_of
from treadle.graph.frame import tracing
from treadle.graph.tensor import Tensor, settle
from treadle.ops.call import inside
from treadle.ops.families import Output

PROGRAMS = 256
BYTES = 256 << 20
IDLE = 256  # runs without a gradient after which nothing is kept any more
# The mark of a value: the key it was made under, the places, and what had values.
NOTE = "program"
INSIDE = "inside"  # the mark of a call: what it computed, by nodes of its body


@dataclass(slots=True)
class _Wish:
    """Places of nodes to be kept, and how many runs no gradient has followed.

    `inside` has pairs of the place of a call and that of a node in its body.
    """

    places: set[int] = field(default_factory=set)
    inside: set[tuple[int, int]] = field(default_factory=set)
    idle: int = 0

    @property
    def active(self) -> bool:
        """Whether a gradient has followed of late; if one follows again, it is so."""
        return self.idle <= IDLE


class MadeBy(Hashed[tuple[int, ...]]):
    """The key of a program that has made values, and the wish that was found for it."""

    __slots__ = ("wish",)

    def __init__(self, key: tuple[int, ...]) -> None:
        super().__init__(key)
        self.wish: _Wish | None = None


if native is not None:
    native.bind_residuals(MadeBy, _Wish)


@dataclass(frozen=True)
class KeptInside:
    """A call, nodes of its body, and the nodes that stand for them in a run."""

    call: Tensor
    inner: tuple[int, ...]
    nodes: tuple[Tensor, ...]

    @staticmethod
    def of(call: Tensor, inner: Iterable[int]) -> KeptInside:
        wanted = tuple(sorted(inner))
        with tracing("what is kept"):
            return KeptInside(call, wanted, tuple(inside(call, wanted)))

    def all(self) -> list[Tensor]:
        """These nodes, after the call whose results they are."""
        return [self.nodes[0].inputs[0], *self.nodes]


def known(graph: Structure) -> list[KeptInside]:
    """The values computed inside of calls that are yet to be derived."""
    calls = []
    for node in graph.nodes if graph.recipes else ():
        values = (node.mark or {}).get(INSIDE)
        if values:
            computed = KeptInside.of(node, values)
            for place, x in zip(computed.inner, computed.nodes, strict=True):
                settle(x, values[place])
            calls.append(computed)
    return calls


def _effects(nodes: Sequence[Tensor]) -> set[int]:
    """The places of nodes that are seen from outside, or of their single results."""
    several: set[int] = set()
    places = set()
    for k, node in enumerate(nodes):
        if isinstance(node.op, Output):
            if node.inputs and node.inputs[0].serial in several:
                places.add(k)
        elif effect_of(node.op) == "each":
            if isinstance(node.type, TupleType):
                several.add(node.serial)
            else:
                places.add(k)
    return places


class Residuals:
    """The nodes to be kept, by the key of the program that makes them."""

    def __init__(self) -> None:
        self._lock = lock()
        self._wishes: Cache[MadeBy, _Wish] = Cache("kept for gradients", PROGRAMS)
        self._made = 0  # wishes so far
        self._seen: Cache[MadeBy, set[int]] = Cache("effects of programs", PROGRAMS)

    def kept(self, key: MadeBy, graph: Structure) -> tuple[set[int], list[KeptInside]]:
        """The residuals that a run keeps: serials, and values inside calls."""
        with self._lock:
            places = self._seen_in(key, graph)
            inner: set[tuple[int, int]] = set()
            wish = self._wishes.get(key)
            if wish is not None:
                wish.idle += 1
                if wish.active:
                    places, inner = places | wish.places, set(wish.inside)
        if not places and not inner:
            return set(), []
        calls: dict[int, list[int]] = {}
        for place, own_place in sorted(inner):
            calls.setdefault(place, []).append(own_place)
        kept_inside = [
            KeptInside.of(graph.nodes[k], inner_places)
            for k, inner_places in calls.items()
        ]
        return {graph.nodes[k].serial for k in places}, kept_inside

    def _seen_in(self, key: MadeBy, graph: Structure) -> set[int]:
        """The places of what has an effect: for a gradient, too, that is there once."""
        places = self._seen.get(key)
        if places is None:
            places = self._seen[key] = _effects(graph.nodes)
        return places

    def wanted(self, key: MadeBy) -> Callable[[], bool]:
        """Whether what is kept by a program is what it is now, asked at each run."""
        wish, wishes = self._wishes.get(key), self._made
        if wish is None or not wish.active:

            def still() -> bool:
                nonlocal wishes
                if wishes != self._made:  # it may be one of this key
                    now = self._wishes.get(key)
                    if now is not None and now.active:
                        return False
                    wishes = self._made
                return True

            return still
        before = len(wish.places), len(wish.inside)  # which only grow

        def still_kept() -> bool:
            wish.idle += 1
            now = len(wish.places), len(wish.inside)
            return wish.idle <= IDLE and now == before

        return still_kept

    def renew(self, nodes: Iterable[Tensor]) -> None:
        """Know that gradients of evaluated nodes have followed."""
        last = None
        for x in nodes:
            note = x.mark.get(NOTE) if x.mark else None
            if note is not None and note[0] is not last:
                last = note[0]
                wish = last.wish = self._wishes.get(last)
                if wish is not None:
                    self._made += not wish.active
                    wish.idle = 0

    def note(self, key: MadeBy, graph: Structure, keep: Iterable[int]) -> None:
        """Tell evaluated nodes how they were made, for a gradient to come."""
        for serial in keep:
            node = graph.nodes[graph.place[serial]]
            if node.inputs:
                made_by = key, graph.place, graph.leaves
                node.mark = {**(node.mark or {}), NOTE: made_by}

    def ask(
        self,
        graph: Structure,
        wanted: Iterable[int],
        inner: Sequence[tuple[int, int, int]],
    ) -> None:
        """After a gradient: what was computed again is kept the next time.

        `inner` has places of calls, those of nodes in their bodies, and their bytes.
        """
        again = [graph.nodes[k].serial for k in wanted]
        calls = [(graph.nodes[k].serial, place) for k, place, _ in inner]
        size = sum(graph.nodes[k].type.nbytes for k in wanted)
        size += sum(nbytes for _, _, nbytes in inner)
        for serial in graph.recipes:
            mark = graph.nodes[graph.place[serial]].mark
            if not mark or NOTE not in mark:
                continue
            key, places, leaves = mark[NOTE]
            computed = places.keys() - leaves
            wished = {places[s] for s in again if s in computed}
            inside = {(places[s], n) for s, n in calls if s in computed}
            if size > BYTES:  # more than is kept: it is computed again each time
                continue
            with self._lock:
                wish = self._wishes.get(key)
                if wish is None and (wished or inside):
                    wish = self._wishes[key] = _Wish()
                    self._made += 1
                if wish is not None:
                    self._made += not wish.active
                    wish.places |= wished
                    wish.inside |= inside
                    wish.idle = 0


def gathered(values: dict[int, Any], kept_inside: Iterable[KeptInside]) -> None:
    """Put what calls computed inside, by place, under complements of their serials."""
    for computed in kept_inside:
        arrays: dict[int, np.ndarray[Any, Any]] = {
            place: values.pop(x.serial)
            for place, x in zip(computed.inner, computed.nodes, strict=True)
            if x.serial in values
        }
        if arrays:
            values[~computed.call.serial] = arrays
