"""Routines compiled are what Python makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.base.routine import Marks, Numbers, interpreted, room, routine
from treadle.engines.native.compiler import VARIABLES, optimized
from treadle.engines.native.host import host
from treadle.engines.native.routines.compiled import compiled
from treadle.engines.native.routines.text import text_of

STEP = 3
YES = True


@routine
def arithmetic(x: Numbers, a: int, b: int) -> None:
    divisor = b if b else 7
    x[0], x[1], x[2] = a + b, a - b, a * b
    x[3], x[4] = a // divisor, a % divisor
    x[5], x[6], x[7] = a & b, a | b, a ^ b
    x[8], x[9] = a >> 2, a << 3
    x[10], x[11], x[12] = -a, ~a, min(a, b)
    x[13], x[14] = max(a, b), int(a < b)
    x[15] += a
    x[15] -= 2 * b


@routine
def comparisons(y: Marks, a: int, b: int) -> None:
    y[0], y[1], y[2] = a == b, a != b, a < b
    y[3], y[4], y[5] = a <= b, a > b, a >= b
    y[6] = 0 <= a < b <= 9
    y[7] = not a and b > 0
    y[8] = a > 0 or b > 0 or YES
    y[9] = bool(a)
    y[11] = a in (b, STEP, 4)
    y[10] = (a > b) & (b > 2) | (a == 0) ^ y[9]


@routine
def _next(x: Numbers, k: int) -> int:
    x[k] += 1
    return x[k]


@routine
def short_circuits(x: Numbers, a: int, b: int) -> int:
    if a > 0 and _next(x, 0) > 0 and b > 0 and _next(x, 1) > 0:
        return 1
    if a > b or _next(x, 2) > 100 or _next(x, 3) == 1:
        x[4] = _next(x, 5) if a else _next(x, 6)
    return int(10 < _next(x, 7) < _next(x, 8))


@routine
def loops(x: Numbers, a: int, b: int) -> int:
    found = 0
    for k in range(a):
        if k == 5:
            continue
        for j in range(k, b, STEP):
            if j > 20:
                break
            found += j * k
        while found > 1000:
            found -= 999
    for k in range(b, -a, -2):
        x[k & 7] += k
    last = -1
    for last in range(b):
        if last * last > a:
            break
    return found + last


@routine
def searched(x: Numbers, a: int, b: int) -> int:
    k = 0
    while True:
        if k == 16:
            return -1
        elif x[k] == a:
            return k
        else:
            k += 1


@routine
def conditions(x: Numbers, a: int, b: int) -> int:
    k = 0
    while k < 9 and not (a < k and (b > k or a + b == k)):
        if (a > k or not b > 2) and not (k == 3 and _next(x, 0) > 1):
            x[1] += k
        elif k == a or (b == k and _next(x, 2)) or not _next(x, 3):
            x[4] += 1 if a > 2 and not (b > 2 or _next(x, 5) == 7) else 2
        k += 1
    return k


@routine
def _both(a: int, b: int) -> tuple[int, int]:
    if a < b:
        return b, a
    return a, b


@routine
def _three(x: Numbers, a: int, b: int) -> tuple[int, int, int]:
    own = room(2 * STEP)
    for k in range(6):
        own[k] = a * k
    more, less = _both(a, b)
    more, less = less, more
    x[0], x[1] = _both(less, own[5])
    return more, own[4], less


@routine
def several(x: Numbers, a: int, b: int) -> int:
    x[2], x[3], last = _three(x, a, b)
    return last


@dataclass(frozen=True)
class Inner:
    numbers: Numbers
    count: int
    flag: bool


@dataclass(frozen=True)
class Outer:
    inner: Inner
    marks: Marks


@routine
def _marked(inner: Inner, k: int) -> bool:
    return inner.flag and inner.numbers[k] > 2


@routine
def records(outer: Outer, a: int, b: int) -> int:
    inner = outer.inner
    found = 0
    for k in range(inner.count):
        outer.marks[k] = _marked(inner, k)
        if outer.marks[k]:
            inner.numbers[k] -= a
            found += inner.numbers[k]
    return found


@routine
def mixed(a: int, b: int) -> int:
    return a * b & (1 << 63) - 1


small = st.integers(-12, 12)


@pytest.mark.parametrize(
    "function", [arithmetic, short_circuits, conditions, loops, searched, several]
)
@given(a=small | st.integers(-(1 << 20), 1 << 20).filter(lambda x: x < 13), b=small)
def test_numbers(function: Callable[..., Any], a: int, b: int) -> None:
    one, two = np.arange(16), np.arange(16)
    got = compiled(function)(one, a, b)
    want = interpreted(function)(two, a, b)
    assert one.tolist() == two.tolist()
    assert want == got


@given(a=small, b=small)
def test_marks(a: int, b: int) -> None:
    one, two = np.zeros(12, np.bool_), np.zeros(12, np.bool_)
    compiled(comparisons)(one, a, b)
    interpreted(comparisons)(two, a, b)
    assert one.tolist() == two.tolist()


@given(a=small, count=st.integers(0, 9), flag=st.booleans())
def test_records(a: int, count: int, flag: bool) -> None:
    def made() -> Outer:
        return Outer(Inner(np.arange(9), count, flag), np.ones(9, np.bool_))

    one, two = made(), made()
    assert compiled(records)(one, a, 0) == interpreted(records)(two, a, 0)
    assert one.inner.numbers.tolist() == two.inner.numbers.tolist()
    assert one.marks.tolist() == two.marks.tolist()


def test_ints_wrap_where_they_are_cut() -> None:
    big = (1 << 62) + 12345
    assert compiled(mixed)(big, big - 2) == mixed(big, big - 2)


def test_variables_are_in_registers() -> None:
    text = optimized(text_of(loops, "loops"), host())
    assert VARIABLES in text
    assert "alloca" not in text


def test_arrays_are_contiguous() -> None:
    with pytest.raises(ValueError, match="not contiguous"):
        compiled(searched)(np.arange(32)[::2], 1, 1)


# -- what is no routine ----------------------------------------------------------------


@routine
def _list(x: Numbers) -> int:
    return sum([x[0], 1])


@routine
def _kinds(x: Numbers) -> int:
    found = 1
    found = x[0] > 1
    return found


@routine
def _result(x: Numbers) -> bool:
    return x[0]  # type: ignore[no-any-return]


@routine
def _float(x: Numbers) -> None:
    x[0] = 1.5  # type: ignore[call-overload]


@routine
def _elements(x: Numbers) -> None:
    for k in x:
        x[k] = 0


@routine
def _unknown(x: Numbers) -> int:
    return x[0] + unknown  # type: ignore[name-defined]  # noqa: F821


@routine
def _dead(x: Numbers) -> int:
    return 1
    x[0] = 1


@routine
def _plain(x: Numbers) -> int:
    return test_arrays_are_contiguous()  # type: ignore[func-returns-value]


@routine
def _text(x: str) -> int:
    return len(x)


WRONG: dict[Callable[..., Any], str] = {
    _list: "sum is no routine",
    _kinds: "found is i64 and i1",
    _result: "i64 for i1",
    _float: "a routine has no Constant",
    _elements: "goes over ranges alone",
    _unknown: "unknown is no variable",
    _dead: "nothing gets here",
    _plain: "test_arrays_are_contiguous is no routine",
}


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_what_no_routine_has_is_told_with_its_line(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(SyntaxError, match=WRONG[function]) as told:
        text_of(function, "x")
    first = function.__code__.co_firstlineno
    assert told.value.filename == __file__
    assert first < (told.value.lineno or 0) < first + 6


def test_python_is_given_one_value() -> None:
    with pytest.raises(TypeError, match="_three returns several"):
        compiled(_three)


def test_types_that_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="no routine has values of type <class 'str'>"):
        text_of(_text, "x")
