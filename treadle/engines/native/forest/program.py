"""A forest as tables of steps: what all forests that look alike have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from treadle.base.types import Type
from treadle.batch.columns import Marks, Numbers
from treadle.batch.forest import Forest, Groups, Instance
from treadle.batch.live import Live, living
from treadle.batch.part import Part
from treadle.batch.room import room
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.bases import (
    FIRST,
    FRESH,
    GRADS,
    INDEX,
    LEAVES,
    SPACE,
    VALUES,
    block,
)
from treadle.engines.native.forest.matrices import (
    LINE,
    Matrices,
    Read,
    outputs,
    row_types,
)
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.parts import Rows, compiled

__all__ = ["Backward", "Program", "Spots", "Where"]

Source = tuple[str, int]
Spots = np.ndarray[Any, np.dtype[np.int64]]  # of each value: instance, output, row
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
        pairs = [(_compiled(self.forward_of(x)), x) for x in self.forest.instances]
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

    @cached_property
    def backward(self) -> Backward:
        """The way back, of all rows."""
        return Backward(
            self, [np.ones(x.count, np.bool_) for x in self.forest.instances]
        )

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


class _Gathered:
    """Whose addresses steps ask for, one list after the other."""

    def __init__(self) -> None:
        self.parts: list[Numbers] = []
        self.count = 0

    def add(self, values: Numbers) -> int:
        """Where the addresses of some values will be."""
        place = INDEX + 8 * self.count
        self.parts.append(values)
        self.count += len(values)
        return place

    def all(self) -> Numbers:
        """All values, in order; leaves have numbers that count from the end."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.int64)


class Forward:
    """The steps of all groups, and then of what is taken, of `types` each.

    In the instances `checked` positions are.
    """

    def __init__(self, program: Program) -> None:
        self.types: list[Type] = []
        self.checked: set[int] = set()
        steps, gathered = Assembly(), _Gathered()
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
            if _Placed(program, number, part, places).put(steps, groups):
                self.checked.add(number)
        self._take(program, steps, gathered)
        self.table = steps.table()
        self.index = gathered.all()
        self.outputs = outputs(program.forest, program.values)

    def _take(self, program: Program, steps: Assembly, gathered: _Gathered) -> None:
        forest, last = program.forest, np.array([program.forest.groups])
        for k, places in enumerate(program.taken, FIRST + len(program.shared)):
            values = np.empty(len(places), np.int64)
            for number, output, mine in program.where(places):
                instance = forest.instances[number]
                values[mine] = forest.first[instance.units[places[mine, 2]]] + output
                t = instance.signature.body.types[output]
            self.types.append(t)
            count = np.array([len(places)])
            steps.gather(last, gathered.add(values), block(k), count, t.nbytes)


class Cotangents:
    """Places of the cotangents of values, of what is summed later, and of leaves."""

    def __init__(self, forest: Forest, read: Read) -> None:
        self.grads, self.fresh = Matrices(GRADS), Matrices(FRESH)
        self.leaves = Matrices(LEAVES)
        self.space = 0  # bytes for those of what one group reads
        for number, instance in enumerate(forest.instances):
            template = instance.template
            for k, t in enumerate(instance.signature.body.types):
                if adds(t.dtype):
                    self.grads.add(number, instance.count, ("output", k), t)
            for k, t in enumerate(template.frontier):
                self.fresh.add(number, instance.count, ("frontier", k), t)
            n = int(instance.groups.counts.max())
            arguments = instance.signature.body.arguments
            rows = [k for k in template.row_cotangents if k not in instance.aligned]
            types = [arguments[k].type for k in rows]
            space = sum(-(-n * t.nbytes // LINE) * LINE for t in types)
            self.space = max(self.space, space)
        for k, t in read.floats:
            self.leaves.add(k, 1, ("leaf", 0), t)


class Backward:
    """The steps of the gradients of all groups, and of the sums over rows.

    Where some rows are not `live` they take no part: what they read gets nothing from
    them. The others are marked, by instance.
    """

    def __init__(self, program: Program, live: Sequence[Marks] | None = None) -> None:
        self.live = live
        steps, gathered = Assembly(), _Gathered()
        # Of each result that is summed up over rows: whose it is, and its type.
        self.totals: list[tuple[int, Type]] = []
        # Of each that is rows of a table, after these: whose, how many, of which type.
        self.sparse: list[tuple[int, int, Type]] = []
        for number in range(len(program.forest.instances)):
            self._gradient_of(program, steps, gathered, number)
        for number in range(len(program.forest.instances)):
            self._totals(program, steps, number)
        self._sparse(program, steps)
        self.table = steps.table()
        self.index = gathered.all()
        self.outputs = outputs(program.forest, program.cotangents.grads)

    def _gradient_of(
        self, program: Program, steps: Assembly, gathered: _Gathered, number: int
    ) -> None:
        """The gradient of the rows of an instance, added to where it belongs."""
        forest = program.forest
        instance = forest.instances[number]
        template = instance.template
        if template.backward is None:
            return
        groups = _backwards(instance.groups, forest.groups)
        if self.live is not None:
            groups = living(groups, self.live[number], program.live.room)
            if not len(groups.turns):
                return
        arguments = instance.signature.body.arguments
        given, place = [], np.full(len(groups.counts), SPACE, np.int64)
        for k in template.row_cotangents:
            if k in instance.aligned:
                first, size = program.address(number, ("lasting", k))
                given.append(first + size * groups.starts)
                continue
            size = arguments[k].type.nbytes
            given.append(place)
            place = place + -(-groups.counts * size // LINE) * LINE
        frontier = [("frontier", k) for k in range(len(template.frontier))]
        placed = _Placed(program, number, template.backward, frontier)
        placed.put(steps, groups, given)
        for k, place in zip(template.row_cotangents, given, strict=True):
            if k in instance.aligned:  # each row has one reader, which has set it
                continue
            targets = gathered.add(instance.sources[k]) + 8 * groups.starts
            t = arguments[k].type
            steps.add(groups.turns, targets, place, groups.counts, t)

    def _totals(self, program: Program, steps: Assembly, number: int) -> None:
        instance = program.forest.instances[number]
        template = instance.template
        part = template.total
        if part is None:
            return
        n = room(instance.count) if template.sums else instance.count
        made = compiled((part.body.number, "total"), template.total_at, False).at(n)
        arguments = [program.address(number, s)[0] for s in part.sources]
        types = [y.type for y in part.body.outputs]
        first = FIRST + len(program.shared) + len(self.totals)
        for k, t in zip(template.shared_cotangents, types, strict=True):
            self.totals.append((instance.signature.serials[k], t))
        results = [block(first + k) for k in range(len(types))]
        steps.part(
            self._last(program),
            [made],
            [0],
            np.array([arguments], np.int64),
            np.array([results], np.int64),
            np.array([[t.nbytes for t in types]], np.int64),
            instance.signature.origin,
        )

    def _sparse(self, program: Program, steps: Assembly) -> None:
        """The cotangents of the rows that were read of each table, of one instance
        after the other.
        """
        parts: dict[int, list[tuple[int, int, Type]]] = {}
        for number, instance in enumerate(program.forest.instances):
            for k, rows in instance.template.sparse.items():
                matrices, owner, place = program.home(number, rows.values)
                t, serial = matrices.types[owner, place], instance.signature.serials[k]
                count = instance.count * (t.size // max(math.prod(rows.tail), 1))
                own = matrices.address(owner, place), count, t.with_shape(rows.tail)
                parts.setdefault(serial, []).append(own)
        first = FIRST + len(program.shared) + len(self.totals)
        for number, (serial, every) in enumerate(parts.items(), first):
            total = 0
            for source, count, t in every:
                target = block(number) + total * t.nbytes
                steps.copy(self._last(program), source, target, count * t.nbytes)
                total += count
            self.sparse.append((serial, total, t))

    def _last(self, program: Program) -> Numbers:
        """The turn after all groups."""
        turn = program.forest.groups
        return np.array([turn if self.live is None else turn * program.live.room])


def _compiled(part: Part) -> Rows:
    return compiled((part.body.number, part.given), part.at)


class _Placed:
    """A part of an instance, and where its arguments and results lie.

    What is said of row 0 moves on by `shifts` bytes a row. The first results, which
    are not in `places`, are given with each group.
    """

    def __init__(
        self, program: Program, number: int, part: Part, places: Sequence[Source]
    ) -> None:
        self.rows = _compiled(part)
        self.origin = program.forest.instances[number].signature.origin
        every = [*part.sources, *places]
        self.count = len(part.sources)
        pairs = [program.address(number, s) for s in every]
        self.starts, self.shifts = np.array(pairs, np.int64).reshape(-1, 2).T
        sizes = [y.type.nbytes for y in part.body.outputs]
        self.sizes = np.array(sizes, np.int64)

    def put(
        self, steps: Assembly, groups: Groups, given: Sequence[Numbers] = ()
    ) -> bool:
        """The part for each group; `given` has where its first results lie. Whether
        positions are checked."""
        checks = False
        own = self.starts + groups.starts[:, None] * self.shifts
        results = own[:, self.count :]
        if given:
            results = np.concatenate([np.stack(given, 1), results], 1)
        sizes = groups.counts[:, None] * self.sizes
        for made, which, k in self.rows.alike(groups.counts.tolist()):
            places = own[k, : self.count], results[k]
            steps.part(groups.turns[k], made, which, *places, sizes[k], self.origin)
            checks |= made[0].checks
        return checks


def _backwards(groups: Groups, count: int) -> Groups:
    """The groups in the turns of the way back."""
    return Groups(count - 1 - groups.turns, groups.starts, groups.counts)
