"""A forest as tables of steps: what all forests that look alike have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from treadle.base.types import Type
from treadle.batch.columns import Numbers
from treadle.batch.forest import Forest, Instance
from treadle.batch.live import Live
from treadle.batch.part import Part
from treadle.batch.room import COARSE, room
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.backward import Backward, Cotangents
from treadle.engines.native.forest.bases import FIRST, VALUES, block
from treadle.engines.native.forest.matrices import Matrices, Read, outputs, row_types
from treadle.engines.native.forest.placed import (
    Gathered,
    Placed,
    Source,
    Spots,
    compiled_part,
)

__all__ = ["Program", "Where"]

Where = list[tuple[int, int, Any]]  # instance, output, and which of the values


class Program:
    """How a forest is run; with `gradient` what its gradient reads is kept.

    It takes an array for each leaf that is no part of another one, in their order, and
    for each node that rows share (`shared`, by serial). Beside what rows make, some
    values are `taken`, each time those of some places side by side.
    """

    def __init__(
        self, forest: Forest, gradient: bool, taken: Sequence[Spots] = ()
    ) -> None:
        self.forest = forest
        self.gradient = gradient
        self.taken = taken
        self._where: dict[int, tuple[Spots, Where]] = {}
        self._back: dict[tuple[int, ...], tuple[Sequence[Spots], Backward]] = {}
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

    def possible(self) -> bool:
        """Whether every body has native steps alone."""
        pairs = [(compiled_part(self.forward_of(x)), x) for x in self.forest.instances]
        return all(
            rows.at(n).possible
            for rows, instance in pairs
            for n in dict.fromkeys(instance.groups.counts.tolist())
        )

    def forward_of(self, instance: Instance) -> Part:
        """What is done to the rows of an instance."""
        template = instance.template
        return template.forward if self.gradient else template.plain

    @cached_property
    def cotangents(self) -> Cotangents:
        """Where cotangents lie."""
        return Cotangents(self.forest, self.read)

    @cached_property
    def forward(self) -> Forward:
        """The way there."""
        return Forward(self)

    def backward(self, given: Sequence[Spots]) -> Backward:
        """The way back for cotangents of some values; whose is asked for comes again.

        Rows that none of them reaches take no part.
        """
        key = tuple(map(id, given))
        known = self._back.get(key)
        if known is None:
            known = self._back[key] = given, Backward(self, given)
        return known[1]

    @cached_property
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

    @cached_property
    def tables(self) -> dict[int, list[tuple[int, Sparse]]]:
        """Of each table that has a gradient of rows, the instances that read it."""
        found: dict[int, list[tuple[int, Sparse]]] = {}
        for number, instance in enumerate(self.forest.instances):
            for k, own in instance.template.sparse.items():
                serial = instance.signature.serials[k]
                found.setdefault(serial, []).append((number, own))
        return found

    def ids_of(self, number: int, own: Sparse) -> tuple[int, int, Type, Numbers]:
        """Where the ids lie that an instance reads rows by, how many there are, of
        which type, and the turn in which they are known.
        """
        matrices, owner, place = self.home(number, own.ids)
        t, groups = matrices.types[owner, place], self.forest.instances[owner].groups
        count, turn = matrices.rows[owner] * t.size, groups.turns.max(keepdims=True)
        return matrices.address(owner, place), count, t.with_shape(()), turn

    def numbers(self, places: Spots) -> tuple[Numbers, Type]:
        """The numbers of values of one type, by which their addresses are asked for."""
        forest = self.forest
        found = np.empty(len(places), np.int64)
        for number, output, mine in self.where(places):
            instance = forest.instances[number]
            found[mine] = forest.first[instance.units[places[mine, 2]]] + output
            t = instance.signature.body.types[output]
        return found, t

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
        """Where row 0 of a source lies, and how far apart its rows do: not at all, if
        rows share it.
        """
        kind, k = source
        serials = self.forest.instances[number].signature.serials
        if kind == "input" and k in serials:
            return block(self.shared[serials[k]]), 0
        matrices, owner, place = self.home(number, source)
        return matrices.address(owner, place), matrices.types[owner, place].nbytes


def _matrices_of(places: Spots) -> Where:
    """The matrices that some values lie in, with which of the values."""
    if len(places) == 1:
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    codes = places[:, 0] * (int(places[:, 1].max()) + 1) + places[:, 1]
    found = []
    for code in np.unique(codes):
        (mine,) = np.nonzero(codes == code)
        number, output = places[mine[0], :2].tolist()
        found.append((number, output, mine))
    return found


class Forward:
    """The steps of all groups, and then of what is taken, of `types` each.

    Of tables with gradients the rows that were read are told, as `ids`.
    """

    def __init__(self, program: Program) -> None:
        self.types: list[Type] = []
        # Whose, how many, of which type.
        self.ids: list[tuple[int, int, Type]] = []
        steps, gathered = Assembly(), Gathered()
        for number, instance in enumerate(program.forest.instances):
            part = program.forward_of(instance)
            count = len(instance.signature.body.outputs)
            places = [("output", k) for k in range(count)]
            places += [("kept", k) for k in range(len(part.body.outputs) - count)]
            groups = instance.groups
            for k, sources in instance.sources.items():
                size = instance.signature.body.arguments[k].type.nbytes
                pointers = gathered.add(sources) + 8 * groups.starts
                first = program.values.address(number, ("input", k))
                target = first + size * groups.starts
                steps.gather(groups.turns, pointers, target, groups.counts, size)
            Placed(program, number, part, places).put(steps, groups)
        self._take(program, steps, gathered)
        if program.gradient:
            self._tell_ids(program, steps)
        self.table = steps.table()
        self.index = gathered.all()
        self.outputs = outputs(program.forest, program.values)

    def _take(self, program: Program, steps: Assembly, gathered: Gathered) -> None:
        last = np.array([program.forest.groups])
        for k, places in enumerate(program.taken, FIRST + len(program.shared)):
            values, t = program.numbers(places)
            self.types.append(t)
            count = np.array([len(places)])
            steps.gather(last, gathered.add(values), block(k), count, t.nbytes)

    def _tell_ids(self, program: Program, steps: Assembly) -> None:
        """The rows that are read of each table, one instance's after the other's, and
        more of the first, to which rows of zeros will be added.
        """
        first = FIRST + len(program.shared) + len(program.taken)
        for serial, every in program.tables.items():
            own = [program.ids_of(number, sparse) for number, sparse in every]
            same = len({t.dtype for _, _, t, _ in own}) == 1
            for parts in [own] if same else [[x] for x in own]:
                target, total = block(first + len(self.ids)), 0
                for source, count, t, turn in parts:
                    size = count * t.nbytes
                    steps.copy(turn, source, target + total * t.nbytes, size, now=True)
                    total += count
                more = np.arange(total, room(total, COARSE) if same else total)
                source, _, t, _ = parts[0]
                turns = np.repeat(max([turn for *_, turn in parts]), len(more))
                targets = target + more * t.nbytes
                steps.copy(turns, source, targets, t.nbytes, now=True)
                self.ids.append((serial, total + len(more), t))
