"""What two programs have in common where only integers differ, for numbers between.

Extents are arguments of kernels: programs of one graph for two sizes differ in integers
that grow evenly with the size. A literal may come from a size too, as the divisor of a
mean does; then it is the size, or one over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.dtypes import DType
from treadle.base.types import Type
from treadle.loops.index import Axis, Datum, Index, Parameter, Quotient, Remainder
from treadle.loops.kernel import Kernel, Literal
from treadle.loops.parameters import bits_of, value_of
from treadle.program.program import PART, SMALL, About, Launch, Program

__all__ = ["ProgramLaw", "Uneven", "fit", "same"]

Maker = Callable[[int], Any]


class Uneven(Exception):
    """Something that does not grow evenly."""


class ProgramLaw:
    """Programs by a number: that of the highest of three, with other integers.

    The least and the highest decide; the one between must be as they foretell.
    """

    def __init__(self, made: Mapping[int, Program]) -> None:
        """`made` has the programs by number; raises Uneven."""
        low, middle, high = sorted(made)
        first, self.like = made[low], made[high]
        if _shape(first) != _shape(self.like):
            raise Uneven
        names = [f.name for f in fields(Program) if f.compare]
        pairs = [(k, getattr(first, k), getattr(self.like, k)) for k in names]
        self.parts = {k: _moving(a, b, low, high) for k, a, b in pairs}
        about = zip(first.about, self.like.about, strict=True)
        self.about = [_rising(a.flops, b.flops, low, high) for a, b in about]
        if not same(self.at(middle), made[middle]):
            raise Uneven

    def at(self, n: int) -> Program:
        """The program for a number between the least and the highest."""
        like = self.like
        changed: dict[str, Any] = {}
        for name, makers in self.parts.items():
            if makers:
                changed[name] = _moved(getattr(like, name), makers, n)
        about = zip(like.about, self.about, strict=True)
        changed["about"] = tuple([About(a.origins, flops(n)) for a, flops in about])
        return replace(like, **changed)


def _shape(x: Program) -> tuple[int, ...]:
    """How many parts of each kind a program has."""
    return tuple([len(getattr(x, f.name)) for f in fields(Program)])


def _rising(x: int, y: int, low: int, high: int) -> Maker:
    """A number of operations, roughly."""
    return lambda n: x + (y - x) * (n - low) // (high - low)


def fit(x: Any, y: Any, low: int, high: int) -> Maker:
    """What x is at `low` and y at `high`, at any number between; raises Uneven."""
    if type(x) is not type(y):
        raise Uneven
    if same(x, y, exactly=True):
        return lambda n: y
    if isinstance(x, int) and not isinstance(x, bool):
        slope, rest = divmod(y - x, high - low)
        if rest:
            raise Uneven
        return lambda n: x + slope * (n - low)
    if isinstance(x, tuple):
        if len(x) != len(y):
            raise Uneven
        moving = _moving(x, y, low, high)
        return lambda n: _moved(y, moving, n)
    if isinstance(x, Type):
        shape = fit(x.shape, y.shape, low, high)
        return lambda n: Type(shape(n), x.dtype, x.axes)
    if isinstance(x, Launch):
        return _launch(x, y, low, high)
    if is_dataclass(x) and not isinstance(x, Kernel):
        names = [f.name for f in fields(x) if f.compare]
        pairs = [(k, getattr(x, k), getattr(y, k)) for k in names]
        own = {
            k: fit(a, b, low, high) for k, a, b in pairs if not same(a, b, exactly=True)
        }
        like: Any = y
        return lambda n: replace(like, **{k: part(n) for k, part in own.items()})
    if isinstance(x, np.ndarray) and len(x.shape) == 1:
        return _counted(x, y, low, high)
    if not same(x, y):
        raise Uneven
    return lambda n: y


def _moving(
    x: Sequence[Any], y: Sequence[Any], low: int, high: int
) -> list[tuple[int, Maker]]:
    """Those of some values that are not the same at both ends."""
    return [
        (k, fit(a, b, low, high))
        for k, (a, b) in enumerate(zip(x, y, strict=True))
        if not same(a, b, exactly=True)
    ]


def _moved(
    like: Sequence[Any], moving: Sequence[tuple[int, Maker]], n: int
) -> tuple[Any, ...]:
    """The values at a number: those of `like` where they stay."""
    own = list(like)
    for k, make in moving:
        own[k] = make(n)
    return tuple(own)


def _counted(x: Any, y: Any, low: int, high: int) -> Maker:
    """Integers that count up from one number, as many as there are."""
    if x.dtype.kind != "i" or x.dtype != y.dtype or not min(x.size, y.size):
        raise Uneven
    first = int(x[0])

    def counting(count: int) -> Any:
        return np.arange(first, first + count, dtype=x.dtype)

    if not all(np.array_equal(own, counting(own.size)) for own in (x, y)):
        raise Uneven
    size = fit(x.size, y.size, low, high)
    return lambda n: counting(size(n))


def _launch(x: Launch, y: Launch, low: int, high: int) -> Maker:
    if len(x.integers) != len(y.integers) or not _equal(x.kernel, y.kernel):
        raise Uneven
    if not same((x.buffers, x.written, x.copies), (y.buffers, y.written, y.copies)):
        raise Uneven
    total = fit(x.total, y.total, low, high)
    literals = _literals(y.kernel)
    moving = [
        (
            k,
            _number(a, b, low, high, literals[k])
            if k in literals
            else fit(a, b, low, high),
        )
        for k, (a, b) in enumerate(zip(x.integers, y.integers, strict=True))
        if a != b
    ]
    if any(x.integers[k] != y.integers[k] for k in _divided(y.kernel)):
        raise Uneven  # for another number the division may leave no rest

    def make(n: int) -> Launch:
        own = total(n)
        integers = _moved(y.integers, moving, n)
        sizes = own, _grain(own, y)
        return Launch(y.kernel, integers, y.buffers, y.written, *sizes, y.copies)

    return make


def _equal(x: Kernel, y: Kernel) -> bool:
    """Whether two kernels are equal but for what they are called."""
    return x is y or replace(x, name="") == replace(y, name="")


def _grain(total: int, like: Launch) -> int:
    """How many items are one part. This changes no value."""
    if like.grain < like.total and total * PART > SMALL * like.grain:
        return like.grain
    return max(total, 1) if like.total else like.grain


@cached(1024)
def _literals(kernel: Kernel) -> dict[int, DType]:
    """The slots of a kernel that hold floats, with their dtypes."""
    return {
        x.value.slot: x.dtype
        for x in kernel.expressions
        if isinstance(x, Literal)
        and isinstance(x.value, Parameter)
        and x.dtype.kind != "i"
    }


@cached(1024)
def _divided(kernel: Kernel) -> frozenset[int]:
    """The slots of a kernel that stand in divisions of its indices."""
    found: set[int] = set()
    stack: list[Any] = [atom for i in kernel.indices for atom, _ in i.terms]
    stack = [x for x in stack if isinstance(x, (Quotient, Remainder))]
    while stack:
        x = stack.pop()
        if isinstance(x, Parameter):
            found.add(x.slot)
        elif isinstance(x, (Quotient, Remainder)):
            stack += [x.index, x.divisor]
        elif isinstance(x, Index):
            stack += [x.constant, *(part for term in x.terms for part in term)]
        elif isinstance(x, (Axis, Datum)):
            stack.append(x.extent)
    return frozenset(found)


def _number(x: int, y: int, low: int, high: int, dtype: DType) -> Maker:
    """A literal that is a size, or one over it."""
    a, b = value_of(x), value_of(y)
    for turned in (False, True):
        sizes = [1 / v if turned and v else v for v in (a, b)]
        if not all(np.isfinite(sizes)) or (turned and a * b <= 0):
            continue
        size = fit(round(sizes[0]), round(sizes[1]), low, high)

        def make(n: int, turned: bool = turned, size: Maker = size) -> int:
            value = 1 / size(n) if turned else size(n)
            return bits_of(float(np.asarray(value, dtype)))

        if (make(low), make(high)) == (x, y):
            return make
    raise Uneven


def same(x: Any, y: Any, exactly: bool = False) -> bool:
    """Whether two parts of programs are the same, but for how their steps are cut.

    `exactly`: and for what people are told.
    """
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    if isinstance(x, tuple):
        if len(x) != len(y):
            return False
        return all(same(a, b, exactly) for a, b in zip(x, y, strict=True))
    if isinstance(x, Kernel):
        return _equal(x, y)
    if is_dataclass(x) and not isinstance(x, Type):
        names = [f.name for f in fields(x) if f.compare]
        if not exactly:
            names = [name for name in names if name != "grain"]
        return all(same(getattr(x, k), getattr(y, k), exactly) for k in names)
    return bool(x == y)
