"""Integers of sizes, and plans of memory for them, by the core and by Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.twins import in_python, needs_core
from treadle.base.symbolic import (
    IntegerTable,
    SymbolicNumber,
    SymbolicTrace,
    call,
    compiled,
    counted,
    exceeds,
    least,
    most,
    table,
)
from treadle.program import stack
from treadle.program.lives import Lives, SizedPlans
from treadle.program.memory import Range, largest_live_set, plan
from treadle.program.stack import Stack

ON: Sequence[Callable[[Any, Any], Any]] = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.lshift,
    operator.rshift,
    least,
    most,
    exceeds,
    lambda x, y: call(math.gcd, x, y),
    lambda x, y: call(int.bit_length, x) + y,
    lambda x, y: call(pow, x, 3) + y,
)
STEPS = st.lists(
    st.tuples(st.integers(0, len(ON) - 1), *[st.integers(0, 99)] * 2), max_size=12
)
SIZES = st.one_of(st.integers(2, 40), st.integers(2, 1 << 62))
FAR = 1 << 200  # of numbers that are looked at


def made(trace: SymbolicTrace, steps: list[tuple[int, int, int]]) -> list[Any]:
    """Integers, each of two before it, and what guards they leave."""
    found: list[Any] = [*trace.symbols, 3, -7]
    for op, a, b in steps:
        x, y = found[a % len(found)], found[b % len(found)]
        if ON[op] is operator.lshift and not 0 <= getattr(y, "value", y) < 70:
            continue
        try:
            made = ON[op](x, y)
        except (ArithmeticError, ValueError):
            continue
        if abs(getattr(made, "value", made)) < FAR:
            found.append(made)
    for x, y in zip(found, found[2:], strict=False):
        assert x == y or x != y
        assert x > y or x <= y
    return found


@needs_core
@settings(max_examples=300, deadline=None)
@given(st.tuples(SIZES, SIZES), st.lists(st.tuples(SIZES, SIZES), max_size=4), STEPS)
def test_tables_have_the_integers_that_python_computes(
    here: tuple[int, int],
    others: list[tuple[int, int]],
    steps: list[tuple[int, int, int]],
) -> None:
    trace = SymbolicTrace(here)
    wanted = made(trace, steps)
    for guards in ("all", "none"):
        try:
            own = compiled(trace, wanted, guards)
        except OverflowError:  # a coefficient of more than 64 bits is of no size
            return
        for sizes in (here, *others):
            found = own(sizes)
            with in_python(table):
                assert found == own(sizes)
            fits = all(abs(getattr(x, "value", x)) < 1 << 62 for x in wanted)
            if sizes == here and fits and found is not None:
                assert found == [getattr(x, "value", x) for x in wanted]


@needs_core
def test_tables_have_numbers_of_sizes() -> None:
    trace = SymbolicTrace([7])
    n: Any = trace.symbols[0]
    mean: Any = SymbolicNumber(np.float32, 1 / n)
    assert mean < 1
    own = compiled(trace, [mean, mean * 2.0, counted(n), n])
    for size in (2, 9, 1 << 40):
        found = own([size])
        with in_python(table):
            wanted = own([size])
        assert found is not None and wanted is not None and found == wanted
        assert [*map(type, found)] == [*map(type, wanted)]


def test_what_a_function_refuses_is_no_size() -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    assert n < 100
    own = compiled(trace, [call(math.comb, 9, n - 3)])
    assert own([5]) == [math.comb(9, 2)] and own([2]) is None


@needs_core
def test_an_error_of_a_function_is_raised() -> None:
    def refused(n: int) -> int:
        raise KeyError(n)

    rows = np.array([[table.OBJECT, 0, 0], [table.CALL, 0, 2]])
    own = IntegerTable(1, (refused,), rows, np.array([1, 0]), np.array([2]))
    for module in ((), (table,)):
        with in_python(*module), pytest.raises(KeyError):
            own([3])


@needs_core
@pytest.mark.parametrize(
    "rows",
    [[[99, 0, 0]], [[table.ADD, 0, 1]], [[table.CALL, 0, 9]], [[table.OBJECT, 3, 0]]],
)
def test_tables_that_read_what_is_not_there_are_refused(rows: list[list[int]]) -> None:
    nothing = np.zeros(0, np.int64)
    with pytest.raises(TypeError):
        IntegerTable(1, (), np.array(rows), nothing, nothing)([3])
    with pytest.raises(TypeError):
        IntegerTable(1, (), np.zeros((0, 3), np.int64), nothing, np.array([7]))([3])


@st.composite
def memories(draw: Any) -> tuple[list[Range], list[list[tuple[int, int]]]]:
    """Ranges of steps of which some are chains side by side."""
    count = draw(st.integers(1, 14))
    regions = []
    if count > 5:
        first = draw(st.integers(0, count - 4))
        middle = draw(st.integers(first + 1, count - 2))
        end = draw(st.integers(middle, count - 2))
        regions = [[(first, middle - 1), (middle, end)]]
    ranges = []
    for _ in range(draw(st.integers(0, 12))):
        a, b = sorted(draw(st.tuples(*[st.integers(0, count - 1)] * 2)))
        for chains in regions:  # what several chains touch lives to the end
            inside = [k for k, (x, y) in enumerate(chains) if x <= b <= y]
            if inside and a < chains[inside[0]][0] and a >= chains[0][0]:
                b = chains[-1][1]
        ranges.append(Range(draw(st.integers(0, 300)), a, b))
    return ranges, regions


def meet(x: Range, y: Range, regions: list[list[tuple[int, int]]]) -> bool:
    """Whether two ranges may live at a time, whatever chain is ahead."""
    if x.first > y.first:
        x, y = y, x
    if y.first <= x.last:
        return True
    for chains in regions:
        of = [
            [k for k, (a, b) in enumerate(chains) if a <= s <= b]
            for s in (x.last, y.first)
        ]
        if of[0] and of[1] and of[0] != of[1]:
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(memories(), st.lists(st.integers(0, 5000), min_size=12, max_size=12))
def test_ranges_of_other_sizes_share_no_byte(
    memory: tuple[list[Range], list[list[tuple[int, int]]]], sizes: list[int]
) -> None:
    ranges, regions = memory
    own = Stack.of(ranges, plan(ranges, regions=regions), regions)
    now = np.array(sizes[: len(ranges)], np.int64)
    found, bound = own.plan(now)
    with in_python(stack):
        assert own.plan(now) == (found, bound)
    like = [Range(n, r.first, r.last) for n, r in zip(sizes, ranges, strict=False)]
    assert bound == largest_live_set(like, regions=regions)
    assert regions or bound <= found.size
    offsets = found.offsets
    for j, x in enumerate(ranges):
        assert offsets[j] % 64 == 0 and offsets[j] + now[j] <= found.size
        for k in range(j):
            if now[j] and now[k] and meet(x, ranges[k], regions):
                apart = offsets[j] >= offsets[k] + now[k]
                assert apart or offsets[k] >= offsets[j] + now[j]


@settings(max_examples=100, deadline=None)
@given(memories())
def test_ranges_of_the_same_size_take_no_more_than_before(
    memory: tuple[list[Range], list[list[tuple[int, int]]]],
) -> None:
    ranges, regions = memory
    before = plan(ranges, regions=regions)
    own = Stack.of(ranges, before, regions)
    sizes = np.array([r.bytes for r in ranges], np.int64)
    assert own.plan(sizes)[0].size <= before.size


def test_plans_for_other_sizes_stay_near_the_largest_live_set() -> None:
    ranges = [Range(1 << 20, k, k + 2) for k in range(20)]
    like = Lives(ranges, plan(ranges), {}, {}, [])
    plans, rng = SizedPlans(like), np.random.default_rng(0)
    for _ in range(30):
        sizes = rng.integers(1 << 18, 1 << 22, len(ranges))
        own = like.resized(sizes.tolist(), plans.at(sizes))
        assert own.bound <= own.plan.size <= 1.2 * own.bound
