"""Variables whose next values are written over those they have, run after run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence, Set
from typing import Any

from treadle.base.options import current
from treadle.engines.base import engine
from treadle.graph.resident import InPlace
from treadle.graph.variable import Variable
from treadle.runtime.look import Look

__all__ = ["Moved", "Together", "let_go"]


class Together:
    """Variables that all plans of a caller move at once, and the memory they lie in as
    long as each has its own.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = tuple(variables)
        self.ids = frozenset(map(id, variables))
        self.held: InPlace | None = None

    def hold(self) -> InPlace:
        """Have the newest values stay where they are."""
        versions = [v.committed for v in self.variables]
        arrays = [x.array for x in versions]
        held = self.held = InPlace([x.type for x in versions], arrays)
        for version, value in zip(versions, held.values, strict=True):
            version.stored = value
        _holding.add(self)
        return held


_holding: weakref.WeakSet[Together] = weakref.WeakSet()


def let_go(variables: Set[int]) -> None:
    """Have these Variables, by their ids, lie anywhere: whoever makes new values of
    them otherwise may write over the old ones.
    """
    for x in list(_holding):
        if not variables.isdisjoint(x.ids):
            x.held = None
            _holding.discard(x)


class Moved:
    """The Variables that a part of a plan moves: `numbers` says as which argument of
    its program, of which `sources` has the places in the graph.
    """

    def __init__(
        self, together: Together, numbers: Sequence[int], sources: Sequence[Any]
    ) -> None:
        self.together = together
        self.free = frozenset(numbers)
        others = [k for k in range(len(sources)) if k not in self.free]
        self.rest = [sources[k] for k in others]
        # Of versions that are in the graph it is told who else refers to them.
        places = [sources[k] for k in numbers]
        self._alone = bytes([type(x) is not int for x in places])
        self._places = [x for x in places if type(x) is int]
        order = {k: at for at, k in enumerate([*numbers, *others])}
        self._order = [order[k] for k in range(len(sources))]

    def lies(self, look: Look) -> InPlace | None:
        """What all lie in where they did, if nobody looks at one; else they are let go
        of.
        """
        held, others = self.together.held, look.others
        if held is not None and not any(others[k] > 1 for k in self._places):
            given = self.together.variables, held.values, self._alone
            if engine(current().engine).in_place(*given):
                return held
        let_go(self.together.ids)
        return None

    def settle(self, spent: Set[int]) -> InPlace | None:
        """Have them lie there from now on, if all are spent."""
        return self.together.hold() if spent == self.free else None

    def arguments(self, held: InPlace, rest: Sequence[Any]) -> list[Any]:
        """The arrays of all arguments, with those of the others."""
        arrays = [x.array for x in held.values]
        return list(map([*arrays, *rest].__getitem__, self._order))
