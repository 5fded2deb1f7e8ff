"""The way back through a forest, as a table of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Marks
from treadle.base.types import Type
from treadle.batch.forest import Groups, one_group
from treadle.batch.live import living
from treadle.engines.native.forest.bases import FIRST, SPACE, Addresses, block
from treadle.engines.native.forest.layout import Offset, Steps, add
from treadle.engines.native.forest.matrices import aligned
from treadle.engines.native.forest.places import Places, Spots
from treadle.engines.native.forest.scripts import BackwardScript, backward_script


class Backward:
    """The steps of the gradients of all groups, and of the sums over rows, from the
    cotangents of some values.

    Where these are `partial`, some rows take no part: what they read gets nothing from
    them.
    """

    def __init__(self, program: Places, seeds: Sequence[Spots]) -> None:
        live, cotangents = program.live.reached(seeds), program.cotangents
        self.partial = live is not None
        script, serials = backward_script(program.family), program.serials
        first = FIRST + len(program.shared) + len(seeds)
        # Of each source whose rows are summed up: what they come to.
        self.totals = {serials[k]: t for k, t in script.totals.items()}
        totals = first + np.arange(len(self.totals))
        # Of each that is rows of a table, after these: whose, how many, of which type.
        self.sparse: list[tuple[int, int, Type]] = []
        every = program.bases, cotangents.grads.addresses, cotangents.fresh.addresses
        spaces, room = _spaces(program, script)
        self.space = max(script.room, room)  # bytes of what one group reads, or sums up
        places = [*script.constants, *spaces]
        places += [block(x) for x in totals.tolist()]
        places += self._tables(program, script, first + len(totals))
        where = np.concatenate([*every, np.array(places, np.int64)])
        instances, units = program.forest.instances, program.forest.all
        lists = [instances[n].sources[k] for n, k in script.lists]
        made = units.count + len(units.parts.values)  # values, which totals come behind
        lists += [np.array([made + k]) for k in script.sums]
        groups = _groups(program, script, live)
        # Before all else, what is given is added to where cotangents are gathered.
        steps = list[Steps]()
        for number, spots in enumerate(seeds, first - len(seeds)):
            numbers, t = program.numbers(spots)
            source = Offset(block(number))
            steps += add(len(groups), len(where) + len(lists), source, t)
            groups.append(one_group(0, len(spots)))
            lists.append(numbers)
        steps += script.steps
        # Of each leaf alone, by source: its number.
        self.leaves: dict[int, int] = {}
        for k, t in program.read.floats:
            serial = int(units.leaves.serials[k])
            if program.forest.derived[k] and serial in self.totals:
                number = made + list(self.totals).index(serial)
                source = Offset(int(cotangents.ends[k]))
                steps += add(script.last, len(where) + len(lists), source, t)
                lists.append(np.array([number]))
            elif program.forest.derived[k]:
                self.leaves[serial] = k
        values = program.outputs(cotangents.grads)
        ends = Addresses(totals, np.zeros(len(totals), np.int64))
        addresses = Addresses.of(values, ends, cotangents.ends[::-1])
        self.table = program.table(steps, groups, where, lists, addresses)

    def _tables(self, program: Places, script: BackwardScript, first: int) -> list[int]:
        """Where the rows of tables go, of each instance that reads one."""
        places = []
        for target, (k, parts) in enumerate(script.tables, first):
            total = 0
            for x in parts:
                places.append(block(target) + total * x.type.nbytes)
                total += program.counts[x.owner] * x.each
            self.sparse.append((program.serials[k], total, parts[-1].type))
        return places


def _spaces(program: Places, script: BackwardScript) -> tuple[list[int], int]:
    """Where the cotangents of what one group reads lie, those of an instance side by
    side, and how many bytes they are."""
    places, place, last, room = list[int](), SPACE, -1, 0
    for number, size in script.spaces:
        if number != last:
            most, place = (
                int(program.forest.instances[number].groups.counts.max()),
                SPACE,
            )
        places.append(place)
        place, last = place + aligned(most * size), number
        room = max(room, place - SPACE)
    return places, room


def _groups(
    program: Places, script: BackwardScript, live: Sequence[Marks] | None
) -> list[Groups]:
    """The groups of a script; of rows that are not live there are none."""
    forest, room = program.forest, program.live.room
    groups, sums = list[Groups](), list[int]()
    for number, instance in enumerate(forest.instances):
        turns, starts, counts = instance.groups
        mine = Groups(forest.groups - 1 - turns, starts, counts)
        groups.append(living(mine, live[number] if live is not None else None, room))
        template = instance.template
        padded = template.total is not None and template.sums
        sums.append((program.room if padded else program.counts)[number])
    rows = np.array([*sums, *program.counts, 1], np.int64).reshape(-1, 1)
    turn = np.array([forest.groups * room], np.int64)
    zero = np.zeros(1, np.int64)
    return groups + [Groups(turn, zero, x) for x in rows]
