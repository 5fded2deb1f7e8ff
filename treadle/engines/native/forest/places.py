"""Places of a forest's values while it runs, and of their cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.batch.live import Live
from treadle.batch.part import Part
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import (
    FIRST,
    FRESH,
    GRADS,
    LEAVES,
    SINK,
    VALUES,
    block,
)
from treadle.engines.native.forest.matrices import Matrices, Read, aligned, row_types
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.parts import RowBodies, native_bodies

Source = tuple[str, int]
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
        self.values = Matrices(VALUES)
        for number, instance in enumerate(forest.instances):
            for place, t in row_types(instance, gradient).items():
                self.values.add(number, instance.count, place, t)

    def steps(self) -> Assembly:
        """A table to be: other engines have steps of their own."""
        return Assembly()

    def part(self, part: Part) -> Any:
        """A part for any number of rows."""
        return self.bodies.at((part.body.number, part.has_rows), part.at)

    def forward_of(self, instance: Instance) -> Part:
        """The part that makes the rows of an instance."""
        template = instance.template
        return template.forward if self.gradient else template.plain

    @lazy
    def cotangents(self) -> Cotangents:
        """The places of cotangents."""
        return Cotangents(self.forest, self.read)

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
    def tables(self) -> dict[int, list[tuple[int, Sparse]]]:
        """Of each table that has a gradient of rows, the instances that read it."""
        tables: dict[int, list[tuple[int, Sparse]]] = {}
        for number, instance in enumerate(self.forest.instances):
            for k, sparse in instance.template.sparse.items():
                serial = instance.signature.serials[k]
                tables.setdefault(serial, []).append((number, sparse))
        return tables

    def ids_of(self, number: int, sparse: Sparse) -> tuple[int, int, Type, Numbers]:
        """The ids that an instance reads rows by: their place, count and type, and the
        turn in which they are known."""
        matrices, owner, place = self.home(number, sparse.ids)
        t, groups = matrices.types[owner, place], self.forest.instances[owner].groups
        count, turn = matrices.rows[owner] * t.size, groups.turns.max(keepdims=True)
        return matrices.address(owner, place), count, t.with_shape(()), turn

    def numbers(self, places: Spots) -> tuple[Numbers, Type]:
        """The numbers of values of one type, by which their addresses are asked for."""
        forest = self.forest
        values = np.empty(len(places), np.int64)
        for number, output, mine in self.where(places):
            instance = forest.instances[number]
            values[mine] = forest.first[instance.units[places[mine, 2]]] + output
            t = instance.signature.body.types[output]
        return values, t

    def home(self, number: int, source: Source) -> tuple[Matrices, int, Source]:
        """The matrices that a source of an instance's rows lies in, whose it is there,
        and its place.
        """
        kind, k = source
        aligned = self.forest.instances[number].aligned
        if k in aligned and kind in ("input", "lasting"):
            number, k = aligned[k]
            kind = "output" if kind == "input" else "cotangent"
        if kind == "cotangent":
            return self.cotangents.grads, number, ("output", k)
        fresh = kind == "frontier"
        return self.cotangents.fresh if fresh else self.values, number, (kind, k)

    def address(self, number: int, source: Source) -> tuple[int, int]:
        """The address of row 0 of a source, and the distance of its rows: 0 if rows
        share it."""
        key = number, source
        values = self.values
        if key in values.offsets:
            return values.base + values.offsets[key], values.types[key].nbytes
        kind, k = source
        serials = self.forest.instances[number].signature.serials
        if kind == "input" and k in serials:
            return block(self.shared[serials[k]]), 0
        matrices, owner, place = self.home(number, source)
        return matrices.address(owner, place), matrices.types[owner, place].nbytes


class Cotangents:
    """Places of the cotangents of values, of what is summed later, and of leaves."""

    def __init__(self, forest: Forest, read: Read) -> None:
        self.grads, self.fresh = Matrices(GRADS), Matrices(FRESH)
        self.leaves = Matrices(LEAVES)
        self.space = 0  # bytes for those of what one group reads
        for number, instance in enumerate(forest.instances):
            template = instance.template
            for k, t in enumerate(instance.signature.body.types):
                if adds(t.dtype):
                    self.grads.add(number, instance.count, ("output", k), t)
            for k, t in enumerate(template.frontier):
                self.fresh.add(number, instance.count, ("frontier", k), t)
            n = int(instance.groups.counts.max())
            arguments = instance.signature.body.arguments
            rows = [k for k in template.row_cotangents if k not in instance.aligned]
            types = [arguments[k].type for k in rows]
            self.space = max(self.space, sum(aligned(n * t.nbytes) for t in types))
            total = template.total
            results = [] if total is None else [y.type for y in total.body.outputs]
            self.space = max(self.space, sum(aligned(t.nbytes) for t in results))
        # Where the cotangent of each leaf goes: to the sink if nobody asks for it.
        self.ends = np.full(read.count, SINK, np.int64)
        for k, t in read.floats:
            self.leaves.add(k, 1, ("leaf", 0), t)
            self.ends[k] = self.leaves.address(k, ("leaf", 0))
        read.place_views(self.ends)


def _matrices_of(places: Spots) -> Where:
    """The matrices that some values lie in, with which of the values."""
    if len(places) == 1:
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    codes = places[:, 0] * (int(places[:, 1].max()) + 1) + places[:, 1]
    if (codes == codes[0]).all():
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    matrices = []
    for code in np.unique(codes):
        (mine,) = np.nonzero(codes == code)
        number, output = places[mine[0], :2].tolist()
        matrices.append((number, output, mine))
    return matrices
