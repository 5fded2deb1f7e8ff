"""Values that hold symbolic integers, as functions of the values of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from operator import itemgetter
from typing import Any

from treadle.base.symbolic import Symbolic, SymbolicNumber
from treadle.base.types import Type
from treadle.graph.body import Body, bodies
from treadle.loops.kernel import Kernel
from treadle.program.program import Fallback

Values = Sequence[Any]
Maker = Callable[[Values], Any]


class Unsized(Exception):
    """Something that cannot be said as a function of sizes."""


class Slots:
    """The symbolic integers (and numbers) that are read, each once."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}
        self.wanted: list[Any] = []

    def place(self, x: Symbolic | SymbolicNumber) -> int:
        """The slot of a symbolic value."""
        key = x.form if type(x) is Symbolic else ("number", x)
        if key not in self._places:
            self._places[key] = len(self.wanted)
            self.wanted.append(x)
        return self._places[key]


def maker(x: Any, slots: Slots) -> Maker | None:
    """The maker of a value for other sizes; None where it is the same for all.

    Kernels have no sizes. Raises Unsized.
    """
    if type(x) in (Symbolic, SymbolicNumber):
        return itemgetter(slots.place(x))
    if isinstance(x, tuple):
        return _tuple(x, slots)
    if type(x) is Type:
        shape, dtype, axes = maker(x.shape, slots), x.dtype, x.axes
        return shape and (lambda v: Type(shape(v), dtype, axes))
    if isinstance(x, Body):
        types = maker(x.types, slots)
        return types and (lambda v: x.resized(types(v)))
    if isinstance(x, Fallback) and bodies(x.op) and not x.bodies:
        raise Unsized  # its rule goes through the body node by node
    if is_dataclass(x) and not isinstance(x, Kernel):
        return _record(x, slots)
    return None


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


def _record(x: Any, slots: Slots) -> Maker | None:
    """A frozen dataclass, whose fields are its arguments."""
    names = [f.name for f in fields(x) if f.init]
    values = [getattr(x, name) for name in names]
    makers = [(k, build) for k, y in enumerate(values) if (build := maker(y, slots))]
    if not makers:
        return None
    record = type(x)

    def make(v: Values) -> Any:
        arguments = values.copy()
        for k, part in makers:
            arguments[k] = part(v)
        return record(**dict(zip(names, arguments, strict=True)))

    return make
