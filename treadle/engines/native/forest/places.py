"""Places of a forest's values while it runs, and of their cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers, distinct
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest
from treadle.batch.live import Live
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import FIRST, LEAVES, SINK
from treadle.engines.native.forest.family import ForestFamily, family_of
from treadle.engines.native.forest.matrices import Matrices, MatrixPlan, Read, aligned
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
        self.family = family_of(forest, gradient, self.shared, self.bodies)
        self._counts = [x.count for x in forest.instances]
        self.values = Matrices(self.family.values, self._counts)

    def steps(self) -> Assembly:
        """A table to be: other engines have steps of their own."""
        return Assembly()

    @lazy
    def bases(self) -> Numbers:
        """The positions of the family's places that have values."""
        return np.concatenate([self.family.shared, self.values.addresses])

    @lazy
    def cotangents(self) -> Cotangents:
        """The places of cotangents."""
        return Cotangents(self.forest, self.family, self._counts, self.read)

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

    def outputs(self, matrices: Matrices) -> Numbers:
        """The addresses of the values that units make; those without have none that is
        right. After them those of their parts."""
        forest, parts = self.forest, self.forest.all.parts
        offsets = np.zeros(forest.all.count, np.int64)
        for number, instance in enumerate(forest.instances):
            first = forest.first[instance.units]
            rows = np.arange(len(first))
            for k in range(len(instance.signature.body.outputs)):
                at = matrices.plan.places.get((number, ("output", k)))
                if at is not None:
                    size = matrices.plan.types[at].nbytes
                    offsets[first + k] = matrices.offsets[at] + size * rows
        every = [offsets, offsets[parts.values] + parts.offsets]
        return np.concatenate(every) + matrices.base

    @property
    def tables(self) -> list[tuple[int, list[tuple[int, Sparse]]]]:
        """Of each table that has a gradient of rows, the instances that read it."""
        serials = list(self.shared)
        return [(serials[k], every) for k, every in self.family.tables.items()]

    def ids_of(self, number: int, sparse: Sparse) -> tuple[int, int, Type, int]:
        """The ids that an instance reads rows by: their place, count and type, and the
        turn in which they are known."""
        address, count, t, owner = self.rows_of(number, sparse.ids)
        turn = int(self.forest.instances[owner].groups.turns.max())
        return address, count * t.size, t.with_shape(()), turn

    def rows_of(
        self, number: int, source: tuple[str, int]
    ) -> tuple[int, int, Type, int]:
        """The address of the rows of a source, how many they are, of which type, and
        whose."""
        plan, owner, place = self.family.home(number, source)
        matrices = self.values
        if plan is not matrices.plan:
            cotangents = self.cotangents
            fresh = plan is cotangents.fresh.plan
            matrices = cotangents.fresh if fresh else cotangents.grads
        t, offset = matrices.find(owner, place)
        return matrices.base + offset, matrices.rows[owner], t, owner

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

    def __init__(
        self, forest: Forest, family: ForestFamily, counts: Sequence[int], read: Read
    ) -> None:
        self.grads = Matrices(family.grads, counts)
        self.fresh = Matrices(family.fresh, counts)
        self.space = 0  # bytes for those of what one group reads
        for instance, ends, sums in zip(
            forest.instances, family.ends, family.totals, strict=True
        ):
            n = int(instance.groups.counts.max())
            rows = sum(aligned(n * size) for at, size, _, _ in ends if at is None)
            total = sum(aligned(t.nbytes) for t in sums[2]) if sums else 0
            self.space = max(self.space, rows, total)
        # Where the cotangent of each leaf goes: to the sink if nobody asks for it.
        plan = MatrixPlan(LEAVES)
        for k, t in read.floats:
            plan.add(k, ("leaf", 0), t)
        self.leaves = Matrices(plan, [1] * read.count)
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
        (mine,) = np.nonzero(codes == code)
        number, output = places[mine[0], :2].tolist()
        matrices.append((number, output, mine))
    return matrices
