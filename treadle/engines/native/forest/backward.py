"""The way back through a forest, as a table of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treadle.base.buckets import size_bucket
from treadle.base.types import Type
from treadle.batch.forest import Groups, one_group
from treadle.batch.live import living
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import FIRST, SPACE, Addresses, block
from treadle.engines.native.forest.layout import Form
from treadle.engines.native.forest.matrices import aligned
from treadle.engines.native.forest.placed import Gathered
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
        steps, gathered, cotangents = program.steps(), Gathered(), program.cotangents
        others = cotangents.grads.addresses, cotangents.fresh.addresses
        self._bases = np.concatenate([program.bases, *others])
        self._firsts = self._bases.tolist()
        self._last = one_group(program.forest.groups * program.live.room)
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
        values = program.outputs(cotangents.grads)
        count = len(self.totals)
        totals = Addresses(self._first + np.arange(count), np.zeros(count, np.int64))
        where = Addresses.of(values, totals, cotangents.ends[::-1])
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
            groups = one_group(0, len(places))
            steps.add(groups, gathered.add(values), block(number), t)

    def _gradient_of(
        self, program: Places, steps: Assembly, gathered: Gathered, number: int
    ) -> None:
        """The gradient of the rows of an instance, added to where it belongs."""
        forest, part = program.forest, program.family.backward[number]
        if part is None:
            return
        instance = forest.instances[number]
        forward = instance.groups
        last = forest.groups - 1
        groups = Groups(last - forward.turns, forward.starts, forward.counts)
        live = self._live[number] if self._live is not None else None
        groups = living(groups, live, program.live.room)
        if not len(groups.turns):
            return
        ends, firsts = program.family.ends[number], list[Form]()
        most, place = int(forward.counts.max()), SPACE
        for at, size, _, _ in ends:
            firsts.append((place, 0) if at is None else (self._firsts[at], size))
            place += aligned(most * size) if at is None else 0
        part.put(steps, groups, self._bases, firsts, instance.signature.origin)
        for (at, _, k, t), first in zip(ends, firsts, strict=True):
            if at is None:
                targets = gathered.add(instance.sources[k]), 8
                steps.add(groups, targets, first, t)

    def _totals(
        self, program: Places, steps: Assembly, gathered: Gathered, number: int
    ) -> None:
        """The sums over the rows of an instance, added to those of others before."""
        instance = program.forest.instances[number]
        template, total = instance.template, program.family.totals[number]
        if total is None:
            return
        rows, which, types = total
        n = size_bucket(instance.count) if template.sums else instance.count
        like, numbers = rows.at(n)
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
            self._last,
            like,
            [numbers],
            np.concatenate([np.array(results, np.int64), self._bases[which]]),
            np.zeros(len(results) + len(which), np.int64),
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
                source = places.base + places.find(k, ("leaf", 0))[1]
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
        steps.add(self._last, gathered.add(np.array([number])), source, t)

    def _sparse(self, program: Places, steps: Assembly) -> None:
        """The cotangents of the rows that were read of each table, of one instance
        after the other.
        """
        first = self._first + len(self.totals)
        for target, (serial, every) in enumerate(program.tables, first):
            total = 0
            for number, sparse in every:
                source, rows, t, _ = program.rows_of(number, sparse.values)
                count = rows * (t.size // max(math.prod(sparse.tail), 1))
                t = t.with_shape(sparse.tail)
                place = block(target) + total * t.nbytes
                steps.copy(self._last, source, place, count * t.nbytes)
                total += count
            self.sparse.append((serial, total, t))
