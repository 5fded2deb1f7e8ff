"""The contract of an op, and the decorator that registers it.

An op is a frozen dataclass: its fields are its attributes, its methods are its rules
and the decorator's keywords are its algebra. Arrays are inputs, never fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import FrozenInstanceError, dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import numpy as np

from treadle.base.caches import Cache, cached
from treadle.base.dtypes import KINDS, DType, float32, kind
from treadle.base.errors import (
    ArgumentError,
    ArityError,
    AxisError,
    DTypeError,
    TreadleError,
)
from treadle.base.types import Names, TupleType, Type, as_integer
from treadle.graph.origin import capture, describe
from treadle.graph.table import load_ops
from treadle.graph.tensor import Tensor, new_node

RESULTS = 4096  # types of results that are known at most
# By op and types of inputs: the first such op, which knows its number, and the type.
_results: Cache[Any, tuple[Op, Any]] = Cache("types of results", RESULTS)
_type = attrgetter("type")
# What attributes hold, by their annotations, and what tells it.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "int": ("a whole number", lambda x: as_integer(x) is not None),
    "int | None": ("a whole number", lambda x: x is None or as_integer(x) is not None),
    "bool": ("True or False", lambda x: isinstance(x, (bool, int, np.bool_))),
    "str": ("a text", lambda x: isinstance(x, str)),
}

Array = np.ndarray[Any, Any]
Cotangents = tuple[Tensor | None, ...]
FLAT: Any = object()  # the cotangent of an input of which the derivative is 0


@dataclass(frozen=True)
class Traits:
    """Algebraic properties of an op, so that one rule can serve many ops."""

    primitive: bool = False  # known to code generators by itself
    commutative: bool = False
    linear: bool = False  # in all inputs together
    idempotent: bool = False  # f(f(x)) = f(x)
    involution: bool = False  # f(f(x)) = x
    differentiable: bool = True
    effect: str = ""  # "each": seen each time it is written, "once": equal ones once
    repeatable: bool = True  # done again, it comes to the same
    widened: bool = True  # computed in float32 where it takes 16-bit floats
    waits: bool = False  # for others: it is begun, and ended in a later step
    identity: float | None = None  # f(x, identity) = x
    absorbing: float | None = None  # f(x, absorbing) = absorbing
    tolerance: str = ""  # "E" exact, "U" ulp bound, "R" rounding bound by length


class _Frozen:
    """Attributes are set while an object is made, and never again."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


_base: Any = dataclass(frozen=True, repr=False, eq=False)  # type checkers see `op`


@_base
class Op(_Frozen):
    """The contract of an op; families fill in what their members share.

    A rule may name its operands, `vjp(self, g, y, a, b)`: `**_` is for type checkers.
    """

    __slots__ = ("_number",)  # graph/numbers.py
    traits: ClassVar[Traits] = Traits()
    family: ClassVar[str] = "abstract"
    arity: ClassVar[int | None] = None  # None: any number of inputs
    takes: ClassVar[str] = "any"  # the kinds of dtype it takes, a key of KINDS
    closed: ClassVar[bool] = False  # its fields are plain data, and lead to no node

    def infer(self, *types: Any, **_: Any) -> Type | TupleType:
        """Type of the result, by types and attributes alone; raises a TreadleError."""
        raise NotImplementedError

    def numpy(self, *arrays: Any, **_: Any) -> Any:
        """The meaning, on NumPy arrays (a tuple of them for several results)."""
        raise NotImplementedError

    def begin(self, *arrays: Any) -> Callable[[], Any]:
        """Begin to compute an op that waits: what ends it, and returns the result. The
        arrays may be written over meanwhile."""
        raise NotImplementedError

    def vjp(self, g: Any, y: Any, *xs: Any, **_: Any) -> Cotangents:
        """Cotangent of each input, as a graph; None where nothing depends.

        FLAT is a zero that costs nothing: what it is passed on to is reached by it.
        """
        raise NotImplementedError

    def rows(self, has_rows: Sequence[bool], *xs: Any, **_: Any) -> Tensor | None:
        """The op done for each of n rows, as a graph; None where there is no rule.

        The inputs marked in `has_rows`, at least one, have a leading dimension of n
        more than the op takes, as each result has; rows share the others. None has
        names.
        """
        return None

    # -- given ---------------------------------------------------------------------

    def __getstate__(self) -> Any:  # its number is this process's
        return getattr(self, "__dict__", None)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The node of this op on these inputs."""
        key = (self, *map(_type, inputs)) if self.closed else None
        try:
            known = _results.get(key)
        except TypeError:  # an attribute has no hash
            known = None
        if known is None:
            try:
                if key is not None:
                    self.check_attributes()
                self.check(inputs)
                type_: Any = self.infer(*[x.type for x in inputs])
            except TreadleError as error:
                operands = ", ".join(repr(x.type) for x in inputs)
                raise error.located(self.name, operands, describe(capture())) from None
            known = self, type_
            if key is not None:
                _results[key] = known
        return new_node(known[0], inputs, known[1], 3)  # of equal ops the first one

    def check_attributes(self) -> None:
        """That attributes which are whole numbers, truth values or texts are such."""
        for f in fields(self):  # type: ignore[arg-type]
            known = _KINDS.get(str(f.type))
            value = getattr(self, f.name)
            if known is not None and not known[1](value):
                raise ArgumentError(f"{f.name} is {known[0]}, not {value!r}")

    def check(self, inputs: Sequence[Tensor]) -> None:
        """Number and dtype kinds of the inputs, before `infer` sees them."""
        if self.arity is not None and len(inputs) != self.arity:
            raise ArityError(f"takes {self.arity} operands, got {len(inputs)}")
        if self.takes != "any":
            taken = KINDS[self.takes]
            for x in inputs:
                if kind(x.type.dtype) not in taken:
                    known = " or ".join(sorted(KINDS[self.takes]))
                    raise DTypeError(
                        f"takes {known} operands, not {x.type.dtype.name}",
                        hint="convert with x.astype(...)",
                    )

    def unnamed(self) -> Op:
        """The op that does the same and gives no axis names."""
        return self

    @property
    def name(self) -> str:
        """The name of the op in text: its class name."""
        return type(self).__name__

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """The fields by name, in order."""
        for f in fields(self):  # type: ignore[arg-type]
            yield f.name, getattr(self, f.name)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.attributes())})"


@dataclass(frozen=True)
class Input:
    """A random input of an op: shape, dtype and the range its values lie in.

    `apart` keeps values at least that far from 0 and from each other, away from kinks.
    """

    shape: tuple[int, ...] = (2, 3)
    dtype: DType = float32
    low: float = -2.0
    high: float = 2.0
    apart: float = 0.0


class Registry(dict[str, "type[Op]"]):
    """The ops by name; for one that is missing, the modules of all are loaded."""

    def __missing__(self, name: str) -> type[Op]:
        return dict(self.whole())[name]

    def whole(self) -> Registry:
        """The registry with all ops of the library."""
        load_ops()
        return self


registry = Registry()
C = TypeVar("C", bound=type[Op])
Made = TypeVar("Made", bound=Op)


@dataclass_transform(frozen_default=True)
def op(**traits: Any) -> Callable[[C], C]:
    """Make a class an op: a frozen dataclass with these traits, in the registry."""

    def register(cls: C) -> C:
        op_class: Any = cls
        if fields(op_class) or "__annotations__" in vars(
            cls
        ):  # making it one takes long
            op_class = dataclass(frozen=True, repr=False, eq=False)(cls)
        inherited = {k: getattr(cls.traits, k) for k in Traits.__dataclass_fields__}
        op_class.traits = Traits(**{**inherited, **traits})
        if "closed" not in vars(cls):
            op_class.closed = all(_is_plain(f.type) for f in fields(op_class))
        if not fields(op_class):  # there is one of them
            only = object.__new__(op_class)
            op_class.__new__ = lambda cls: (
                only if cls is op_class else object.__new__(cls)
            )
            op_class.__init__ = object.__init__
            op_class.__hash__, op_class.__eq__ = object.__hash__, object.__eq__
        else:
            _compare_by_fields(op_class)
        # A module whose import was interrupted is executed once more.
        before = registry.get(cls.__name__, cls)
        if before.__module__ != cls.__module__:
            raise TreadleError(f"two ops are named {cls.__name__!r}")
        registry[cls.__name__] = op_class
        return cast(C, op_class)

    return register


@dataclass_transform(frozen_default=True)
def family(cls: C) -> C:
    """Make a class a family whose fields its ops have, before their own."""
    return _base(cls)


def _compare_by_fields(op_class: Any) -> None:
    """Objects of a class are equal, and hashed, by their fields; dataclasses write and
    compile functions for that.
    """
    names = [f.name for f in fields(op_class)]
    known: Any = attrgetter(*names, *names[:1])  # of two and more it makes a tuple
    op_class.__hash__ = lambda self: hash(known(self))
    op_class.__eq__ = lambda self, other: (
        known(self) == known(other) if type(other) is type(self) else NotImplemented
    )


_PLAIN = frozenset(
    ["int", "str", "bool", "float", "tuple", "frozenset", "None", "DType"]
)
_PLAIN |= {"Axes", "Integers", "Names", "Pairs", "Shape", "Type", "Widths"}


def _is_plain(annotation: Any) -> bool:
    """Return True if what is annotated so is plain data."""
    return _PLAIN.issuperset(re.findall(r"\w+", str(annotation)))


@cached(4096, typed=True)
def shared(kind: type[Made], *attributes: Any) -> Made:
    """The op of a class with these attributes: one object for all that are equal.

    Looking at a graph of thousands of nodes, each different object is looked at.
    """
    return kind(*attributes)


def matched(
    operands: Sequence[tuple[Type, Sequence[str]]], result: Sequence[str]
) -> Names | None:
    """The names of a result by the parts that dimensions play: ("n", "c"), say.

    What plays one part in several operands has one name; in the result, no name stands
    twice.
    """
    if all(t.axes is None for t, _ in operands):
        return None
    by_part: dict[str, str] = {}
    for t, parts in operands:
        for part, name in zip(parts, t.axes or (), strict=False):
            if name is not None and by_part.setdefault(part, name) != name:
                raise AxisError(
                    f"{part!r} is axis {by_part[part]!r} and axis {name!r}",
                    hint="what plays one part has one name: td.rename_axes(x, old="
                    "'new'), or td.unname(x)",
                )
    names = tuple(by_part.get(part) for part in result)
    known = [name for name in names if name is not None]
    if len(set(known)) < len(known):
        raise AxisError(
            f"the result would have axes {', '.join(known)}, one of them twice",
            hint="rename an axis with td.rename_axes, or sum over it with td.dot",
        )
    return names if known else None


@cached(64)
def leading(ndim: int) -> tuple[str, ...]:
    """The parts of leading dimensions that broadcast: counted from the last one."""
    return tuple(f"leading dimension {k - ndim}" for k in range(ndim))


def common_axes(types: Sequence[Type], ndim: int) -> Names | None:
    """The axis names of operands that broadcast by position, checked to agree."""
    if all(t.axes is None for t in types):
        return None
    names: list[str | None] = [None] * ndim
    for t in types:
        if t.axes is None:
            continue
        for k, name in enumerate(t.axes, ndim - len(t.shape)):
            if name is None:
                continue
            if names[k] not in (None, name):
                raise AxisError(f"dimension {k} is named {names[k]!r} and {name!r}")
            if name in names[:k] + names[k + 1 :]:
                raise AxisError(f"axis {name!r} stands in two dimensions")
            names[k] = name
    return tuple(names)
