"""Parts of bodies put down as steps, and addresses that steps ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Numbers
from treadle.batch.forest import Groups
from treadle.batch.part import Part
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import INDEX
from treadle.engines.native.forest.layout import Form
from treadle.engines.native.forest.parts import RowKernels
from treadle.graph.origin import Origin

Needs = tuple[tuple[int, int], ...] | None


class Gathered:
    """Whose addresses steps ask for, one list after the other."""

    def __init__(self) -> None:
        self.parts: list[Numbers] = []
        self.count = 0

    def add(self, values: Numbers) -> int:
        """The place of the addresses of some values."""
        place = INDEX + 8 * self.count
        self.parts.append(values)
        self.count += len(values)
        return place

    def all(self) -> Numbers:
        """All values, in order; leaves have numbers that count from the end."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.int64)


class Placed:
    """A part of an instance: its body by rows, and `which` of a family's places are its
    results and arguments, but for the first results, which are given with each group.
    What is said of row 0 moves on by `shifts` bytes a row."""

    def __init__(self, rows: RowKernels, places: Sequence[tuple[int, int]], part: Part):
        self.rows, self.part = rows, part
        self._which, self._shifts = np.array(places, np.int64).reshape(-1, 2).T
        self._sizes = [y.type.nbytes for y in part.body.outputs]

    def put(
        self,
        steps: Assembly,
        groups: Groups,
        bases: Numbers,
        firsts: Sequence[Form] = (),
        origin: Origin | None = None,
    ) -> Needs:
        """The part for each group, where places are at `bases`; `firsts` has where its
        first results lie. Which arguments are positions, and what they have to be
        below, if that is all that can be wrong with it."""
        starts, shifts = bases[self._which], self._shifts
        if firsts:
            first, shift = np.array(firsts, np.int64).T
            starts, shifts = np.concatenate([[first, shift], [starts, shifts]], 1)
        needs: Needs = ()
        for like, numbers, k in self.rows.alike(groups.counts):
            mine = groups if k is None else Groups(*[x[k] for x in groups])
            steps.part(mine, like, numbers, starts, shifts, self._sizes, origin)
            if needs is not None:  # other numbers of rows may need something else
                needs = None if like.needs is None else needs + like.needs
        return needs
