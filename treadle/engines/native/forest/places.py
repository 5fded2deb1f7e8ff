"""Places of a forest's values while it runs, and of their cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers, distinct, indices_of
from treadle.base.buckets import size_bucket
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Groups
from treadle.batch.live import Live
from treadle.engines.native.forest.assembly import StepTable
from treadle.engines.native.forest.bases import FIRST, INDEX, LEAVES, SINK, Addresses
from treadle.engines.native.forest.family import family_of
from treadle.engines.native.forest.layout import Steps
from treadle.engines.native.forest.matrices import Matrices, MatrixPlan, Read
from treadle.engines.native.forest.parts import RowBodies, native_bodies

Spots = np.ndarray[Any, np.dtype[np.int64]]  # of each value: instance, output, row
Where = list[tuple[int, int, Any]]  # instance, output, and which of the values


class Places:
    """Places of a forest's values; with `gradient` what that reads is kept.

    A run takes an array for each leaf that is no part of another one, in their order,
    and for each node that rows share (`shared`, by serial). Beside what rows make, some
    values are `taken`, each time those of some places side by side. Steps are made of
    the `bodies` of an engine.
    """

    bodies: RowBodies = native_bodies

    def __init__(
        self, forest: Forest, gradient: bool, taken: Sequence[Spots] = ()
    ) -> None:
        self.forest = forest
        self.gradient = gradient
        self.taken = taken
        self._where: dict[int, tuple[Spots, Where]] = {}
        self.read = Read(forest.all.leaves, forest.all.views)
        # The numbers of the blocks of what is shared.
        self.shared: dict[int, int] = {}
        for instance in forest.instances:
            for serial in instance.signature.serials.values():
                self.shared.setdefault(serial, FIRST + len(self.shared))
        self.serials = [*self.shared]
        self.family = family_of(forest, gradient, self.shared, self.bodies)
        self.counts = [x.count for x in forest.instances]
        self.room = [size_bucket(n) for n in self.counts]
        self.values = Matrices(self.family.values, self.counts, self.room)

    def table(
        self,
        steps: Sequence[Steps],
        groups: Sequence[Groups],
        where: Numbers,
        lists: Sequence[Numbers],
        values: Addresses,
    ) -> Any:
        """A table of steps for some groups, if there are any; other engines have their
        own. Places are `where` they are, then come those of `lists` of values, whose
        addresses stand there."""
        if not steps:
            return None
        every = np.concatenate([np.zeros(0, np.int64), *lists])
        ends = np.cumsum([0, *map(len, lists)])
        where = np.concatenate([where, INDEX + 8 * ends])
        return self.made(steps, groups, where, values.at(every))

    def made(
        self,
        steps: Sequence[Steps],
        groups: Sequence[Groups],
        where: Numbers,
        index: Addresses,
    ) -> Any:
        """The table of steps that ask for the addresses of an index."""
        origins = [x.signature.origin for x in self.forest.instances]
        return StepTable(steps, groups, where, index, origins)

    @lazy
    def bases(self) -> Numbers:
        """The positions of the family's places that have values."""
        return np.concatenate([self.family.shared, self.values.addresses])

    @lazy
    def cotangents(self) -> Cotangents:
        """The places of cotangents."""
        return Cotangents(self)

    @lazy
    def live(self) -> Live:
        """Which rows some cotangents reach."""
        return Live(self.forest)

    # -- places ------------------------------------------------------------------------

    def where(self, places: Spots) -> Where:
        """The matrices that some values lie in; whose are asked for comes again."""
        known = self._where.get(id(places))
        if known is None or known[0] is not places:
            known = self._where[id(places)] = places, _matrices_of(places)
        return known[1]

    @lazy
    def _outputs(self) -> tuple[Numbers, Numbers]:
        """Of each value which output of an instance it is, counted through all of them,
        and its row; of what is no row neither is right."""
        forest, values = self.forest, np.arange(self.forest.all.count)
        units = forest.makers(values)
        starts = self.family.starts[forest.instance[units]]
        return starts + values - forest.first[units], forest.row[units]

    def outputs(self, matrices: Matrices) -> Numbers:
        """The addresses of the values that units make; those without have none that is
        right. After them those of their parts."""
        parts, (which, rows) = self.forest.all.parts, self._outputs
        at, sizes = self.family.outputs(matrices.plan)
        starts = matrices.addresses[at].take(which, mode="clip")
        every = starts + sizes.take(which, mode="clip") * rows
        return np.concatenate([every, every[parts.values] + parts.offsets])

    def numbers(self, places: Spots) -> tuple[Numbers, Type]:
        """The numbers of values of one type, by which their addresses are asked for."""
        forest = self.forest
        values = np.empty(len(places), np.int64)
        for number, output, mine in self.where(places):
            instance = forest.instances[number]
            values[mine] = forest.first[instance.units[places[mine, 2]]] + output
            t = instance.signature.body.types[output]
        return values, t


class Cotangents:
    """Places of the cotangents of values, of what is summed later, and of leaves."""

    def __init__(self, program: Places) -> None:
        family, read = program.family, program.read
        rows = program.counts, program.room
        self.grads = Matrices(family.grads, *rows)
        self.fresh = Matrices(family.fresh, *rows)
        # Where the cotangent of each leaf goes: to the sink if nobody asks for it.
        plan = MatrixPlan(LEAVES)
        for k, t in read.floats:
            plan.add(k, ("leaf", 0), t)
        self.leaves = Matrices(plan, *[[1] * read.count] * 2)
        self.ends = np.full(read.count, SINK, np.int64)
        self.ends[[k for k, _ in read.floats]] = self.leaves.addresses
        read.place_views(self.ends)


def _matrices_of(places: Spots) -> Where:
    """The matrices that some values lie in, with which of the values."""
    if len(places) == 1:
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    codes = places[:, 0] * (int(places[:, 1].max()) + 1) + places[:, 1]
    if (codes == codes[0]).all():
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    matrices = []
    for code in distinct(codes):
        mine = indices_of(codes == code)
        number, output = places[mine[0], :2].tolist()
        matrices.append((number, output, mine))
    return matrices
