"""Values that hold symbolic integers, as functions of the values of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from operator import itemgetter
from typing import Any

from treadle.base.caches import cached
from treadle.base.symbolic import Symbolic, SymbolicNumber, SymbolicTrace, compiled
from treadle.base.types import Type
from treadle.graph.body import Body

Values = Sequence[Any]
Maker = Callable[[Values], Any]

# What makers of objects of a class are made by; None where no size is in them.
MAKERS: dict[type, Callable[[Any, Slots], Maker | None] | None] = {}


class Unsized(Exception):
    """Something that cannot be said as a function of sizes."""


class Slots:
    """The symbolic integers (and numbers) that are read, each once."""

    def __init__(self, wanted: Sequence[Any] = ()) -> None:
        """With some from the beginning."""
        self._places: dict[Any, int] = {}
        self.wanted: list[Any] = []
        for x in wanted:
            self.place(x)
        # Of values met before, which are kept alive: types, most of all, come again.
        self.makers: dict[int, tuple[Any, Maker | None]] = {}

    def place(self, x: Symbolic | SymbolicNumber) -> int:
        """The slot of a symbolic value."""
        key = x.form if type(x) is Symbolic else ("number", x)
        if key not in self._places:
            self._places[key] = len(self.wanted)
            self.wanted.append(x)
        return self._places[key]


def maker(x: Any, slots: Slots) -> Maker | None:
    """The maker of a value for other sizes; None where it is the same for all.

    Raises Unsized.
    """
    kind: Any = type(x)
    make = _maker_of(kind)
    if make is None:
        return None
    known = slots.makers.get(id(x))
    if known is None:
        known = slots.makers[id(x)] = x, make(x, slots)
    return known[1]


@cached(1024)
def _maker_of(kind: type) -> Callable[[Any, Slots], Maker | None] | None:
    """The function that makes makers of objects of a class."""
    base = next((c for c in kind.__mro__ if c in MAKERS), None)
    return MAKERS[base] if base else record if is_dataclass(kind) else None


class Polymorphic:
    """Something for all sizes that its guards admit: a plan, or a program with kernels
    of its own first ones."""

    def __init__(
        self, trace: SymbolicTrace, inputs: Sequence[Any], *parts: Any
    ) -> None:
        """The `parts` were made in a trace, which ends here, of some `inputs`. Raises
        Unsized."""
        slots = Slots()
        self._parts = parts
        self._make = maker(parts, slots)
        trace.open = False
        self._values = compiled(trace, slots.wanted, inputs=inputs)

    def at(self, sizes: Sequence[int]) -> Any:
        """The parts for some sizes; None if a guard does not hold."""
        values = self._values(sizes)
        if values is None:
            return None
        return self._make(values) if self._make else self._parts


def _number(x: Symbolic | SymbolicNumber, slots: Slots) -> Maker:
    return itemgetter(slots.place(x))


def _type(x: Type, slots: Slots) -> Maker | None:
    shape: tuple[Any, ...] = x.shape
    dtype, axes = x.dtype, x.axes
    pairs = [(k, slots.place(n)) for k, n in enumerate(shape) if type(n) is Symbolic]

    def make(v: Values) -> Type:
        extents = list(shape)
        for k, place in pairs:
            extents[k] = v[place]
        return Type(tuple(extents), dtype, axes)

    return make if pairs else None


def _body(x: Body, slots: Slots) -> Maker | None:
    types = maker(x.types, slots)
    return types and (lambda v: x.resized(types(v)))


def _tuple(x: tuple[Any, ...], slots: Slots) -> Maker | None:
    makers = [(k, build) for k, part in enumerate(x) if (build := maker(part, slots))]
    if not makers:
        return None
    join = type(x)._make if hasattr(x, "_make") else type(x)

    def make(v: Values) -> Any:
        parts = list(x)
        for k, part in makers:
            parts[k] = part(v)
        return join(parts)

    return make


def record(x: Any, slots: Slots) -> Maker | None:
    """A frozen dataclass, whose fields are its arguments."""
    record: Any = type(x)
    names = arguments_of(record)
    values = [getattr(x, name) for name in names]
    makers = [(k, build) for k, y in enumerate(values) if (build := maker(y, slots))]
    if not makers:
        return None

    def make(v: Values) -> Any:
        arguments = values.copy()
        for k, part in makers:
            arguments[k] = part(v)
        return record(**dict(zip(names, arguments, strict=True)))

    return make


MAKERS |= {Symbolic: _number, SymbolicNumber: _number}
MAKERS |= {tuple: _tuple, Type: _type, Body: _body}


@cached(1024)
def arguments_of(record: type) -> tuple[str, ...]:
    """The arguments that an object of a dataclass is made from."""
    return tuple([f.name for f in fields(record) if f.init])
