"""A program for any number of rows, from programs for three numbers.

Extents are arguments of kernels: two programs for different numbers of rows differ in
integers alone, and these grow evenly with the rows. What does not is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from treadle.base.types import Type
from treadle.loops.kernel import Kernel
from treadle.program.program import Launch, Program

__all__ = ["fitted"]

Maker = Callable[[int], Any]


class _Uneven(Exception):
    """Something that does not grow evenly with the rows."""


def fitted(programs: dict[int, Program]) -> Callable[[int], Program] | None:
    """The program by the number of rows, from three; None if there is no law."""
    low, middle, high = sorted(programs)
    first, check, last = (_bare(programs[n]) for n in (low, middle, high))
    try:
        make = _fit(first, last, low, high)
    except _Uneven:
        return None
    return make if _same(make(middle), check) else None


def _bare(program: Program) -> Program:
    """A program whose results are known by their order."""
    results = tuple((k, n, t) for k, (_, n, t) in enumerate(program.results))
    return replace(program, results=results)


def _fit(x: Any, y: Any, low: int, high: int) -> Maker:
    """What x is at `low` and y at `high`, at any number between."""
    if type(x) is not type(y):
        raise _Uneven
    if isinstance(x, int) and not isinstance(x, bool):
        return _number(x, y, low, high)
    if isinstance(x, np.ndarray):
        if x.shape != y.shape or x.dtype != y.dtype or x.tobytes() != y.tobytes():
            raise _Uneven
        return lambda n: x
    if isinstance(x, tuple):
        if len(x) != len(y):
            raise _Uneven
        parts = [_fit(a, b, low, high) for a, b in zip(x, y, strict=True)]
        return lambda n: tuple([part(n) for part in parts])
    if isinstance(x, Type):
        shape = _fit(x.shape, y.shape, low, high)
        return lambda n: Type(shape(n), x.dtype, x.axes)
    if is_dataclass(x) and not isinstance(x, Kernel):
        kind: Any = type(x)
        launch = isinstance(x, Launch)  # whose grain is no part of the law
        names = [f.name for f in fields(x) if not (launch and f.name == "grain")]
        own = {k: _fit(getattr(x, k), getattr(y, k), low, high) for k in names}
        if isinstance(x, Launch):
            own["grain"] = _grain(x, y, own["total"])
        return lambda n: kind(**{k: part(n) for k, part in own.items()})
    if x != y:
        raise _Uneven
    return lambda n: x


def _number(x: int, y: int, low: int, high: int) -> Maker:
    slope, rest = divmod(y - x, high - low)
    if rest:
        raise _Uneven
    start = x - slope * low
    return lambda n: start + slope * n


def _grain(x: Launch, y: Launch, total: Maker) -> Maker:
    """How steps are cut does not change what they do: as the larger one is."""
    whole = y.grain >= y.total
    return total if whole else lambda n: y.grain


def _same(x: Any, y: Any) -> bool:
    """Whether two programs are the same, but for how their steps are cut."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return bool(x.dtype == y.dtype and np.array_equal(x, y))
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if is_dataclass(x) and not isinstance(x, (Kernel, Type)):
        names = [f.name for f in fields(x) if f.name != "grain"]
        return all(_same(getattr(x, k), getattr(y, k)) for k in names)
    return bool(x == y)
