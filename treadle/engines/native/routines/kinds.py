"""Of what kind a routine's values are, by its annotations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

from treadle.base.caches import cached
from treadle.base.routine import Marks, Numbers
from treadle.engines.native.routines.memory import INLINE, Array, CInt, Struct

__all__ = [
    "BOOL",
    "CINT",
    "INT",
    "NOTHING",
    "VOID",
    "Field",
    "Function",
    "Kind",
    "Pointer",
    "Record",
    "Row",
    "Several",
    "kind_of",
    "signature",
]


@dataclass(frozen=True)
class Kind:
    """What a register holds: its type in LLVM IR."""

    ir: str


@dataclass(frozen=True)
class Pointer(Kind):
    """Where something lies, or null."""

    ir: str = "ptr"


@dataclass(frozen=True)
class Row(Pointer):
    """Where elements lie, one after the other, each as its `stored` type."""

    element: Kind = Kind("i64")
    stored: str = "i64"


@dataclass(frozen=True)
class Field:
    """A field behind a pointer: from which byte on, and of what kind. It may be
    `inline`: its elements lie there; and `fixed`: it never changes.
    """

    byte: int
    kind: Kind
    inline: bool = False
    fixed: bool = False


@dataclass(frozen=True)
class Record(Pointer):
    """Where a word for each field of a dataclass lies, or the fields of a Struct."""

    made: Any = None

    def field(self, name: str) -> Field:
        """A field by its name. Raises KeyError."""
        return _fields(self.made)[name]


@dataclass(frozen=True)
class Function(Pointer):
    """Where a function of the interpreter begins."""

    arguments: tuple[Kind, ...] = ()
    result: Kind = Kind("void")


@dataclass(frozen=True)
class Several(Kind):
    """So many ints, that a routine returns together."""

    count: int


INT, BOOL, CINT, VOID = Kind("i64"), Kind("i1"), Kind("i32"), Kind("void")
NOTHING = Pointer()  # null, as any pointer may be
_KNOWN: dict[Any, Kind] = {
    int: INT,
    bool: BOOL,
    CInt: CINT,
    None: VOID,
    Numbers: Row(),
    Marks: Row(element=BOOL, stored="i8"),
}


def kind_of(annotation: Any) -> Kind:
    """The kind that an annotation says. Raises TypeError.

    >>> kind_of(tuple[int, int]).ir
    '[2 x i64]'
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(parts[0])
    if origin is UnionType and NoneType in parts:
        (own,) = (x for x in parts if x is not NoneType)
        return kind_of(own)
    if origin is Array:
        element = kind_of(parts[0])
        return Row(element=element, stored=element.ir)
    if origin is Callable:
        return Function("ptr", tuple(map(kind_of, parts[0])), kind_of(parts[1]))
    if origin is tuple and set(parts) == {int}:
        return Several(f"[{len(parts)} x i64]", len(parts))
    if annotation in _KNOWN:
        return _KNOWN[annotation]
    if isinstance(annotation, type):
        if issubclass(annotation, Struct):
            return Record("ptr", annotation)
        if is_dataclass(annotation):
            return Record("ptr", annotation)
    raise TypeError(f"no routine has values of type {annotation!r}")


@cached(1024)
def _fields(made: Any) -> dict[str, Field]:
    if not issubclass(made, Struct):
        told = get_annotations(made, eval_str=True)
        return {
            f.name: Field(8 * k, kind_of(told[f.name]), fixed=True)
            for k, f in enumerate(fields(made))
        }
    found = {}
    for kind in reversed(made.__mro__[:-2]):
        places = kind.places()
        for name, own in get_annotations(kind, eval_str=True).items():
            inline = INLINE in get_args(own)[1:]
            found[name] = Field(places[name], kind_of(own), inline, kind.fixed)
    return found


def signature(routine: Callable[..., Any]) -> tuple[dict[str, Kind], Kind]:
    """The kinds of a routine's arguments, by name, and of what it returns."""
    told = {
        name: kind_of(own)
        for name, own in get_annotations(routine, eval_str=True).items()
    }
    result = told.pop("return")
    return told, result
