"""Families of forests: what those have in common whose instances do the same.

A family has matrices, and where bodies find what they read and write among these: all
but the rows, the groups, and what each row reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.batch.part import Part
from treadle.batch.signature import has_loops
from treadle.batch.template import Sparse, Template
from treadle.engines.native.forest.bases import FIRST, FRESH, GRADS, VALUES, block
from treadle.engines.native.forest.matrices import MatrixPlan
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.parts import RowBodies, RowKernels

Source = tuple[str, int]


class Placed(NamedTuple):
    """A part of an instance: its body by rows, and which of a family's places are its
    results and arguments, of which row 0 moves on by `shifts` bytes a row. Results
    that come first may be at other places."""

    rows: RowKernels
    part: Part
    which: Numbers
    shifts: Numbers


class FamilyInstance:
    """What an instance is in each forest of a family."""

    def __init__(self, instance: Instance, shared: dict[int, int], gradient: bool):
        self.template: Template = instance.template
        self.arguments = [x.type for x in instance.signature.body.arguments]
        self.types = instance.signature.body.types
        self.sources = tuple(instance.sources)
        self.aligned = dict(instance.aligned)
        serials = instance.signature.serials
        self.shared = {k: shared[serial] - FIRST for k, serial in serials.items()}
        self.forward = self.template.forward if gradient else self.template.plain


class ForestFamily:
    """The matrices of a family, and the parts of its instances.

    Places are numbered: what rows share, then the matrices of values, of cotangents and
    of what is summed later.
    """

    def __init__(
        self, forest: Forest, gradient: bool, shared: dict[int, int], bodies: RowBodies
    ) -> None:
        self.bodies, self.gradient = bodies, gradient
        self.instances = [FamilyInstance(x, shared, gradient) for x in forest.instances]
        self.shared = block(1) * np.arange(FIRST, FIRST + len(shared))
        self.values = MatrixPlan(VALUES)
        for number, x in enumerate(self.instances):
            for k in x.sources:
                self.values.add(number, ("input", k), x.arguments[k])
            for k, t in enumerate(x.types):
                self.values.add(number, ("output", k), t)
            for k, t in enumerate(x.template.kept if gradient else ()):
                self.values.add(number, ("kept", k), t)
        self.scripts: dict[Any, Any] = {}  # of its tables, and where outputs lie
        # Of each table that has a gradient of rows, the instances that read it.
        self.tables: dict[int, list[tuple[int, Sparse]]] = {}
        for number, x in enumerate(self.instances) if gradient else ():
            for k, sparse in x.template.sparse.items():
                self.tables.setdefault(x.shared[k], []).append((number, sparse))

    @lazy
    def grads(self) -> MatrixPlan:
        """The matrices of cotangents of what rows make."""
        plan = MatrixPlan(GRADS)
        for number, x in enumerate(self.instances):
            for k, t in enumerate(x.types):
                if adds(t.dtype):
                    plan.add(number, ("output", k), t)
        return plan

    @lazy
    def fresh(self) -> MatrixPlan:
        """The matrices of what is summed over rows later."""
        plan = MatrixPlan(FRESH)
        for number, x in enumerate(self.instances):
            for k, t in enumerate(x.template.frontier):
                plan.add(number, ("frontier", k), t)
        return plan

    @lazy
    def starts(self) -> Numbers:
        """The first output of each instance among those of all."""
        return np.cumsum([0, *[len(x.types) for x in self.instances]])

    def outputs(self, plan: MatrixPlan) -> tuple[Numbers, Numbers]:
        """Of each output of each instance its place in a plan, and the bytes of a row;
        those of no matrix have any."""
        known = self.scripts.get(plan.base)
        if known is None:
            every = [
                plan.places.get((number, ("output", k)), 0)
                for number, x in enumerate(self.instances)
                for k in range(len(x.types))
            ]
            sizes = [plan.types[at].nbytes if plan.types else 0 for at in every]
            known = np.array(every, np.int64), np.array(sizes, np.int64)
            self.scripts[plan.base] = known
        return known

    def part(self, part: Part) -> RowKernels:
        """A part for any number of rows."""
        return self.bodies.at((part.body.number, part.has_rows), part.at)

    @lazy
    def forward(self) -> list[Placed]:
        """The part of each instance that makes its rows."""
        parts = []
        for number, x in enumerate(self.instances):
            count = len(x.types)
            kept = len(x.forward.body.outputs) - count
            places = [("output", k) for k in range(count)]
            places += [("kept", k) for k in range(kept)]
            parts.append(self._placed(number, x.forward, places))
        return parts

    @lazy
    def plain(self) -> list[RowKernels]:
        """The part of each that makes its values alone."""
        return [self.part(x.template.plain) for x in self.instances]

    @lazy
    def possible(self) -> list[list[RowKernels]]:
        """The parts of each that have to be native steps alone: a loop in a gradient
        may be driven from outside where the values' own is written out."""
        every = []
        for x, part in zip(self.instances, self.forward, strict=True):
            back = x.template.backward if self.gradient else None
            every.append([part.rows])
            if back is not None and has_loops(back.body):
                every[-1].append(self.part(back))
        return every

    @lazy
    def backward(self) -> list[Placed | None]:
        """The part of each that makes cotangents, if it has one."""
        parts: list[Placed | None] = []
        for number, x in enumerate(self.instances):
            part = x.template.backward
            frontier = [("frontier", k) for k in range(len(x.template.frontier))]
            placed = None if part is None else self._placed(number, part, frontier)
            parts.append(placed)
        return parts

    @lazy
    def totals(self) -> list[tuple[RowKernels, Numbers, list[Type]] | None]:
        """The sums over the rows of each, if it has any: the places of what they are
        made of, and their types."""
        sums = list[tuple[RowKernels, Numbers, list[Type]] | None]()
        for number, x in enumerate(self.instances):
            part = x.template.total
            if part is None:
                sums.append(None)
                continue
            rows = self.bodies.at((part.body.number, "total"), x.template.total_at)
            which = [self.place(number, s)[0] for s in part.sources]
            types = [y.type for y in part.body.outputs]
            sums.append((rows, np.array(which, np.int64), types))
        return sums

    def _placed(self, number: int, part: Part, results: Sequence[Source]) -> Placed:
        places = [self.place(number, s) for s in (*results, *part.sources)]
        which, shifts = np.array(places, np.int64).reshape(-1, 2).T
        return Placed(self.part(part), part, which, shifts)

    def home(self, number: int, source: Source) -> tuple[MatrixPlan, int, Source]:
        """The plan of the matrix that a source of an instance's rows lies in, whose it
        is there, and its place.
        """
        kind, k = source
        aligned = self.instances[number].aligned
        if k in aligned and kind in ("input", "lasting"):
            number, k = aligned[k]
            kind = "output" if kind == "input" else "cotangent"
        if kind == "cotangent":
            return self.grads, number, ("output", k)
        return self.fresh if kind == "frontier" else self.values, number, (kind, k)

    def place(self, number: int, source: Source) -> tuple[int, int]:
        """The place of a source, and the distance of its rows: 0 if rows share it."""
        kind, k = source
        mine = self.instances[number]
        if kind == "input" and k in mine.shared:
            return mine.shared[k], 0
        plan, owner, key = self.home(number, source)
        at, first = plan.places[owner, key], len(self.shared)
        size = plan.types[at].nbytes
        if plan is not self.values:
            first += len(self.values.types)
            first += len(self.grads.types) if plan is self.fresh else 0
        return first + at, size


def family_of(
    forest: Forest, gradient: bool, shared: dict[int, int], bodies: RowBodies
) -> ForestFamily:
    """The family of a forest; `shared` has the blocks of what rows share, by serial."""
    parts = [
        (
            id(x.template),
            tuple(x.sources),
            tuple(x.aligned.items()),
            tuple([shared[s] for s in x.signature.serials.values()]),
        )
        for x in forest.instances
    ]
    key = gradient, *parts
    family = bodies.families.get(key)
    if family is None:
        family = ForestFamily(forest, gradient, shared, bodies)
        bodies.families[key] = family
    return family
