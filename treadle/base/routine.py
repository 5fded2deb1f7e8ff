"""Routines: functions over numbers in memory, which an engine may compile.

A routine is written in a part of Python that has one meaning in machine code: ints of
64 bits, bools, arrays of these, records (frozen dataclasses) of all three, `if`,
`while`, `for` over a `range`, and calls of other routines. `interpreted` runs it as
Python; what an engine makes of it has the same results (`Engine.compiled`). An int that
may need more than 64 bits is cut by `&` before anything else is done with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, Protocol, TypeVar

import numpy as np

__all__ = [
    "Compile",
    "Marks",
    "Numbers",
    "interpreted",
    "is_routine",
    "mixed",
    "room",
    "routine",
]

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]

_F = TypeVar("_F", bound=Callable[..., Any])


class Compile(Protocol):
    """What makes a function that is fast out of a routine."""

    def __call__(self, routine: _F, /) -> _F: ...


def routine(function: _F) -> _F:
    """Declare a function to be a routine.

    >>> @routine
    ... def total(numbers: Numbers, count: int) -> int:
    ...     found = 0
    ...     for k in range(count):
    ...         found += numbers[k]
    ...     return found
    >>> interpreted(total)(np.arange(4), 4)
    6
    """
    function.__dict__["is_routine"] = True
    return function


def is_routine(x: object) -> bool:
    """Whether something was declared to be a routine."""
    return getattr(x, "is_routine", False) is True


def room(count: int) -> Numbers:
    """Memory for so many ints, of no particular values, until the routine returns; in
    machine code the count is a constant.
    """
    return np.zeros(count, np.int64)


_MIX = 0x1B873593CC9E2D51  # a large odd number
_LOW = (1 << 63) - 1


@routine
def mixed(code: int, word: int) -> int:
    """A hash with one more word in it, of 63 bits."""
    product = (code ^ word) * _MIX & _LOW
    return product ^ product >> 29


def interpreted(routine: _F) -> _F:
    """A routine run by Python, on the memory of the arrays it is given."""

    @wraps(routine)
    def run(*given: Any) -> Any:
        return routine(*map(_viewed, given))

    return run  # type: ignore[return-value]


def _viewed(x: Any) -> Any:
    """Arrays as views of their memory, whose elements are Python's ints and bools."""
    if isinstance(x, np.ndarray):
        return memoryview(x.reshape(-1))  # type: ignore[arg-type]
    if is_dataclass(x) and not isinstance(x, type):
        return replace(x, **{f.name: _viewed(getattr(x, f.name)) for f in fields(x)})
    return x
