"""Symbolic integers: what is computed of them, and the guards that they leave."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base.slices import SliceRange
from treadle.base.symbolic import (
    Symbolic,
    SymbolicNumber,
    SymbolicTrace,
    arange,
    at_least,
    call,
    compiled,
    counted,
    gcd,
    guards_of,
    is_same,
    least,
    most,
    stays_below,
    whole,
)
from treadle.loops.index import LoopAxis

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq)
SIZES = st.integers(2, 60)


def computed(x: list[Any], steps: list[tuple[int, int, int]]) -> list[Any]:
    """Integers, each of two before it; what is divided by 0 stays as it is."""
    found = list(x)
    for op, a, b in steps:
        on, y, z = ARITHMETIC[op], found[a % len(found)], found[b % len(found)]
        if on in (operator.floordiv, operator.mod) and z == 0:
            continue
        found.append(on(y, z))
    return found


STEPS = st.lists(st.tuples(st.integers(0, 4), *[st.integers(0, 99)] * 2), max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.tuples(SIZES, SIZES), st.tuples(SIZES, SIZES), STEPS)
def test_integers_of_other_sizes_are_those_computed_for_them(
    here: tuple[int, int], there: tuple[int, int], steps: list[tuple[int, int, int]]
) -> None:
    trace = SymbolicTrace(here)
    found = computed([*trace.symbols, 3, 1], steps)
    wanted = computed([*here, 3, 1], steps)
    assert [getattr(x, "value", x) for x in found] == wanted
    numbers = compiled(trace, found)
    assert numbers(here) == wanted
    others = numbers(there)
    assert others is None or others == computed([*there, 3, 1], steps)


@settings(max_examples=200, deadline=None)
@given(st.tuples(SIZES, SIZES), st.tuples(SIZES, SIZES), STEPS, st.integers(0, 4))
def test_what_a_comparison_decides_is_guarded(
    here: tuple[int, int],
    there: tuple[int, int],
    steps: list[tuple[int, int, int]],
    which: int,
) -> None:
    on = COMPARISONS[which]

    def decided(x: list[Any]) -> bool:
        found = computed(x, steps)
        return bool(on(found[-1], found[0]))

    trace = SymbolicTrace(here)
    own = decided([*trace.symbols, 3, 1])
    assert own == decided([*here, 3, 1])
    if compiled(trace, [])(there) is not None:
        assert decided([*there, 3, 1]) == own


LOSSY: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "range": lambda n: len(range(n)),
    "text": str,
    "format": lambda n: f"{n:3d}",
    "index": lambda n: [*range(99)][n],
    "array": lambda n: np.zeros(n).shape,
    "of NumPy": lambda n: np.array(n, np.int64).item(),
    "array of a SymbolicNumber": lambda n: np.asarray(counted(n)).item(),
    "number": lambda n: float(1 / n),
}


@pytest.mark.parametrize("lossy", LOSSY.values(), ids=LOSSY)
def test_what_needs_the_value_leaves_a_guard(lossy: Callable[[Any], Any]) -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    assert lossy(n) == lossy(7)
    serves = compiled(trace, [])
    assert serves([7]) == [] and serves([8]) is None


def test_what_decides_nothing_leaves_no_guard() -> None:
    trace = SymbolicTrace([7, 12])
    n, m = trace.symbols
    own = [least(n, m), most(n, 9), call(pow, n, 2), n + np.int64(1), whole(n), m // m]
    assert not trace.guards
    assert compiled(trace, own)([20, 3]) == [3, 20, 400, 21, 20, 1]


def test_bounds_decide_without_guards() -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    assert n > 0 and n >= 2 and n != 1 and n * n + 1 > 4 and not n - n
    assert not trace.guards
    assert gcd(6 * n, 4 * n, 2) == 2
    assert not trace.guards
    assert gcd(n, 14) == 7
    serves = compiled(trace, [])
    assert serves([21]) == [] and serves([8]) is None


def test_equal_sizes_are_one_from_there_on() -> None:
    trace = SymbolicTrace([7, 7])
    n, m = trace.symbols
    assert n == m
    assert (n - m + 0) == 0 and len(trace.guards) == 1
    assert compiled(trace, [n * m])([8, 9]) is None


def test_what_equalities_tell_holds_in_sums_and_products() -> None:
    trace = SymbolicTrace([16, 17, 17])
    n, m, k = trace.symbols
    before = n * m
    assert m - 1 == 16 and n + 1 == k
    assert whole(m * 4) == 68 and type(m * 4 + 1) is int
    assert is_same(before, n * 17) and is_same(k * k, n * n + 2 * n + 1)
    assert not is_same(n, 16)
    assert len(trace.guards) == 2


def test_what_equalities_tell_holds_in_quotients() -> None:
    """An index runs on along an axis though one size in it is a number by now."""
    trace = SymbolicTrace([16, 5])
    n, m = trace.symbols
    before = call(pow, 16, m)
    assert n == 16
    assert type(16 % n) is int and type(48 // n) is int and 48 // n == 3
    assert is_same(n // m, 16 // m) and is_same(n % m, 16 % m)
    assert is_same(call(pow, n, m), before)
    assert len(trace.guards) == 1


def test_what_stays_below_is_guarded_where_it_is_far() -> None:
    trace = SymbolicTrace([3, 12, 40])
    few, some, many = trace.symbols
    assert not stays_below(some, 32) and not stays_below(many, 32)
    assert stays_below(least(many, 32), 32) and not trace.guards
    assert stays_below(few, 32)
    assert [text for text, _ in guards_of(trace)] == ["n0 <= 32"]


def test_axes_are_equal_if_they_are_for_all_sizes() -> None:
    trace = SymbolicTrace([12, 12])
    n, m = trace.symbols
    assert LoopAxis("i", n) != LoopAxis("i", m) and LoopAxis("i", n) != LoopAxis(
        "i", 12
    )
    assert not trace.guards
    assert n == m
    assert {LoopAxis("i", n): 1}[LoopAxis("i", m)] == 1


def test_speed_alone_may_be_left_aside() -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    assert not at_least(n, 100) and n < 1000
    strict, loose = compiled(trace, [n]), compiled(trace, [n], "bits")
    assert strict([200]) == [200]  # within a factor it is nearly as fast
    assert strict([900]) is None and loose([900]) == [900]
    assert loose([2000]) is None
    assert [text for text, _ in guards_of(trace)] == ["n0 < 800", "n0 < 1000"]
    assert n < 100  # now a value hangs on it
    assert compiled(trace, [n], "bits")([200]) is None


def test_numbers_of_sizes() -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    mean = SymbolicNumber(np.float32, 1 / n)
    wanted = [mean, mean * 3.0, arange(n), counted(n)]
    found = compiled(trace, wanted)([10])
    assert found is not None and not trace.guards
    assert found[0] == np.float32(0.1) and found[1] == np.float32(0.1).item() * 3.0
    assert found[2].tolist() == [*range(10)] and found[3] == 10
    assert mean == SymbolicNumber(np.float32, 1 / n) and hash(mean) == hash(mean)
    assert mean < 1 and not mean > 1
    assert compiled(trace, [])([2]) == [] and len(trace.guards) == 2


def test_slices_of_sizes() -> None:
    for item in (
        slice(None, -1),
        slice(2, None, 2),
        slice(None, None, -1),
        slice(-3, 9),
    ):
        trace = SymbolicTrace([7])
        (n,) = trace.symbols
        places = SliceRange.of(item, n)
        own = [*places, places.count, places.low, places.high]
        numbers = compiled(trace, own)
        for size in (7, 5, 30):
            wanted = range(*item.indices(size))
            found = numbers([size])
            if found is not None and len(wanted):
                assert found[3] == len(wanted)
                assert found[4:] == [min(wanted), max(wanted)]
        assert numbers([7]) is not None


def test_closed_traces_note_nothing() -> None:
    trace = SymbolicTrace([7])
    (n,) = trace.symbols
    trace.open = False
    assert n < 100 and int(n) == 7 and not trace.guards
    assert isinstance(n + 1, Symbolic)


def test_long_guards_are_shown_in_part() -> None:
    trace = SymbolicTrace([7])
    n: Any = trace.symbols[0]
    for _ in range(6):
        n = least(n * n, n + 9)
    assert n < 1000
    ((text, line),) = guards_of(trace)
    assert len(text) < 200 and text.endswith(" ...") and line
