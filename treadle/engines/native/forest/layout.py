"""The layout of steps: the words that they are told, and their records in turn.

The core does it where it was built (`core/steps.cpp`), with equal results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treadle.base.arrays import Marks, Numbers
from treadle.batch.columns import order_of
from treadle.batch.forest import Groups
from treadle.core import native
from treadle.engines.native.execution.run import FIELDS
from treadle.engines.native.forest.bases import Addresses, split
from treadle.engines.native.forest.compiled import GRAIN, OWN, PLACE

WORDS = 4  # of a step that moves rows: two addresses, then sizes


# What is said of a group: a number, or one for its first row, one for each row before
# that and, if there are three, one for each of its rows.
Form = int | tuple[int, int] | tuple[int, int, int]
ROWS = 0, 0, 1


class Moves(NamedTuple):
    """Steps that move rows, one for each group.

    Those of one turn go by the `number` of what was added. A grain may be told by the
    number of rows, the last one for more. Some are wanted `now`, as early as positions
    are checked.
    """

    groups: Groups
    words: Sequence[Form]
    function: int
    total: Form
    grain: int | Numbers
    number: int
    now: bool


class BodySteps(NamedTuple):
    """The steps of a body for each group, of which `numbers` has the body's integers.
    Row 0 of its results and arguments lies at `starts`, and they have `shifts` from row
    to row; the others are those of `Compiled`."""

    groups: Groups
    numbers: Sequence[Numbers]
    starts: Numbers
    shifts: Numbers
    ends: Sequence[int]
    slots: Numbers
    fixed: Numbers
    passed: Numbers
    which: Numbers
    number: int
    checks: bool


class StepLayout(NamedTuple):
    """Words of steps, of which addresses are offsets in `blocks`, then of an index that
    begins at a `place`, and of a status; records and their `turns` among all steps.

    The steps from `sure` on check no positions, nor are they wanted as soon as those.
    """

    words: Numbers
    blocks: Numbers
    records: Numbers
    turns: Numbers
    place: int
    sure: int
    scratch: int


def laid_out(
    moves: Sequence[Moves], bodies: Sequence[BodySteps], index: Addresses
) -> StepLayout:
    """The layout of all steps: those that move rows come first."""
    if native is not None:
        rest = index.offsets, index.blocks, FIELDS
        return StepLayout(*native.laid_out(moves, bodies, *rest))
    words: list[Numbers] = []
    addresses: list[Marks] = []
    records: list[Numbers] = []
    keys: list[Numbers] = []  # turn, number and whether it checks positions
    place, scratch = 0, 0
    for x in moves:
        groups = len(x.groups.turns)
        more = [0] * (WORDS - len(x.words))
        _put(words, addresses, said_of(x.groups, *x.words, *more))
        addresses[-1][:, :2] = True
        places = np.arange(place, place + WORDS * groups, WORDS)
        grains = np.atleast_1d(x.grain).take(x.groups.counts, mode="clip")
        mine = said_of(x.groups, x.function, 0, x.total, 0)
        mine[:, PLACE], mine[:, GRAIN] = places, grains
        records.append(mine)
        keys.append(_keys(x.groups.turns, x.number, x.now))
        place += WORDS * groups
    for y in bodies:
        groups, numbers = len(y.groups.turns), np.array(y.numbers)
        mine, table, shifts = np.split(numbers, y.ends, 1)[:3]
        ends = y.starts + np.multiply.outer(y.groups.starts, y.shifts)
        shifts = shifts + y.fixed
        shifts[:, y.passed] += ends[:, y.which]
        _put(words, addresses, table)
        words[-1][:, y.slots], addresses[-1][:, y.slots] = shifts, True
        rows = mine.reshape(groups, -1, OWN).copy()
        size = table.shape[1]
        rows[:, :, PLACE] += np.arange(place, place + groups * size, size)[:, None]
        records.append(rows.reshape(-1, OWN))
        turns = np.repeat(y.groups.turns, rows.shape[1])
        keys.append(_keys(turns, y.number, y.checks))
        scratch = max(scratch, int(numbers[:, -1].max(initial=0)))
        place += groups * size
    every = np.concatenate([x.ravel() for x in words])
    known = np.concatenate([x.ravel() for x in addresses])
    bases, offsets = split(every)
    key, every_record = np.concatenate(keys), np.concatenate(records)
    turns = order_of(key[:, 0] * (len(moves) + len(bodies)) + key[:, 1])
    whole = np.zeros((len(key), FIELDS), np.int64)
    whole[:, :OWN] = every_record[turns]
    status = np.zeros(1, np.int64)
    return StepLayout(
        np.concatenate([np.where(known, offsets, every), index.offsets, status]),
        np.concatenate([np.where(known, bases, 0), index.blocks, status]),
        whole.ravel(),
        turns,
        place,
        1 + int(np.flatnonzero(key[turns, 2]).max(initial=-1)),
        scratch,
    )


def _put(words: list[Numbers], addresses: list[Marks], table: Numbers) -> None:
    """More words, none of which is an address yet."""
    words.append(table.copy())
    addresses.append(np.zeros(table.shape, np.bool_))


def _keys(turns: Numbers, number: int, checks: bool) -> Numbers:
    """The sort keys of steps, and whether these check positions."""
    rest = np.full((len(turns), 2), (number, checks), np.int64)
    return np.column_stack([turns, rest])


def said_of(groups: Groups, *forms: Form) -> Numbers:
    """A row for each group, of what some forms say of it."""
    columns = []
    for form in forms:
        start, step, each = (*(form if isinstance(form, tuple) else (form,)), 0, 0)[:3]
        columns.append(start + step * groups.starts + each * groups.counts)
    return np.stack(columns, 1)
