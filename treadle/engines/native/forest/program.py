"""A forest as tables of steps: what all forests that look alike have in common."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Groups, Instance, one_group
from treadle.batch.part import Part
from treadle.engines.native.codegen.elements import is_float
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.backward import Backward
from treadle.engines.native.forest.bases import FIRST, Addresses, block
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.placed import Gathered, Needs
from treadle.engines.native.forest.places import Places, Spots
from treadle.engines.native.forest.positions import Positions, positions_of


class ForestProgram(Places):
    """The program of a forest: tables of its forward and backward pass."""

    def __init__(
        self, forest: Forest, gradient: bool, taken: Sequence[Spots] = ()
    ) -> None:
        super().__init__(forest, gradient, taken)
        self._back: dict[tuple[int, ...], tuple[Sequence[Spots], Backward]] = {}

    def possible(self) -> bool:
        """Return True if every body has native steps alone, and its gradient: a loop in
        that may be driven from outside where the values' own is written out."""
        every = zip(self.forest.instances, self.family.possible, strict=True)
        return all(x.possible(y.groups.counts) for y, parts in every for x in parts)

    def costs(self) -> tuple[int, int]:
        """The native records of its groups, and of all of its rows one by one.

        A group has those of its body, counted for one row and no gradient, and one for
        each operand that is gathered: a function of the graph alone.
        """
        together, alone = len(self.taken), 0
        each = zip(self.forest.instances, self.family.plain, strict=True)
        for instance, plain in each:
            records = plain.records()
            groups = len(instance.groups.turns)
            together += groups * (records + len(instance.sources))
            alone += instance.count * records
        return together, alone

    def pays(self) -> bool:
        """Return True if its groups take half the records of the rows one by one, or
        would be another program for each graph; not where products of single rows are
        as quick.

        Bodies of which groups save nothing are compiled where others save something.
        """
        if self.forest.varies:
            return True
        if self.forest.is_wide:
            return False
        saved = -2 * len(self.taken)
        spared = []  # for each record of a body: of rows, less twice those of groups
        each = zip(self.forest.instances, self.family.plain, strict=True)
        for instance, plain in each:
            groups = len(instance.groups.turns)
            saved -= 2 * groups * len(instance.sources)
            spared.append((instance.count - 2 * groups, plain))
        for records, plain in sorted(spared, key=itemgetter(0), reverse=True):
            if records <= 0 and saved < 0:
                return False
            saved += records * plain.records()
        return saved >= 0

    @lazy
    def forward(self) -> Forward:
        """The way there."""
        return Forward(self)

    def backward(self, seeds: Sequence[Spots]) -> Backward:
        """The way back for cotangents of some values; whose is asked for comes again.

        Rows that none of them reaches take no part.
        """
        key = tuple(map(id, seeds))
        known = self._back.get(key)
        if known is None:
            known = self._back[key] = seeds, Backward(self, seeds)
        return known[1]


class Forward:
    """The steps of all groups, and then of what is taken, of `types` each.

    Of tables with gradients the rows that were read are told, as `ids`. `positions` has
    what can be found out of range, unless that depends on more than data of the user.
    """

    def __init__(self, program: Places) -> None:
        self.types: list[Type] = []
        # Whose, how many, of which type.
        self.ids: list[tuple[int, int, Type]] = []
        self.positions: list[Positions] | None = []
        steps, gathered, family = program.steps(), Gathered(), program.family
        bases = program.bases
        firsts = bases.tolist()
        each = zip(
            program.forest.instances, family.gathers, family.forward, strict=True
        )
        for instance, places, part in each:
            groups = instance.groups
            for k, place, size in places:
                pointers = gathered.add(instance.sources[k]), 8
                steps.gather(groups, pointers, (firsts[place], size), size)
            needs = part.put(steps, groups, bases, (), instance.signature.origin)
            self._look(program.forest, instance, part.part, needs)
        self._take(program, steps, gathered)
        if program.gradient:
            self._tell_ids(program, steps)
        # The blocks of leaves come after those of all results.
        self.leaves = FIRST + len(program.shared) + len(self.types) + len(self.ids)
        values = program.outputs(program.values)
        where = Addresses.of(values, program.read.blocks(self.leaves))
        self.table = steps.table(where.at(gathered.all()))

    def _look(
        self, forest: Forest, instance: Instance, part: Part, needs: Needs
    ) -> None:
        positions = None
        if needs is not None:
            positions = positions_of(forest, instance, part.sources, needs)
        if positions is None or self.positions is None:
            self.positions = None
        else:
            self.positions += positions

    def are_right(self, addresses: Numbers) -> bool:
        """Return True if no position can be out of range; `addresses` of the leaves."""
        positions = self.positions
        if not positions:
            return positions is not None
        place = int(addresses.ctypes.data)
        return all(x.are_right(place) for x in positions)

    def _take(self, program: Places, steps: Assembly, gathered: Gathered) -> None:
        last = program.forest.groups
        for k, places in enumerate(program.taken, FIRST + len(program.shared)):
            values, t = program.numbers(places)
            self.types.append(t)
            groups = one_group(last, len(places))
            steps.gather(groups, gathered.add(values), block(k), t.nbytes)

    def _tell_ids(self, program: Places, steps: Assembly) -> None:
        """The rows that are read of each table, one instance's after the other's, and
        more of the first, to which rows of zeros will be added.
        """
        first = FIRST + len(program.shared) + len(program.taken)
        for serial, every in program.tables:
            ids = [program.ids_of(number, sparse) for number, sparse in every]
            same = len({t.dtype for _, _, t, _ in ids}) == 1
            for parts in [ids] if same else [[x] for x in ids]:
                target, total = block(first + len(self.ids)), 0
                for source, count, t, turn in parts:
                    size = count * t.nbytes
                    place = target + total * t.nbytes
                    steps.copy(one_group(turn), source, place, size, now=True)
                    total += count
                more = np.arange(total, size_bucket(total, COARSE) if same else total)
                source, _, t, _ = parts[0]
                turns = np.repeat(max([turn for *_, turn in parts]), len(more))
                groups = Groups(turns, more, more)
                steps.copy(groups, source, (target, t.nbytes), t.nbytes, now=True)
                self.ids.append((serial, total + len(more), t))


def adds_up(forest: Forest) -> bool:
    """True if cotangents can be added to those of all floats that rows read and make.

    Those of 16 bits cannot: they go node by node.
    """
    types = {t.dtype for x in forest.instances for t in x.signature.body.types}
    types |= {t.dtype for t, _ in forest.all.leaves.types}
    return all(adds(t) or not is_float(t) for t in types)
