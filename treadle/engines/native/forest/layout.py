"""The layout of steps: the words that they are told, and their records in turn.

Steps are those of a family: which groups do them, and where what they read and write
begins, is told by each forest. The core does it where it was built
(`core/steps.cpp`), with equal results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.dtypes import DType
from treadle.batch.forest import Groups
from treadle.core import native
from treadle.engines.native.execution.run import FIELDS
from treadle.engines.native.forest.bases import Addresses, split
from treadle.engines.native.forest.compiled import OWN, PLACE
from treadle.engines.native.forest.moves import ADD_GRAINS, GATHER_BYTES

WORDS = 4  # of a step that moves rows: two addresses, then sizes


class Offset(NamedTuple):
    """An offset of a group: a number, and one for each row before its first, one for
    each of its rows, and the address of a place if there is one."""

    number: int = 0
    start: int = 0
    each: int = 0
    place: int = -1

    def at(self, where: Numbers, first: Any, rows: Any) -> Any:
        """The offset of a group, or those of several."""
        base = self.number + int(where[self.place] if self.place >= 0 else 0)
        return base + self.start * first + self.each * rows


ROWS = Offset(each=1)


class MoveSteps(NamedTuple):
    """Steps that move rows, one for each of the `groups` of that number: a gather, a
    copy or, of a dtype, an addition. The first two words are addresses.

    A grain may be told by the number of rows, the last one for more. Some are wanted
    `now`, as early as positions are checked.
    """

    groups: int
    what: str | DType
    words: tuple[Offset, ...]
    total: Offset
    grain: int | Numbers
    now: bool = False


class PartSteps(NamedTuple):
    """The steps of a body for each of the `groups` of that number, by `rows`.

    `which` has the places of row 0 of its results and then its arguments, which have
    `shifts` from row to row; the bytes of results have `sizes`. `instance` is whose
    line is told.
    """

    groups: int
    rows: Any
    which: Numbers
    shifts: Numbers
    sizes: tuple[Offset, ...]
    instance: int


Steps = MoveSteps | PartSteps


def gather(groups: int, sources: int, target: Offset, size: int) -> list[Steps]:
    """Rows of `size` bytes, from where an array of addresses at a place says."""
    if not size:
        return []
    words = Offset(0, 8, 0, sources), target, Offset(size)
    grain = GATHER_BYTES // size + 1
    return [MoveSteps(groups, "gather", words, ROWS, grain)]


def add(groups: int, targets: int, source: Offset, row: Any) -> list[Steps]:
    """Rows added to where an array of addresses at a place says; `row` is the type."""
    if not row.size:
        return []
    words = Offset(0, 8, 0, targets), source, ROWS, Offset(row.size)
    return [MoveSteps(groups, row.dtype, words, Offset(row.size), ADD_GRAINS)]


def copy(
    groups: int, source: Offset, target: Offset, size: Offset, now: bool = False
) -> MoveSteps:
    """So many bytes from one place to another; `now`: as early as positions are
    checked."""
    return MoveSteps(groups, "copy", (source, target, size), Offset(1), 1, now)


class StepLayout(NamedTuple):
    """Words of steps, of which addresses are offsets in `blocks`, then of an index that
    begins at a `place`, and of a status; records and their `turns` among all steps.

    The steps from `sure` on check no positions, nor are they wanted as soon as those.
    `parts` has the steps of bodies, what these are like, and for how many groups.
    """

    words: Numbers
    blocks: Numbers
    records: Numbers
    turns: Numbers
    place: int
    sure: int
    scratch: int
    parts: list[tuple[PartSteps, Any, int]]


def laid_out(
    steps: Sequence[Steps],
    groups: Sequence[Groups],
    where: Numbers,
    index: Addresses,
    functions: Mapping[str | DType, int],
) -> StepLayout:
    """The layout of all steps, for the groups of a forest, where places are; the
    addresses of `functions` by what they move."""
    if native is not None:
        rest = index.offsets, index.blocks, functions, FIELDS
        return StepLayout(*native.laid_out(steps, groups, where, *rest))
    layout = _Layout(where, functions)
    for step in steps:
        every = groups[step.groups]
        if isinstance(step, MoveSteps):
            layout.move(step, every)
            continue
        for like, numbers, which in step.rows.alike(every.counts):
            some = every if which is None else Groups(*[x[which] for x in every])
            layout.parts.append((step, like, len(some.turns)))
            layout.body(step, some, like, numbers)
            for n, other in like.copied.items():
                source, target = [_end(step, like, m, n) for m in (other, n)]
                layout.move(copy(step.groups, source, target, step.sizes[n]), some)
    return layout.ordered(index)


def _end(step: PartSteps, like: Any, n: int, result: int) -> Offset:
    """Where a result or an argument lies; a constant of a result, if it is -1."""
    if n < 0:
        return Offset(like.constants[result])
    return Offset(0, int(step.shifts[n]), 0, int(step.which[n]))


def each_group(groups: Groups) -> Iterator[list[int]]:
    """The turn of each group, its first row and its rows."""
    return iter(np.stack(groups, 1).tolist())


class _Layout:
    """The words of steps that are added, the places of addresses among these, and the
    turn of each step, whether it checks positions, and its record."""

    def __init__(self, where: Numbers, functions: Mapping[str | DType, int]) -> None:
        self.where, self.functions = where, functions
        self.words: list[int] = []
        self.addresses: list[int] = []
        self.steps: list[tuple[int, bool, list[int]]] = []
        self.parts: list[tuple[PartSteps, Any, int]] = []
        self.scratch = 0

    def move(self, x: MoveSteps, groups: Groups) -> None:
        """A step of each group that moves rows."""
        grains = np.atleast_1d(x.grain)
        for turn, *group in each_group(groups):
            place, total = len(self.words), x.total.at(self.where, *group)
            words = [f.at(self.where, *group) for f in x.words]
            self.words += words + [0] * (WORDS - len(words))
            self.addresses += place, place + 1
            grain = int(grains.take(group[1], mode="clip"))
            record = [self.functions[x.what], place, total, grain]
            self.steps.append((turn, x.now, record))

    def body(
        self, x: PartSteps, groups: Groups, like: Any, integers: Sequence[Numbers]
    ) -> None:
        """The steps of a body for each group, of which there are the integers."""
        ends, slots, fixed, passed, which, checks, _ = like.words
        starts = self.where[x.which]
        for (turn, first, _), numbers in zip(each_group(groups), integers, strict=True):
            records, table, shifts, _ = np.split(numbers, ends)
            table, shifts = table.copy(), shifts + fixed
            shifts[passed] += (starts + first * x.shifts)[which]
            table[slots] = shifts
            for record in records.reshape(-1, OWN).tolist():
                record[PLACE] += len(self.words)
                self.steps.append((turn, checks, record))
            self.addresses += (len(self.words) + slots).tolist()
            self.words += table.tolist()
            self.scratch = max(self.scratch, int(numbers[-1]))

    def ordered(self, index: Addresses) -> StepLayout:
        """The layout of all that was added, in turn."""
        words, blocks = (
            np.array([*self.words], np.int64),
            np.zeros(len(self.words), int),
        )
        blocks[self.addresses], words[self.addresses] = split(words[self.addresses])
        turns = sorted(range(len(self.steps)), key=lambda k: self.steps[k][0])
        records = np.zeros((len(turns), FIELDS), np.int64)
        for k, turn in enumerate(turns):
            records[k, :OWN] = self.steps[turn][2]
        checks = [k for k, turn in enumerate(turns) if self.steps[turn][1]]
        return StepLayout(
            np.concatenate([words, index.offsets, [0]]),
            np.concatenate([blocks, index.blocks, [0]]),
            records.ravel(),
            np.array(turns, np.int64),
            len(words),
            1 + max(checks, default=-1),
            self.scratch,
            self.parts,
        )
