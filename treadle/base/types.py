"""The type of a tensor: shape, dtype and axis names, and arithmetic on shapes."""

from __future__ import annotations

import math
import operator
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from treadle.base.dtypes import OWN, DType
from treadle.base.errors import ArgumentError, AxisError, CallError, ShapeError
from treadle.base.locks import lock
from treadle.base.symbolic import Symbolic, is_same, whole
from treadle.core import native

__all__ = [
    "Axis",
    "broadcast_shapes",
    "equal_shapes",
]

Shape = tuple[int, ...]
Names = tuple[str | None, ...]


@dataclass(frozen=True)
class Axis:
    """A named dimension; tensors that share a name align by it.

    >>> Axis("batch", 32)
    Axis(name='batch', length=32)
    """

    name: str
    length: int


class Type:
    """Shape, dtype and the names of the axes (None where no dimension has one).

    Equal types are one object, so that `is` compares them.

    >>> from treadle.base.dtypes import float32
    >>> Type((2, 3), float32)
    float32[2, 3]
    >>> Type((2, 3), float32) is Type((2, 3), float32)
    True
    """

    __slots__ = ("__weakref__", "_number", "axes", "dtype", "nbytes", "shape", "size")
    shape: Shape
    dtype: DType
    axes: Names | None
    size: int  # elements
    nbytes: int
    _number: int  # graph/numbers.py

    def __new__(cls, shape: Shape, dtype: DType, axes: Names | None = None) -> Type:
        known = _types.get((shape, dtype, axes))
        type_ = known() if known is not None else None
        return type_ if type_ is not None else _made(shape, dtype, axes)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: Shape, axes: Names | None = None) -> Type:
        return Type(shape, self.dtype, axes)

    def with_dtype(self, dtype: DType) -> Type:
        return self if dtype == self.dtype else Type(self.shape, dtype, self.axes)

    def __reduce__(self) -> Any:
        return Type, (self.shape, self.dtype, self.axes)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """The refusal of torch's x.type(dtype), by its name here."""
        hint = "x.type is shape, dtype and axes; in another dtype it is x.astype(dtype)"
        raise CallError(f"the type {self} is no function", hint=hint)

    def __repr__(self) -> str:
        names = self.axes or (None,) * len(self.shape)
        parts = [
            f"{name}={n}" if name else str(n)
            for name, n in zip(names, self.shape, strict=True)
        ]
        return f"{self.dtype.name}[{', '.join(parts)}]"


# The types that are in use, by what they are made of.
_types: dict[Any, _Known] = {}
_gone: deque[_Known] = deque()  # types that died: no Python runs where one does
_lock = lock()


if native is not None:
    native.bind_types(_types)


class _Known(weakref.ref["Type"]):
    """A type, by what it is made of."""

    __slots__ = ("key",)

    key: Any


def _made(shape: Shape, dtype: DType, axes: Names | None) -> Type:
    """The type of a shape, a dtype and names, for the first time or again."""
    key = shape, dtype, axes
    with _lock:
        if _gone:
            _forget()
        known = _types.get(key)
        type_ = known() if known is not None else None
        if type_ is None:
            type_ = object.__new__(Type)
            type_.shape = _bounded(tuple(map(whole, shape)))
            type_.dtype, type_.axes = OWN.get(dtype, dtype), axes
            type_.size = math.prod(type_.shape)
            type_.nbytes = type_.size * type_.dtype.itemsize
            known = _Known(type_, _gone.append)
            known.key = key
            _types[key] = known
        return type_


def _forget() -> None:
    """Forget the types that died."""
    with suppress(IndexError):  # a signal handler takes the last
        while _gone:
            dead = _gone.popleft()
            if _types.get(dead.key) is dead:
                _types.pop(dead.key, None)


class TupleType(tuple[Type, ...]):
    """The type of an op with several results; `Output(k)` selects one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self))})"


def has_names(t: Type | TupleType) -> bool:
    """Whether a dimension has a name."""
    if isinstance(t, TupleType):
        return any(x.axes is not None for x in t)
    return t.axes is not None


def without_names(t: Any) -> Any:
    """The type (or types) without axis names.

    >>> from treadle.base.dtypes import float32
    >>> without_names(Type((2, 3), float32, ("n", "c")))
    float32[2, 3]
    """
    if not has_names(t):
        return t
    if isinstance(t, TupleType):
        return TupleType(map(without_names, t))
    return Type(t.shape, t.dtype)


def as_integer(value: Any) -> int | None:
    """A whole number as an int; None of anything else, truth values included.

    >>> as_integer(3), as_integer(2.0), as_integer(True)
    (3, None, None)
    """
    if type(value) is int or type(value) is Symbolic:
        return cast(int, value)
    if isinstance(value, type) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def as_integers(value: Any) -> tuple[int, ...] | None:
    """A whole number, or several, as a tuple; None of anything else.

    >>> as_integers(3), as_integers([2, 3]), as_integers(["a"])
    ((3,), (2, 3), None)
    """
    if not isinstance(value, (tuple, list)):
        one = as_integer(value)
        if one is not None:
            return (one,)
    items = as_items(value)
    integers = [as_integer(n) for n in items] if items is not None else [None]
    whole = tuple([n for n in integers if n is not None])
    return whole if len(whole) == len(integers) else None


def as_items(values: Any) -> tuple[Any, ...] | None:
    """The items of a tuple, a list or another sequence; None of what is none."""
    if isinstance(values, (str, bytes, Mapping, type)):
        return None
    try:
        return tuple(values)
    except (TypeError, ValueError):
        return None


def as_shape(shape: Any) -> Shape:
    """A shape from an integer or a sequence of non-negative integers.

    >>> as_shape(3), as_shape([2, 3])
    ((3,), (2, 3))
    """
    extents = as_integers(shape)
    if extents is None:
        raise ShapeError(f"a shape holds integers, not {shape!r}")
    if any(n < 0 for n in extents):
        raise ShapeError(f"a shape holds no negative extents, got {extents}")
    return _bounded(extents)


def _bounded(extents: Shape) -> Shape:
    """Extents that are integers of 64 bits, as all code and all libraries have them."""
    if any(type(n) is int and n >= 1 << 63 for n in extents):
        raise ShapeError(f"no extent is as large as in {extents}")
    return extents


def equal_shapes(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal for all sizes: no guard tells of those that are by
    chance, and none of shapes of different ranks, whose extents tuples compare first.

    >>> equal_shapes((2, 3), (2, 3)), equal_shapes((2, 3), (2, 3, 1))
    (True, False)
    """
    return a is b or (len(a) == len(b) and all(map(is_same, a, b)))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting rule.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for k, n in enumerate(reversed(shape), 1):
            if n == 1 or n == result[-k]:
                continue
            if result[-k] != 1:
                raise ShapeError(
                    f"shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"dimension {-k} is {result[-k]} and {n}",
                    hint="extents must be equal or 1, counted from the last dimension",
                )
            result[-k] = n
    return tuple(result)


def normalize_axis(axis: Any, ndim: int, names: Names | None = None) -> int:
    """An axis counted from the front; `names` are told where it is out of range.

    >>> normalize_axis(-1, 3)
    2
    """
    position = as_integer(axis)
    if position is None:
        raise AxisError(f"an axis is an integer or a name, not {axis!r}")
    if not -ndim <= position < ndim:
        which = f" ({', '.join(map(str, names))})" if names else ""
        raise AxisError(
            f"axis {position} is out of range for {ndim} dimension"
            f"{'' if ndim == 1 else 's'}{which}"
        )
    return position % ndim


def normalize_axes(axes: Any, type_: Type) -> tuple[int, ...]:
    """Positions from None (all), an integer, a name, an Axis, or several of them."""
    if axes is None:
        return tuple(range(type_.ndim))
    items: Iterable[Any] = axes if isinstance(axes, (tuple, list)) else (axes,)
    positions = tuple(resolve_axis(axis, type_) for axis in items)
    if len(set(positions)) != len(positions):
        which = f" of {type_}" if type_.axes else ""
        raise AxisError(f"axes {tuple(axes)} name a dimension twice{which}")
    return positions


def resolve_axis(axis: Any, type_: Type) -> int:
    """The position of an integer, a name or an Axis in a type."""
    if isinstance(axis, Axis):
        position = resolve_axis(axis.name, type_)
        if type_.shape[position] != axis.length:
            raise AxisError(
                f"axis {axis.name!r} has length {type_.shape[position]}, "
                f"not {axis.length}"
            )
        return position
    if isinstance(axis, str):
        if type_.axes is None or axis not in type_.axes:
            raise AxisError(f"no axis is named {axis!r} in {type_}")
        return type_.axes.index(axis)
    return normalize_axis(axis, type_.ndim, type_.axes)


def is_axis(axis: Any) -> bool:
    """Whether something names a dimension: an integer, a text or an Axis."""
    return isinstance(axis, (str, Axis)) or as_integer(axis) is not None


def as_names(axes: Sequence[Any] | None, shape: Shape) -> Names | None:
    """Axis names from Axis objects, names or None, checked against the shape."""
    if axes is None:
        return None
    if as_items(axes) is None:
        raise AxisError(f"axes are several names, not {axes!r}")
    if len(axes) != len(shape):
        raise AxisError(f"{len(axes)} axes given for {len(shape)} dimensions")
    for axis, n in zip(axes, shape, strict=True):
        if isinstance(axis, Axis) and axis.length != n:
            raise AxisError(f"axis {axis.name!r} has length {axis.length}, not {n}")
    names = tuple(axis.name if isinstance(axis, Axis) else axis for axis in axes)
    if not all(name is None or isinstance(name, str) for name in names):
        raise ArgumentError(f"axes are named by strings or Axis objects, not {names}")
    known = [name for name in names if name is not None]
    if len(set(known)) != len(known):
        raise AxisError(f"axis names {names} repeat a name")
    return names if known else None
