"""Parts of bodies put down as steps: where what they read and write lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Numbers
from treadle.batch.forest import Groups
from treadle.batch.part import Part
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import INDEX
from treadle.engines.native.forest.places import Places, Source

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
    """A part of an instance, and where its arguments and results lie.

    What is said of row 0 moves on by `shifts` bytes a row. The first results, which
    are not in `places`, are given with each group.
    """

    def __init__(
        self, program: Places, number: int, part: Part, places: Sequence[Source]
    ) -> None:
        self.rows = program.part(part)
        self.origin = program.forest.instances[number].signature.origin
        every = [*places, *part.sources]
        pairs = [program.address(number, s) for s in every]
        self.starts, self.shifts = np.array(pairs, np.int64).reshape(-1, 2).T
        self.sizes = [y.type.nbytes for y in part.body.outputs]
        # Which arguments are positions, and what they have to be below, if that is all
        # that can be wrong with what was put.
        self.needs: Needs = ()

    def put(
        self, steps: Assembly, groups: Groups, firsts: Sequence[Numbers] = ()
    ) -> None:
        """The part for each group; `firsts` has where its first results lie."""
        self.needs = ()
        more = len(firsts)
        places = np.empty((len(groups.starts), more + len(self.starts)), np.int64)
        for k, first in enumerate(firsts):
            places[:, k] = first
        np.multiply.outer(groups.starts, self.shifts, out=places[:, more:])
        places[:, more:] += self.starts
        for like, numbers, k in self.rows.alike(groups.counts):
            self._ask(like.needs)
            of_groups = places[k], groups.counts[k], self.sizes
            steps.part(groups.turns[k], like, numbers, *of_groups, self.origin)

    def _ask(self, needs: Needs) -> None:
        """Other numbers of rows may need something else."""
        known = self.needs
        if known is not None:
            more = None if needs is None else {*known, *needs}
            self.needs = None if more is None else tuple(more)
