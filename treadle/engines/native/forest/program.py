"""A forest as tables of steps: what all forests that look alike have in common."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.caches import lazy
from treadle.base.types import Type
from treadle.batch.forest import Forest, Groups, one_group
from treadle.engines.native.codegen.elements import is_float
from treadle.engines.native.forest.backward import Backward
from treadle.engines.native.forest.bases import FIRST, Addresses, block
from treadle.engines.native.forest.layout import Offset, gather
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.places import Places, Spots
from treadle.engines.native.forest.positions import Positions, positions_of
from treadle.engines.native.forest.scripts import ForwardScript, forward_script


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

    @lazy
    def positions(self) -> list[Positions] | None:
        """What can be found out of range, None where that depends on more than data of
        the user."""
        forest, every = self.forest, list[Positions]()
        for part, like, _ in self.forward.table.parts:
            if like.needs is None:
                return None
            instance = forest.instances[part.instance]
            read = self.family.forward[part.instance].part.sources
            positions = positions_of(forest, instance, read, like.needs)
            if positions is None:
                return None
            every += positions
        return every

    def are_right(self, addresses: Numbers) -> bool:
        """Return True if no position can be out of range; `addresses` of the leaves."""
        positions = self.positions
        if not positions:
            return positions is not None
        place = int(addresses.ctypes.data)
        return all(x.are_right(place) for x in positions)

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

    Of tables with gradients the rows that were read are told, as `ids`.
    """

    def __init__(self, program: Places) -> None:
        self.types: list[Type] = []
        # Whose, how many, of which type.
        self.ids: list[tuple[int, int, Type]] = []
        script, forest = forward_script(program.family), program.forest
        instances = forest.instances
        steps, groups = [*script.steps], [x.groups for x in instances]
        lists = [instances[n].sources[k] for n, k in script.lists]
        ids = [self._ids_of(program, script, k) for k in range(len(script.ids))]
        lists_at = len(program.bases) + sum(len(targets) for _, targets in ids)
        for mine, _ in ids:
            groups += mine
        for k, places in enumerate(program.taken, FIRST + len(program.shared)):
            numbers, t = program.numbers(places)
            self.types.append(t)
            target = Offset(block(k))
            steps += gather(len(groups), lists_at + len(lists), target, t.nbytes)
            groups.append(one_group(forest.groups, len(places)))
            lists.append(numbers)
        # The blocks of leaves come after those of all results.
        self.leaves = FIRST + len(program.shared) + len(self.types) + len(self.ids)
        values = program.outputs(program.values)
        addresses = Addresses.of(values, program.read.blocks(self.leaves))
        targets = [target for _, each in ids for target in each]
        where = np.concatenate([program.bases, np.array(targets, np.int64)])
        self.table = program.table(steps, groups, where, lists, addresses)

    def _ids_of(
        self, program: Places, script: ForwardScript, k: int
    ) -> tuple[list[Groups], list[int]]:
        """The groups that tell the ids of a table, one instance's after the other's,
        and more of the first, to which rows of zeros will be added; and where they go.
        """
        (table, ids), instances = script.ids[k], program.forest.instances
        groups, targets, total, last = list[Groups](), list[int](), 0, 0
        place = block(FIRST + len(program.shared) + len(program.taken) + k)
        for x in ids:
            turn = int(instances[x.owner].groups.turns.max())
            count, last = program.counts[x.owner] * x.each, max(last, turn)
            groups.append(one_group(turn, count))
            targets.append(place + total * x.type.nbytes)
            total += count
        whole = [every for n, every in script.ids if n == table]
        end = size_bucket(total, COARSE) if len(whole) == 1 else total
        more = np.arange(total, end)
        groups.append(Groups(np.repeat(last, len(more)), more, more))
        self.ids.append((program.serials[table], end, ids[0].type))
        return groups, targets


def adds_up(forest: Forest) -> bool:
    """True if cotangents can be added to those of all floats that rows read and make.

    Those of 16 bits cannot: they go node by node.
    """
    types = {t.dtype for x in forest.instances for t in x.signature.body.types}
    types |= {t.dtype for t, _ in forest.all.leaves.types}
    return all(adds(t) or not is_float(t) for t in types)
