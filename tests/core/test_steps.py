"""The core lays out the steps of rows as Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.twins import in_python, needs_core
from treadle.base.dtypes import float32
from treadle.batch import repeats
from treadle.batch.forest import Groups, one_group
from treadle.engines.native.forest import layout
from treadle.engines.native.forest.bases import Addresses, block
from treadle.engines.native.forest.layout import (
    MoveSteps,
    Offset,
    PartSteps,
    copy,
    laid_out,
)
from treadle.engines.native.forest.parts import RowKernels

OWN = 4
PLACES, GROUPS = 6, 4
FUNCTIONS: Any = {"gather": 11, "copy": 12, float32: 13}


def _form(draw: Any, place: int = -1) -> Offset:
    return Offset(*draw.integers(0, 9, 3).tolist(), place)


def _moves(draw: Any) -> MoveSteps:
    size, count = int(draw.integers(1, 9)), int(draw.integers(2, 5))
    ends = [_form(draw, int(draw.integers(-1, PLACES))) for _ in range(2)]
    words = *ends, *[_form(draw) for _ in range(count - 2)]
    grain = size if size % 2 else draw.integers(1, 9, size)
    what = [*FUNCTIONS][int(draw.integers(3))]
    now = bool(draw.integers(2))
    return MoveSteps(int(draw.integers(GROUPS)), what, words, _form(draw), grain, now)


class _Like:
    """Steps that are alike: the arguments they have come after two results."""

    def __init__(self, draw: Any, arguments: int) -> None:
        steps, table, slots = (int(draw.integers(1, 5)) for _ in range(3))
        slots = min(slots, table)
        self.ends = OWN * steps, OWN * steps + table, OWN * steps + table + slots
        own = draw.permutation(table)[:slots]
        mine = np.flatnonzero(draw.integers(0, 2, slots))
        fixed = np.where(np.isin(np.arange(slots), mine), 0, block(4) + 8)
        which, checks = (
            draw.integers(0, 2 + arguments, len(mine)),
            bool(draw.integers(2)),
        )
        self.copied = {1: int(draw.integers(-1, 2 + arguments))}
        self.copied = self.copied if draw.integers(2) else {}
        self.constants = dict.fromkeys(self.copied, 77)
        copies = tuple([(n, k, self.constants[k]) for k, n in self.copied.items()])
        self.words = self.ends, own, fixed, mine, which, checks, copies
        self.asked = list[int]()

    def like(self, n: int) -> Any:
        self.asked.append(n)
        return self


class _Rows:
    """Integers of bodies by rows, which are alike for some numbers of these."""

    alike = RowKernels.alike

    def __init__(self, draw: Any, arguments: int) -> None:
        self.known: dict[int, Any] = {}
        self._draw = draw
        self._likes = [_Like(draw, arguments) for _ in range(2)]

    def filled(self, n: int) -> Any:
        like = self._likes[n % 3 == 0]
        return self.known.setdefault(
            n, (like, self._draw.integers(0, 99, like.ends[2] + 1))
        )


def _part(draw: Any) -> PartSteps:
    arguments = int(draw.integers(0, 3))
    rows, count = _Rows(draw, arguments), 2 + arguments
    for n in range(0, 6, 2):
        rows.filled(n)
    which, shifts = draw.integers(0, PLACES, count), draw.integers(0, 9, count)
    sizes = _form(draw), _form(draw)
    return PartSteps(int(draw.integers(GROUPS)), rows, which, shifts, sizes, 0)


@needs_core
@settings(deadline=None, max_examples=200)
@given(st.integers(0, 1 << 30), st.integers(0, 5), st.integers(0, 5))
def test_steps_are_laid_out_alike(seed: int, moves: int, parts: int) -> None:
    draw = np.random.default_rng(seed)
    steps: list[Any] = [_moves(draw) for _ in range(moves)]
    steps += [_part(draw) for _ in range(parts)]
    steps = [steps[k] for k in draw.permutation(len(steps))]
    groups = [
        Groups(*draw.integers(0, 6, (3, int(draw.integers(0, 5)))))
        for _ in range(GROUPS)
    ]
    where = np.array([block(k) + 8 * k for k in range(PLACES)])
    index = Addresses.of(block(5) + draw.integers(0, 99, 4))
    every = steps, groups, where, index, FUNCTIONS
    with in_python(layout):
        python = laid_out(*every)
    machine = laid_out(*every)
    for name, a, b in zip(python._fields[:-1], python, machine, strict=False):
        np.testing.assert_array_equal(a, b, name)
    assert machine.parts == python.parts
    for _, like, _ in python.parts:
        half = len(like.asked) // 2
        assert like.asked[:half] == like.asked[half:]


def test_steps_of_one_turn_go_as_they_were_added() -> None:
    copies = [copy(0, Offset(), Offset(), Offset(n), now=n == 1) for n in (2, 0, 1)]
    steps = [
        x._replace(groups=x.words[2].number == 2, total=x.words[2]) for x in copies
    ]
    groups, none = [one_group(0), one_group(1)], np.zeros(0, np.int64)
    layout = laid_out(steps, groups, none, Addresses.of(none), FUNCTIONS)
    assert layout.records.reshape(3, -1)[:, 2].tolist() == [0, 1, 2]
    assert layout.turns.tolist() == [1, 2, 0]
    assert layout.sure == 2


def test_steps_that_read_what_is_not_there_are_refused() -> None:
    none = np.zeros(0, np.int64)
    for step in (
        copy(1, Offset(), Offset(), Offset()),
        copy(0, Offset(place=3), Offset(), Offset()),
    ):
        with pytest.raises((TypeError, IndexError)):
            laid_out([step], [one_group(0)], none, Addresses.of(none), FUNCTIONS)


@needs_core
@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=60))
def test_what_steps_may_read_is_found_alike(read: list[list[int]]) -> None:
    sizes = np.array([len(x) if k else 0 for k, x in enumerate(read)], np.int64)
    edges = [x % k for k, every in enumerate(read) if k for x in every]
    waiting = np.arange(len(read)) % 5 != 0
    fields = np.array(edges, np.int64) // 8, sizes, waiting
    with in_python(repeats):
        python = repeats.read_often(*fields)
    np.testing.assert_array_equal(python, repeats.read_often(*fields))
