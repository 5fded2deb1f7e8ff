"""The core lays out the steps of rows as Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.twins import in_python, needs_core
from treadle.batch import repeats
from treadle.batch.forest import Groups, one_group
from treadle.engines.native.forest import layout
from treadle.engines.native.forest.bases import Addresses, block
from treadle.engines.native.forest.layout import BodySteps, Moves, laid_out

OWN, PLACE = 4, 1


def _moves(draw: Any, number: int) -> Moves:
    size, each = int(draw.integers(1, 9)), int(draw.integers(0, 9))
    words = (block(3), size), block(int(draw.integers(1, 20))), (each, 0, size), 7
    grain = size if each % 2 else draw.integers(1, 9, size)
    rest = 11, (0, each, 1), grain, number, bool(draw.integers(2))
    return Moves(_groups(draw), words[: int(draw.integers(3, 5))], *rest)


def _groups(draw: Any) -> Groups:
    return Groups(*draw.integers(0, 6, (3, int(draw.integers(1, 5)))))


def _bodies(draw: Any, number: int) -> BodySteps:
    steps, table, slots = (int(draw.integers(1, 5)) for _ in range(3))
    groups = _groups(draw)
    slots = min(slots, table)
    ends = OWN * steps, OWN * steps + table, OWN * steps + table + slots
    numbers = list(draw.integers(0, 99, (len(groups.turns), ends[2] + 1)))
    own = draw.permutation(table)[:slots]
    mine = np.flatnonzero(draw.integers(0, 2, slots))
    starts, shifts = block(2) + draw.integers(0, 99, 3), draw.integers(0, 9, 3)
    fixed = np.where(np.isin(np.arange(slots), mine), 0, block(4) + 8)
    rest = ends, own, fixed, mine, draw.integers(0, 3, len(mine)), number
    checks = bool(draw.integers(2))
    return BodySteps(groups, numbers, starts, shifts, *rest, checks)


@needs_core
@settings(deadline=None, max_examples=200)
@given(st.integers(0, 1 << 30), st.integers(0, 5), st.integers(0, 5))
def test_steps_are_laid_out_alike(seed: int, moves: int, bodies: int) -> None:
    draw = np.random.default_rng(seed)
    if moves + bodies == 0:
        return
    numbers = draw.permutation(moves + bodies).tolist()
    every = [_moves(draw, n) for n in numbers[:moves]]
    others = [_bodies(draw, n) for n in numbers[moves:]]
    index = Addresses.of(block(5) + draw.integers(0, 99, 4))
    with in_python(layout):
        python = laid_out(every, others, index)
    machine = laid_out(every, others, index)
    for name, a, b in zip(python._fields, python, machine, strict=True):
        np.testing.assert_array_equal(a, b, name)


def test_steps_of_one_turn_go_as_they_were_added() -> None:
    every = [Moves(one_group(0), (0, 0, n), n, 1, 1, n, n == 1) for n in (2, 0, 1)]
    layout = laid_out(every, [], Addresses.of(np.zeros(0, np.int64)))
    assert layout.records.reshape(3, -1)[:, 0].tolist() == [0, 1, 2]
    assert layout.turns.tolist() == [1, 2, 0]
    assert layout.sure == 2


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
