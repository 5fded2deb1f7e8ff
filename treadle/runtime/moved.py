"""Variables whose next values are written over those they have, run after run."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from treadle.core import native
from treadle.graph.claim import Claim, InPlace
from treadle.graph.look import Look
from treadle.graph.references import in_place
from treadle.graph.variable import Variable


class Together:
    """Variables that all plans of a caller move at once, and the memory they lie in as
    long as each has its own.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = tuple(variables)
        self.ids = frozenset(map(id, variables))
        self.held: InPlace | None = None

    def hold(self, claim: Claim) -> InPlace:
        """Have the values of a claim, which a run writes over, stay where they are."""
        of = {id(v): k for k, v in enumerate(claim.variables)}
        order = [of[id(v)] for v in self.variables]
        arrays: list[Any] = [claim.before[k].array for k in order]
        held = InPlace(self.variables, [claim.nodes[k] for k in order], arrays)
        claim.values = [held.futures[order.index(k)] for k in range(len(order))]
        self.held = held
        holding[id(self)] = weakref.ref(self, partial(holding.pop, id(self)))
        return held


holding: dict[int, weakref.ref[Together]] = {}  # those that hold some, while they live


def let_go(variables: Set[int]) -> None:
    """Have these Variables, by their ids, lie anywhere: whoever makes new values of
    them otherwise may write over the old ones.
    """
    for reference in list(holding.values()):
        x = reference()
        if x is not None and not variables.isdisjoint(x.ids):
            x.held = None
            holding.pop(id(x), None)


if native is not None:
    native.bind_holding(holding, let_go)


class Moved:
    """The Variables that a part of a plan moves: `numbers` says as which argument of
    its program, of which `sources` has the places in the graph.
    """

    def __init__(
        self,
        together: Together,
        numbers: Sequence[int],
        sources: Sequence[Any],
        uses: Mapping[int, int],
    ) -> None:
        self.together = together
        self.free = frozenset(numbers)
        others = [k for k in range(len(sources)) if k not in self.free]
        self.rest = [sources[k] for k in others]
        places = [sources[k] for k in numbers]
        self._places = [x for x in places if type(x) is int]
        # Who refers to a version when it is taken away: the list of nodes and those
        # that read it, where it is in the graph.
        counts = [1 + uses[x] if type(x) is int else 0 for x in places]
        self._counts = np.array(counts, np.int64).tobytes()
        order = {k: at for at, k in enumerate([*numbers, *others])}
        self._order = [order[k] for k in range(len(sources))]

    def take(self, look: Look) -> InPlace | None:
        """The arrays, taken from their nodes, if all lie where they did and nobody
        looks at one; else they are let go of."""
        held, others = self.together.held, look.others
        # The Variable and what holds them refer to a version of the graph besides it.
        if held is not None and not any(others[k] > 2 for k in self._places):
            try:
                if held.take_if(
                    partial(in_place, held.before, held.futures, self._counts)
                ):
                    return held
            except BaseException:
                held.leave(failed=True)
                raise
        let_go(self.together.ids)
        return None

    def arguments(self, held: InPlace, rest: Sequence[Any]) -> list[Any]:
        """The arrays of all arguments, with those of the others."""
        arrays = [x.array for x in held.futures]
        return list(map([*arrays, *rest].__getitem__, self._order))
