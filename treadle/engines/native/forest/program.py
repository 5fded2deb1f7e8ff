"""A forest as tables of steps: what all forests that look alike have in common."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.batch.part import Part
from treadle.batch.signature import has_loops
from treadle.engines.native.codegen.elements import is_float
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.backward import Backward
from treadle.engines.native.forest.bases import FIRST, VALUES, Addresses, block
from treadle.engines.native.forest.matrices import outputs
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.placed import Gathered, Needs, Placed
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
        for instance in self.forest.instances:
            parts, back = [self.forward_of(instance)], instance.template.backward
            if self.gradient and back is not None and has_loops(back.body):
                parts.append(back)
            counts = instance.groups.counts
            if not all(self.part(part).possible(counts) for part in parts):
                return False
        return True

    def costs(self) -> tuple[int, int]:
        """The native records of its groups, and of all of its rows one by one.

        A group has those of its body, counted for one row and no gradient, and one for
        each operand that is gathered: a function of the graph alone.
        """
        together, alone = len(self.taken), 0
        for instance in self.forest.instances:
            records = self.part(instance.template.plain).records()
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
        for instance in self.forest.instances:
            groups = len(instance.groups.turns)
            saved -= 2 * groups * len(instance.sources)
            spared.append((instance.count - 2 * groups, instance))
        for records, instance in sorted(spared, key=itemgetter(0), reverse=True):
            if records <= 0 and saved < 0:
                return False
            saved += records * self.part(instance.template.plain).records()
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
        steps, gathered = program.steps(), Gathered()
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
            placed = Placed(program, number, part, places)
            placed.put(steps, groups)
            self._look(program.forest, instance, part, placed.needs)
        self._take(program, steps, gathered)
        if program.gradient:
            self._tell_ids(program, steps)
        # The blocks of leaves come after those of all results.
        self.leaves = FIRST + len(program.shared) + len(self.types) + len(self.ids)
        values = outputs(program.forest, program.values) + VALUES
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
        last = np.array([program.forest.groups])
        for k, places in enumerate(program.taken, FIRST + len(program.shared)):
            values, t = program.numbers(places)
            self.types.append(t)
            count = np.array([len(places)])
            steps.gather(last, gathered.add(values), block(k), count, t.nbytes)

    def _tell_ids(self, program: Places, steps: Assembly) -> None:
        """The rows that are read of each table, one instance's after the other's, and
        more of the first, to which rows of zeros will be added.
        """
        first = FIRST + len(program.shared) + len(program.taken)
        for serial, every in program.tables.items():
            ids = [program.ids_of(number, sparse) for number, sparse in every]
            same = len({t.dtype for _, _, t, _ in ids}) == 1
            for parts in [ids] if same else [[x] for x in ids]:
                target, total = block(first + len(self.ids)), 0
                for source, count, t, turn in parts:
                    size = count * t.nbytes
                    steps.copy(turn, source, target + total * t.nbytes, size, now=True)
                    total += count
                more = np.arange(total, size_bucket(total, COARSE) if same else total)
                source, _, t, _ = parts[0]
                turns = np.repeat(max([turn for *_, turn in parts]), len(more))
                targets = target + more * t.nbytes
                steps.copy(turns, source, targets, t.nbytes, now=True)
                self.ids.append((serial, total + len(more), t))


def adds_up(forest: Forest) -> bool:
    """True if cotangents can be added to those of all floats that rows read and make.

    Those of 16 bits cannot: they go node by node.
    """
    types = [t for x in forest.instances for t in x.signature.body.types]
    types += [t for t, _ in forest.all.leaves.types]
    return all(adds(t.dtype) or not is_float(t.dtype) for t in types)
