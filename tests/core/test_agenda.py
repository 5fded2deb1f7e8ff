"""The core tells the order of groups of rows, and equal ones, as Python does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.twins import in_python, needs_core
from treadle.batch import agenda, columns
from treadle.batch.agenda import scheduled


@needs_core
@settings(deadline=None, max_examples=200)
@given(st.integers(0, 1 << 30), st.integers(0, 60), st.integers(1, 6))
def test_units_are_scheduled_alike(seed: int, count: int, kinds: int) -> None:
    draw = np.random.default_rng(seed)
    makers = np.repeat(np.arange(count), draw.integers(1, 3, count))
    kind_of, depths = draw.integers(0, kinds, count), np.ones(count, np.int64)
    rows = [list[list[int]]() for _ in range(kinds)]
    widths = draw.integers(1, 4, kinds)
    for unit, kind in enumerate(kind_of.tolist()):
        first = int(makers.searchsorted(unit))
        read = draw.integers(-2, first, widths[kind])
        behind = makers[read[read >= 0]]
        depths[unit] = 1 + depths[behind].max(initial=0)
        rows[kind].append(read.tolist())
    units = [np.flatnonzero(kind_of == k) for k in range(kinds)]
    read = [
        np.array(x, np.int64).reshape(-1, n) for x, n in zip(rows, widths, strict=True)
    ]
    often, heavy = draw.integers(0, 2, (2, kinds)).astype(np.bool_)
    fields = depths, makers, units, read, often, heavy
    with in_python(agenda):
        python = scheduled(*fields)
    machine = scheduled(*fields)
    np.testing.assert_array_equal(python.steps, machine.steps)
    np.testing.assert_array_equal(python.kept, machine.kept)
    for a, b in zip(python.kinds, machine.kinds, strict=True):
        assert (a is None) == (b is None)
        for x, y in zip(a or (), b or (), strict=True):
            np.testing.assert_array_equal(x, y)


def test_what_reads_another_of_its_kind_is_done_after_it() -> None:
    units, marks = [np.arange(3), np.array([3])], np.array([True, False])
    read = [np.array([[-1], [0], [-2]]), np.array([[2]])]
    depths = np.array([1, 2, 1, 2])
    schedule = scheduled(depths, np.arange(4), units, read, marks, ~marks & False)
    assert schedule.steps.tolist() == [0, 1, 0, 2]
    assert schedule.kept.tolist() == [True, True, True, False]
    (rows, none) = schedule.kinds
    assert none is None and rows is not None
    assert rows.places.tolist() == [0, 2, 1] and rows.counts.tolist() == [2, 1]
    assert rows.early.tolist() == [False]


@needs_core
@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1 << 62)), max_size=40))
def test_equal_rows_are_found_alike(rows: list[tuple[int, int]]) -> None:
    keys = np.array([*rows, *rows[::3]], np.int64).reshape(-1, 2)
    with in_python(columns):
        python = columns.split(keys)
    machine = columns.split(keys)
    assert [x.tolist() for x in python] == [x.tolist() for x in machine]
