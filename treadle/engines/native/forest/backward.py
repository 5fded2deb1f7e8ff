"""The way back through a forest, as a table of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.buckets import size_bucket
from treadle.base.types import Type
from treadle.batch.forest import Groups
from treadle.batch.live import living
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import FIRST, GRADS, SPACE, Addresses, block
from treadle.engines.native.forest.matrices import aligned, outputs
from treadle.engines.native.forest.placed import Gathered, Placed
from treadle.engines.native.forest.places import Places, Spots


class Backward:
    """The steps of the gradients of all groups, and of the sums over rows, from the
    cotangents of some values.

    Where these are `partial`, some rows take no part: what they read gets nothing from
    them.
    """

    def __init__(self, program: Places, seeds: Sequence[Spots]) -> None:
        self._first = FIRST + len(program.shared) + len(seeds)
        self._live = program.live.reached(seeds)
        self.partial = self._live is not None
        steps, gathered = program.steps(), Gathered()
        self._add(program, steps, gathered, seeds)
        # Of each source whose rows are summed up: what they come to.
        self.totals: dict[int, Type] = {}
        # Of each leaf alone, by source: its number.
        self.leaves: dict[int, int] = {}
        # Of each that is rows of a table, after these: whose, how many, of which type.
        self.sparse: list[tuple[int, int, Type]] = []
        for number in range(len(program.forest.instances)):
            self._gradient_of(program, steps, gathered, number)
        for number in range(len(program.forest.instances)):
            self._totals(program, steps, gathered, number)
        self._add_leaves(program, steps, gathered)
        self._sparse(program, steps)
        values = outputs(program.forest, program.cotangents.grads) + GRADS
        count = len(self.totals)
        totals = Addresses(self._first + np.arange(count), np.zeros(count, np.int64))
        where = Addresses.of(values, totals, program.cotangents.ends[::-1])
        self.table = steps.table(where.at(gathered.all()))

    def _add(
        self,
        program: Places,
        steps: Assembly,
        gathered: Gathered,
        seeds: Sequence[Spots],
    ) -> None:
        """Before all else, what is given is added to where cotangents are gathered."""
        first = FIRST + len(program.shared)
        for number, places in enumerate(seeds, first):
            values, t = program.numbers(places)
            first_turn, rows = np.zeros(1, np.int64), np.array([len(places)])
            steps.add(first_turn, gathered.add(values), block(number), rows, t)

    def _gradient_of(
        self, program: Places, steps: Assembly, gathered: Gathered, number: int
    ) -> None:
        """The gradient of the rows of an instance, added to where it belongs."""
        forest = program.forest
        instance = forest.instances[number]
        template = instance.template
        if template.backward is None:
            return
        forward = instance.groups
        last = forest.groups - 1
        groups = Groups(last - forward.turns, forward.starts, forward.counts)
        live = self._live[number] if self._live is not None else None
        groups = living(groups, live, program.live.room)
        if not len(groups.turns):
            return
        arguments = instance.signature.body.arguments
        starts, place = [], np.full(len(groups.counts), SPACE, np.int64)
        for k in template.row_cotangents:
            if k in instance.aligned:
                first, size = program.address(number, ("lasting", k))
                starts.append(first + size * groups.starts)
                continue
            size = arguments[k].type.nbytes
            starts.append(place)
            place = place + aligned(groups.counts * size)
        frontier = [("frontier", k) for k in range(len(template.frontier))]
        placed = Placed(program, number, template.backward, frontier)
        placed.put(steps, groups, starts)
        for k, place in zip(template.row_cotangents, starts, strict=True):
            if k in instance.aligned:  # each row has one reader, which has set it
                continue
            targets = gathered.add(instance.sources[k]) + 8 * groups.starts
            t = arguments[k].type
            steps.add(groups.turns, targets, place, groups.counts, t)

    def _totals(
        self, program: Places, steps: Assembly, gathered: Gathered, number: int
    ) -> None:
        """The sums over the rows of an instance, added to those of others before."""
        instance = program.forest.instances[number]
        template = instance.template
        part = template.total
        if part is None:
            return
        n = size_bucket(instance.count) if template.sums else instance.count
        rows = program.bodies.at((part.body.number, "total"), template.total_at)
        like, numbers = rows.at(n)
        arguments = [program.address(number, s)[0] for s in part.sources]
        types = [y.type for y in part.body.outputs]
        results, more, place = [], [], SPACE
        for k, t in zip(template.shared_cotangents, types, strict=True):
            serial = instance.signature.serials[k]
            if serial in self.totals:
                results.append(place)
                more.append((serial, place, t))
                place += aligned(t.nbytes)
            else:
                results.append(block(self._first + len(self.totals)))
                self.totals[serial] = t
        steps.part(
            self._last(program),
            like,
            [numbers],
            np.array([[*results, *arguments]], np.int64),
            np.ones(1, np.int64),
            [t.nbytes for t in types],
            instance.signature.origin,
        )
        for serial, source, t in more:
            self._sum(program, steps, gathered, serial, source, t)

    def _add_leaves(self, program: Places, steps: Assembly, gathered: Gathered) -> None:
        """The cotangents of leaves that rows read one by one."""
        forest, places = program.forest, program.cotangents.leaves
        for k, t in program.read.floats:
            serial = int(forest.all.leaves.serials[k])
            if forest.derived[k] and serial in self.totals:
                source = places.address(k, ("leaf", 0))
                self._sum(program, steps, gathered, serial, source, t)
            elif forest.derived[k]:
                self.leaves[serial] = k

    def _sum(
        self,
        program: Places,
        steps: Assembly,
        gathered: Gathered,
        serial: int,
        source: int,
        t: Type,
    ) -> None:
        """Add another part of a source's gradient to its sum over rows."""
        units = program.forest.all
        first = units.count + len(units.parts.values)
        number = first + list(self.totals).index(serial)
        place, one = gathered.add(np.array([number])), np.ones(1, np.int64)
        steps.add(self._last(program), place, source, one, t)

    def _sparse(self, program: Places, steps: Assembly) -> None:
        """The cotangents of the rows that were read of each table, of one instance
        after the other.
        """
        first = self._first + len(self.totals)
        for target, (serial, every) in enumerate(program.tables.items(), first):
            total = 0
            for number, sparse in every:
                matrices, owner, k = program.home(number, sparse.values)
                source, t = matrices.address(owner, k), matrices.types[owner, k]
                count = matrices.rows[owner] * (
                    t.size // max(math.prod(sparse.tail), 1)
                )
                t = t.with_shape(sparse.tail)
                place = block(target) + total * t.nbytes
                steps.copy(self._last(program), source, place, count * t.nbytes)
                total += count
            self.sparse.append((serial, total, t))

    def _last(self, program: Places) -> Numbers:
        """The turn after all groups."""
        return np.array([program.forest.groups * program.live.room])
