"""The batched form of a graph: the row of each unit, and the rows that it reads."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.batch.agenda import scheduled
from treadle.batch.ahead import apart_from
from treadle.batch.columns import order_of
from treadle.batch.signature import Signature, template_of
from treadle.batch.template import Template
from treadle.batch.units import Leaves, Units
from treadle.batch.views import carries

OFTEN = 4  # units of a kind, which may be rows one after the other
LONG = 16  # of all kinds: for fewer, a program for each length costs less


class Groups(NamedTuple):
    """The groups of an instance: the turn, the first row and the rows of each."""

    turns: Numbers
    starts: Numbers
    counts: Numbers


def one_group(turn: int, rows: int = 1) -> Groups:
    """A group by itself."""
    return Groups(*np.array([[turn], [0], [rows]], np.int64))


class Instance:
    """The rows of one signature: the units in the order of their rows.

    `sources` has, by argument of the body, the number of the value each row reads;
    `aligned` the instance and the output that an argument is, row for row. What is
    done ahead for the rows of another instance has no units. `often`: there are many.
    """

    groups: Groups
    template: Template

    def __init__(
        self, signature: Signature, units: Numbers, count: int, often: bool = False
    ) -> None:
        self.signature = signature
        self.units = units
        self.count = count
        self.often = often
        self.sources: dict[int, Numbers] = {}
        self.aligned: dict[int, tuple[int, int]] = {}


class Forest:
    """Units in groups, with a row for each; what is alone at the end is left out.

    `groups` is their number: each has a turn below it, in which it is done.
    """

    def __init__(
        self, units: Units, asked: Container[int] = (), once: bool = False
    ) -> None:
        """`asked` has the serials of leaves that a derivative is taken by; `once`: even
        units that come one after the other are rows, if there are many.
        """
        self.all = units
        first = units.first
        self.first = first
        makers = first.searchsorted(np.arange(units.count), "right") - 1
        self._makers = np.concatenate([makers, makers[units.parts.values]])
        depths, kinds = units.walk.depths[units.nodes], units.kinds
        heavy = np.array([x.signature.multiplies for x in kinds], np.bool_)
        often = np.array([len(x.units) >= OFTEN for x in kinds], np.bool_)
        # They are rows even one after the other: a program has each written out, and
        # another number of them is another program. Without products it is one kernel.
        often &= once and (often & heavy).any()
        read = [x.read for x in kinds], often, heavy
        schedule = scheduled(depths, self._makers, [x.units for x in kinds], *read)
        self.kept = schedule.kept
        self.instances: list[Instance] = []
        self.instance = np.full(len(depths), -1, np.int64)  # of each unit
        self.row = np.zeros(len(depths), np.int64)
        every, more = list[Groups](), []
        for kind, many, rows in zip(kinds, often.tolist(), schedule.kinds, strict=True):
            if rows is None:
                continue
            mine = kind.units[rows.places]
            number = len(self.instances)
            instance = Instance(kind.signature, mine, len(mine), many)
            self.instances.append(instance)
            self.instance[mine] = number
            self.row[mine] = np.arange(len(mine))
            sources = np.ascontiguousarray(kind.read[rows.places].T)
            instance.sources = dict(zip(kind.signature.rows, sources, strict=True))
            every.append(Groups(2 * rows.steps + 1, rows.starts, rows.counts))
            if len(rows.steps) > 1:
                early = [*compress(instance.sources, rows.early.tolist())]
                more.append((number, early, every[-1]))
        for number, early, groups in more:
            every += self._go_ahead(number, early, groups)
        self.groups = self._take_turns(every)
        self.whole = np.ones(len(units.leaves), np.bool_)
        self.whole[[view.leaf for view in units.views]] = False
        self.derived = _derived(units.leaves, self.whole, asked)
        for view in units.views:
            self.derived[view.leaf] = self.derived[view.of]
        self._choose_templates(asked)

    def _go_ahead(
        self, number: int, early: Sequence[int], groups: Groups
    ) -> list[Groups]:
        """Let what the rows of an instance do with the arguments that are there before
        its first group be done for all of them at once, by an instance of its own.
        """
        instance, turn = self.instances[number], int(groups.turns[0]) - 1
        whole = instance.signature
        apart = apart_from(whole.body, tuple(instance.sources), early)
        if apart is None:
            return []
        first = Instance(
            whole.part(apart.first, apart.inputs), instance.units[:0], instance.count
        )
        first.sources = _those(instance.sources, apart.inputs)
        instance.signature = whole.part(apart.rest, apart.left)
        instance.sources = _those(instance.sources, apart.left)
        for k in range(len(apart.first.outputs)):
            instance.aligned[len(apart.left) + k] = len(self.instances), k
        self.instances.append(first)
        zero = np.zeros(1, np.int64)
        return [Groups(zero + turn, zero, zero + instance.count)]

    def forget(self) -> None:
        """Let go of all nodes; the numbers stay."""
        self.all.forget()
        for instance in self.instances:
            instance.signature.forget()

    def _take_turns(self, groups: Sequence[Groups]) -> int:
        """Give each group its turn among all, in the order of steps."""
        steps = [x.turns for x in groups]
        order = order_of(np.concatenate(steps)) if steps else np.zeros(0, np.int64)
        turns = np.empty(len(order), np.int64)
        turns[order] = np.arange(len(order))
        first = 0
        for instance, x in zip(self.instances, groups, strict=True):
            last = first + len(x.turns)
            instance.groups = Groups(turns[first:last], x.starts, x.counts)
            first = last
        return len(order)

    def _choose_templates(self, asked: Container[int]) -> None:
        """Choose the template of each instance, by which of its rows may get
        cotangents."""
        derived = self.derived
        for instance in reversed(self.instances):  # what is ahead comes last
            wanted = [
                k
                for k, (number, _) in instance.aligned.items()
                if any(self.instances[number].template.wanted)
            ]
            for k, sources in instance.sources.items():
                behind = sources < 0
                if not behind.all() or derived[-1 - sources[behind]].any():
                    wanted.append(k)
            arguments = instance.signature, wanted, tuple(instance.aligned)
            instance.template = template_of(*arguments, asked)

    @property
    def rows(self) -> int:
        """All units that are rows."""
        return sum(len(x.units) for x in self.instances)

    @property
    def often(self) -> int:
        """The rows among them that there are often of a kind."""
        return sum(len(x.units) for x in self.instances if x.often)

    @property
    def varies(self) -> bool:
        """True if graphs like it are programs that differ: one for each length of a
        loop, where even its steps are rows, and for each form of a tree."""
        if any(self._branches(k) for k in range(len(self.instances))):
            return True
        loops = any(len(x.groups.turns) > 1 for x in self._repeats)
        return loops and self.is_long

    @property
    def is_long(self) -> bool:
        """True if most of it is many rows of few kinds, some of which multiply
        matrices."""
        return bool(self._repeats) and self.often >= max(LONG, self.rows / 2)

    @property
    def _repeats(self) -> list[Instance]:
        return [x for x in self.instances if x.often and x.signature.multiplies]

    @property
    def is_wide(self) -> bool:
        """Return True if its rows have matrices of their own, with rows enough."""
        products = [x for x in self.instances if x.signature.multiplies]
        return bool(products) and all(x.signature.is_wide for x in products)

    def _branches(self, number: int) -> bool:
        """Return True if rows of an instance that multiply matrices read several others
        of it, as in trees."""
        instance = self.instances[number]
        few = len(instance.units) < OFTEN or len(instance.sources) < 2
        if few or not instance.signature.multiplies:
            return False
        read = np.stack(list(instance.sources.values()))
        makers = self.makers(np.maximum(read, 0))
        inside = (read >= 0) & (self.instance[makers] == number)
        last = np.where(inside, makers, -1).max(0)
        return bool((inside & (makers != last)).any())

    def makers(self, values: Numbers) -> Numbers:
        """The units that make some values, or their wholes, which are no leaves."""
        return self._makers[values]

    def alone(self) -> Numbers:
        """The nodes that are no rows after all, though they might have been."""
        return self.all.nodes[~self.kept]

    def carried(self) -> Numbers:
        """The places of the leaves below which a derivative may go on."""
        return indices_of(self.derived & self.whole)

    def places(self, nodes: Numbers) -> tuple[Numbers, Any]:
        """Instance, output and row of each value, and which of the nodes are rows, but
        no parts of such."""
        numbers, every = np.where(nodes < 0, -1, self.all.value[nodes]), self.all.parts
        same = indices_of(numbers >= self.all.count)
        same = same[every.all[numbers[same] - self.all.count]]
        numbers[same] = every.values[numbers[same] - self.all.count]
        units = self.makers(np.maximum(numbers, -1))
        rows = (numbers >= 0) & (numbers < self.all.count) & self.kept[units]
        parts = self.instance[units], numbers - self.first[units], self.row[units]
        return np.stack(parts, 1), rows


def _those(sources: dict[int, Numbers], places: Sequence[int]) -> dict[int, Numbers]:
    """The sources of some arguments of a body, by their places among these."""
    return {k: sources[x] for k, x in enumerate(places) if x in sources}


def _derived(leaves: Leaves, whole: Marks, asked: Container[int]) -> Marks:
    """The leaves below which a derivative may go on, or that it is taken by."""
    derived = np.zeros(len(leaves), np.bool_)
    for k in indices_of(whole & ~leaves.constant).tolist():
        derived[k] = carries(leaves.nodes[k])
    if asked:
        derived |= np.array([serial in asked for serial in leaves.serials.tolist()])
    return derived
