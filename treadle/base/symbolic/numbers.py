"""Numbers that are computed from sizes: the divisor of a mean, an array that counts."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.symbolic.integers import LEAST, Symbolic, inexact
from treadle.base.symbolic.table import NUMBER


class SymbolicNumber:
    """An array, mostly without dimensions, that was computed from sizes.

    It stands where a constant of a graph stands, and makes others. A comparison leaves
    a guard; what needs its value leaves one that the value is this one.
    """

    __slots__ = ("arguments", "function", "shape", "trace", "value")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        """What a function of arrays gives: of those of other numbers, symbolic
        integers and whatever else. Equal functions of equal ones are equal.
        """
        self.trace = next(
            x.trace for x in arguments if type(x) in (SymbolicNumber, Symbolic)
        )
        self.function, self.arguments = function, arguments
        self.value: Any = function(*map(plain, arguments))
        self.shape: tuple[Any, ...] = ()

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> Any:
        return self.size * self.dtype.itemsize

    @property
    def key(self) -> Any:
        """The key of its value: function, dtype and the keys of its arguments."""
        return self.function, self.dtype, *map(_key, self.arguments)

    def integer(self, function: Callable[..., int], *arguments: Any) -> Any:
        """A symbolic integer: a function of its array and other values."""
        value = function(self.value, *arguments)
        return self.trace.make(
            value, self.trace.atom(("number", function, self, arguments))
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if type(other) is SymbolicNumber:
            return bool(self.key == other.key)
        return bool(self.integer(_Compared("eq"), other) == 1)

    def __bool__(self) -> bool:
        return bool(self.integer(_Compared("eq"), 0) != 1)

    def __abs__(self) -> SymbolicNumber:
        return SymbolicNumber(_Operated("abs"), self)

    def __getitem__(self, place: tuple[()]) -> SymbolicNumber:
        return self

    # -- what needs the value ----------------------------------------------------------

    def item(self) -> Any:
        """The number, which it is from now on."""
        number = self.value.item()
        assert self == number or number != number, "a number is what it is"
        return number

    def tobytes(self) -> bytes:
        return np.array(self).tobytes()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.shape:
            for size in self.shape:
                int(size)
            return np.array(self.value, dtype)
        return np.array(self.item(), self.dtype if dtype is None else dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def setflags(self, write: bool) -> None:
        assert not write

    def write(self, writer: Any) -> int:
        """The number of its array in a table of sizes."""
        arguments = [writer.value(x) for x in self.arguments]
        return int(writer.call(NUMBER, self.function, arguments, self.key))


def arange(size: Any, dtype: Any = np.int64) -> Any:
    """The integers from 0 to a size, as an array; symbolic if that is."""
    return array_of(_counted, (size,), size, dtype)


def array_of(
    function: Callable[..., Any], shape: tuple[Any, ...], *arguments: Any
) -> Any:
    """The array of a shape that a function gives; symbolic if a size is.

    >>> array_of(np.eye, (2, 2), 2, 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not any(type(x) is Symbolic for x in arguments):
        return function(*arguments)
    array = SymbolicNumber(function, *arguments)
    array.shape = shape
    return array


def zeros(shape: tuple[Any, ...], dtype: Any) -> Any:
    """Zeros of a shape, as an array; symbolic if a size is."""
    return array_of(_zeros, shape, dtype, *shape)


def counted(size: Any) -> Any:
    """A size as a number that is data: it is no small number that rules look for.

    Nothing and one stay what they are: no symbol is that.
    """
    if type(size) is Symbolic:
        return SymbolicNumber(np.int64, size)
    return size if size < LEAST else np.int64(size)


def bits(array: Any) -> Any:
    """The key of an array: its bytes, or itself if symbolic."""
    return array if type(array) is SymbolicNumber else array.tobytes()


def plain(x: Any) -> Any:
    """The value of what is symbolic, without a guard; anything else as it is.

    For what changes no value and no code: what people are told, estimates.
    """
    return x.value if type(x) in (Symbolic, SymbolicNumber) else x


def _key(x: Any) -> Any:
    if type(x) is SymbolicNumber:
        return x.key
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.tobytes()
    return x


def _zeros(dtype: Any, *shape: int) -> Any:
    return np.zeros(shape, dtype)


def _counted(size: int, dtype: Any) -> Any:
    return np.arange(size, dtype=dtype)


# -- operators -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Operated:
    """An operator of Python's on numbers, as a function that gives an array."""

    name: str

    def __call__(self, *operands: Any) -> Any:
        return np.asarray(getattr(operator, self.name)(*map(_scalar, operands)))


@dataclass(frozen=True)
class _Compared:
    """A comparison of Python's, as a function that gives 0 or 1."""

    name: str

    def __call__(self, value: Any, other: Any) -> int:
        return int(getattr(operator, self.name)(_scalar(value), other))


def _scalar(x: Any) -> Any:
    return x.item() if isinstance(x, np.ndarray) else x


def _defined(name: str, *kinds: type) -> None:
    """An operator whose result may be no whole number, for these kinds of operands."""
    on = _Operated(name)
    inexact[name] = lambda x, y: SymbolicNumber(on, x, y)
    for kind in kinds:
        setattr(kind, f"__{name}__", lambda x, y: SymbolicNumber(on, x, y))
        setattr(kind, f"__r{name}__", lambda x, y: SymbolicNumber(on, y, x))


def _compared(name: str) -> None:
    on = _Compared(name)
    setattr(SymbolicNumber, f"__{name}__", lambda x, y: bool(x.integer(on, y) == 1))


for _name in ("add", "sub", "mul"):
    _defined(_name, SymbolicNumber)
_defined("truediv", SymbolicNumber, Symbolic)
for _name in ("floordiv", "mod", "lshift", "rshift", "pow", "xor", "and_", "or_"):
    _defined(_name)
for _name in ("lt", "le", "gt", "ge"):
    _compared(_name)
