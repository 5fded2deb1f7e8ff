"""Scripts of a family: the steps of its tables, which forests fill in with integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from treadle.base.types import Type
from treadle.engines.native.forest.bases import SPACE
from treadle.engines.native.forest.family import ForestFamily, Placed, Source
from treadle.engines.native.forest.layout import (
    Offset,
    PartSteps,
    Steps,
    add,
    copy,
    gather,
)
from treadle.engines.native.forest.matrices import aligned


class TableRows(NamedTuple):
    """The ids that an instance reads rows of a table by, or the cotangents of these:
    their place, whose rows they are, how many each has, and their type."""

    place: int
    owner: int
    each: int
    type: Type


def _rows_of(
    family: ForestFamily, number: int, source: Source, tail: tuple[int, ...] = ()
) -> TableRows:
    plan, owner, key = family.home(number, source)
    t = plan.types[plan.places[owner, key]]
    each, (place, _) = t.size // max(math.prod(tail), 1), family.place(number, source)
    return TableRows(place, owner, each, t.with_shape(tail))


def _part(number: int, placed: Placed, firsts: Sequence[tuple[int, int]]) -> PartSteps:
    """The part of an instance, whose first results are at other places, with the bytes
    from row to row."""
    first, more = np.array(firsts, np.int64).reshape(-1, 2).T
    which = np.concatenate([first, placed.which])
    shifts = np.concatenate([more, placed.shifts])
    sizes = tuple([Offset(each=y.type.nbytes) for y in placed.part.body.outputs])
    return PartSteps(number, placed.rows, which, shifts, sizes, number)


class ForwardScript:
    """The steps of the way there: what groups of each instance gather, and its part.

    `ids` has of each table that has a gradient the ids that it is read by, those of one
    dtype together. Groups behind those of instances tell these: for each one, and then
    one for more of the first. Behind the places of values come those of the told ids,
    then those of `lists`: the sources of some arguments of instances.
    """

    def __init__(self, family: ForestFamily) -> None:
        self.steps: list[Steps] = []
        self.lists: list[tuple[int, int]] = []
        self.ids = [*_ids(family)] if family.gradient else []
        target = len(family.shared) + len(family.values.types)
        first = target + sum(len(ids) for _, ids in self.ids)
        for number, placed in enumerate(family.forward):
            for k in family.instances[number].sources:
                place, size = family.place(number, ("input", k))
                at, to = first + len(self.lists), Offset(0, size, 0, place)
                self.steps += gather(number, at, to, size)
                self.lists.append((number, k))
            self.steps.append(_part(number, placed, ()))
        groups = len(family.instances)
        for _, ids in self.ids:
            start, size = target, ids[0].type.nbytes
            for x in ids:
                ends = Offset(place=x.place), Offset(place=target)
                self.steps.append(copy(groups, *ends, Offset(each=x.type.nbytes), True))
                groups, target = groups + 1, target + 1
            ends = Offset(place=ids[0].place), Offset(0, size, 0, start)
            self.steps.append(copy(groups, *ends, Offset(size), True))
            groups += 1


def _ids(family: ForestFamily) -> Iterator[tuple[int, list[TableRows]]]:
    for k, readers in family.tables.items():
        ids = [_rows_of(family, number, sparse.ids) for number, sparse in readers]
        same = len({x.type.dtype for x in ids}) == 1
        yield from [(k, x) for x in ([ids] if same else [[x] for x in ids])]


class BackwardScript:
    """The steps of ways back, but for those that a forest adds by itself.

    Groups are those of the instances, then of each the rows that it sums up, then of
    each all rows, at the end, and one row there. Behind the family's places are
    `constants`, the `spaces` of cotangents that one group reads (whose, and the bytes
    of a row), what shared values get in all (`totals`, by their numbers), and the parts
    of `tables`. Then come lists: the sources of some arguments, and what adds to totals
    that `sums` tells.
    """

    def __init__(self, family: ForestFamily) -> None:
        count = len(family.instances)
        self.steps: list[Steps] = []
        self.lists: list[tuple[int, int]] = []
        self.whole, self.last = 2 * count, 3 * count  # groups
        self.constants: list[int] = []
        self.room = 0  # bytes of the most that lie there
        self.totals: dict[int, Type] = {}
        self.tables = [
            (k, [_rows_of(family, n, x.values, x.tail) for n, x in readers])
            for k, readers in family.tables.items()
        ]
        # Rows that have one reader, which sets their cotangents, need no space.
        self.spaces = [
            (number, x.arguments[k].nbytes)
            for number, x in enumerate(family.instances)
            for k in (x.template.row_cotangents if family.backward[number] else ())
            if k not in x.aligned
        ]
        # Of the sums over the rows of each instance where they go: a total, or space.
        every = [self._results(family, number) for number in range(count)]
        places = len(family.shared) + len(family.values.types)
        self.first = places + len(family.grads.types) + len(family.fresh.types)
        self._spaces = self.first + len(self.constants)
        self._totals = self._spaces + len(self.spaces)
        self._tables = self._totals + len(self.totals)
        self._lists = self._tables + sum(len(rows) for _, rows in self.tables)
        for number, placed in enumerate(family.backward):
            if placed is not None:
                self._gradient_of(family, number, placed)
        self.sums: list[int] = []
        for number, results in enumerate(every):
            self._sum(family, number, results)
        self._copy_tables()

    def _results(
        self, family: ForestFamily, number: int
    ) -> list[tuple[int, int | None, Type]]:
        """Of each sum over the rows of an instance the number of its total, that of a
        constant place if the total has another part before, and its type."""
        results, place = list[tuple[int, int | None, Type]](), SPACE
        total = family.totals[number]
        instance = family.instances[number]
        cotangents = instance.template.shared_cotangents if total else ()
        for k, t in zip(cotangents, total[2] if total else (), strict=True):
            shared = instance.shared[k]
            if shared in self.totals:
                results.append((shared, len(self.constants), t))
                self.constants.append(place)
                place += aligned(t.nbytes)
                self.room = max(self.room, place - SPACE)
            else:
                results.append((shared, None, t))
                self.totals[shared] = t
        return results

    def _gradient_of(self, family: ForestFamily, number: int, placed: Placed) -> None:
        """The gradient of the rows of an instance, added to where it belongs."""
        firsts, later = list[tuple[int, int]](), list[Steps]()
        instance = family.instances[number]
        for k in instance.template.row_cotangents:
            if k in instance.aligned:
                firsts.append(family.place(number, ("lasting", k)))
                continue
            firsts.append((self._spaces, 0))
            at = self._lists + len(self.lists)
            later += add(number, at, Offset(place=self._spaces), instance.arguments[k])
            self.lists.append((number, k))
            self._spaces += 1
        self.steps += [_part(number, placed, firsts), *later]

    def _sum(
        self,
        family: ForestFamily,
        number: int,
        results: Sequence[tuple[int, int | None, Type]],
    ) -> None:
        """The sums over the rows of an instance, added to those of others before."""
        if (total := family.totals[number]) is None:
            return
        rows, sources, types = total
        order = [*self.totals]
        firsts, later = list[int](), list[Steps]()
        for shared, constant, t in results:
            at = order.index(shared)
            if constant is None:
                firsts.append(self._totals + at)
                continue
            firsts.append(self.first + constant)
            targets = self._lists + len(self.lists) + len(self.sums)
            later += add(self.last, targets, Offset(place=firsts[-1]), t)
            self.sums.append(at)
        which = np.concatenate([np.array(firsts, np.int64), sources])
        sizes = tuple([Offset(t.nbytes) for t in types])
        groups, shifts = len(family.instances) + number, np.zeros(len(which), np.int64)
        self.steps += [PartSteps(groups, rows, which, shifts, sizes, number), *later]

    def _copy_tables(self) -> None:
        """The cotangents of the rows that were read of each table, of one instance
        after the other."""
        target = self._tables
        for _, rows in self.tables:
            for x in rows:
                ends = Offset(place=x.place), Offset(place=target)
                size = Offset(each=x.each * x.type.nbytes)
                self.steps.append(copy(self.whole + x.owner, *ends, size))
                target += 1


def forward_script(family: ForestFamily) -> ForwardScript:
    """The way there of a family."""
    script = family.scripts.get(ForwardScript)
    if script is None:
        script = family.scripts[ForwardScript] = ForwardScript(family)
    return script


def backward_script(family: ForestFamily) -> BackwardScript:
    """The ways back of a family."""
    script = family.scripts.get(BackwardScript)
    if script is None:
        script = family.scripts[BackwardScript] = BackwardScript(family)
    return script
