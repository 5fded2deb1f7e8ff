"""Comparisons of sizes that leave guards where bits hang on them, or none."""

from __future__ import annotations

import math
from typing import Any

from treadle.base.symbolic import forms
from treadle.base.symbolic.integers import (
    Symbolic,
    call,
    choosing,
    exceeding,
    form_of,
    trace_of,
    value_of,
)

NEAR = 8  # times as many or as few of a cached array: nearly as fast


def is_same(x: Any, y: Any) -> bool:
    """Whether two integers are equal for all sizes: no guard tells of one alone."""
    if type(x) is not Symbolic and type(y) is not Symbolic:
        return bool(x == y)
    trace = x.trace if type(x) is Symbolic else y.trace
    return trace.known(form_of(x)) == trace.known(form_of(y))


def stays_below(x: Any, y: Any, near: int = NEAR) -> bool:
    """Whether x <= y, where what is done otherwise has the same bits for any x.

    A guard tells of it where x is `near` times less. Else it is taken for false, which
    serves all sizes, unless bounds tell.
    """
    trace = trace_of((x, y))
    if trace is None:
        return bool(x <= y)
    high = trace.bounds(trace.known(forms.total(form_of(x), form_of(y), -1)))[1]
    return high <= 0 or bool(value_of(x) * near <= value_of(y) and x <= y)


def is_near(x: Any, y: Any, near: int) -> bool:
    """Whether two integers are less than a factor of `near` apart.

    No guard tells of it: what hangs on it must be right for all sizes either way.
    """
    small, large = sorted((value_of(x), value_of(y)))
    return bool(large < small * near)


def at_least(x: Any, y: Any, near: int = NEAR) -> bool:
    """Whether x >= y, where that changes no bit of a value but how fast it is computed.

    A program serves sizes for which it comes out so within a factor of `near`, too, and
    others if there are many: speed alone is worth no other program before that.
    """
    trace = trace_of((x, y))
    if trace is None:
        return bool(x >= y)
    answer = bool(value_of(x) >= value_of(y))
    more, less = (x * near, y) if answer else (x, y * near)
    trace.compare(form_of(more), ">=", form_of(less), answer, loose=True)
    return answer


def exceeds(x: Any, y: Any) -> Any:
    """Whether x > y, as 1 or 0: no guard tells which, where they are symbolic."""
    trace = trace_of((x, y))
    if trace is not None:
        low, high = trace.bounds(trace.known(forms.total(form_of(x), form_of(y), -1)))
        if low > 0 or high <= 0:
            return int(low > 0)
    return call(exceeding, x, y)


def reaches(x: Any, y: Any) -> Any:
    """Whether x >= y, likewise."""
    return exceeds(x, y - 1)


def chosen(is_first: Any, x: Any, y: Any) -> Any:
    """The first of two integers where that is 1, else the second, likewise."""
    if type(is_first) is not Symbolic:
        return x if is_first else y
    return x if is_same(x, y) else call(choosing, is_first, x, y)


def least(x: Any, y: Any) -> Any:
    """The lesser of two integers: no guard tells which, where they are symbolic."""
    return call(min, x, y)


def most(x: Any, y: Any) -> Any:
    """The greater of two integers, likewise."""
    trace = trace_of((x, y))
    if trace is not None:
        low, high = trace.bounds(forms.total(form_of(x), form_of(y), -1))
        if low >= 0 or high <= 0:
            return x if low >= 0 else y
    return call(max, x, y)


def gcd(*integers: Any) -> int:
    """The greatest common divisor, as an int: a guard says that it is this one.

    None is left where one of them is it, and the others are multiples of it.
    """
    divisor = call(math.gcd, *integers)
    if type(divisor) is not Symbolic:
        return int(divisor)
    value = divisor.value
    divided = all(c % value == 0 for x in integers for _, c in form_of(x))
    if divided and any(type(x) is not Symbolic and x == value for x in integers):
        return value
    return int(divisor)
