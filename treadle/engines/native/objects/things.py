"""Python's objects as routines see them: which fields lie where (`layout.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, Any

from treadle.base.routine import Marks, Numbers, routine
from treadle.engines.native.objects import layout
from treadle.engines.native.objects.layout import FIELDS, SHIFT, known_slots, usable
from treadle.engines.native.routines.memory import INLINE, Array, Struct, Unknown
from treadle.graph import thread
from treadle.graph.tensor import Tensor

__all__ = [
    "Bytes",
    "Dict",
    "Frame",
    "Int",
    "Items",
    "List",
    "Node",
    "Nodes",
    "Object",
    "State",
    "Tuple",
    "number",
]

LOW = (1 << 32) - 1
BITS = 30  # in a digit of an int


class Object(Struct):
    """Any object: references to it, and its class."""

    count: int
    kind: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        if not usable():
            raise Unknown
        return {"count": layout.COUNT, "kind": layout.KIND}


class Int(Object):
    """A number of 30 bits a digit; the first two are one word."""

    size: int
    digits: int

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"size": layout.SIZE, "digits": layout.DIGITS}


class Tuple(Object):
    """So many items, in the tuple itself."""

    size: int
    items: Annotated[Array[Object], INLINE]

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"size": layout.SIZE, "items": layout.ITEMS}


class List(Object):
    """So many items, somewhere else."""

    size: int
    items: Array[Object]

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"size": layout.SIZE, "items": layout.LIST_ITEMS}


class Bytes(Object):
    """So many bytes, which are words to us, or marks."""

    size: int
    words: Annotated[Numbers, INLINE]
    marks: Annotated[Marks, INLINE]

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"size": layout.SIZE, "words": layout.BYTES, "marks": layout.BYTES}


class Items(Object):
    """A tuple of as many items as the class has annotations; they never change."""

    fixed = True

    @classmethod
    def places(cls) -> Mapping[str, int]:
        names = get_annotations(cls)
        return {name: layout.ITEMS + layout.WORD * k for k, name in enumerate(names)}

    @classmethod
    def of(cls, **items: object) -> tuple[Any, ...]:
        """Such a tuple, of its items by name."""
        names = get_annotations(cls)
        if items.keys() != names.keys():
            raise TypeError(f"{cls.__name__} has other items")
        return tuple(items[name] for name in names)


class Dict(Object):
    """So many entries."""

    size: int

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"size": layout.SIZE}


class Nodes(Tuple):
    """A tuple of nodes."""

    items: Annotated[Array[Node], INLINE]  # type: ignore[assignment]


class Node(Object):
    """A Tensor."""

    op: Object
    inputs: Nodes
    type: Object
    serial: Int
    depth: Int
    stored: Object
    mark: Object
    _code: Object
    _offset: Object
    _name: Object
    _metadata: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(Tensor, *FIELDS)


class State(Object):
    """The state of a thread."""

    notes: Object
    frames: Frames

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(thread.ThreadState, "notes", "frames")


class Frames(List):
    """A list of frames."""

    items: Array[Frame]  # type: ignore[assignment]


class Frame(Object):
    """A frame of a thread."""

    tracing: Object
    versions: Dict

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(thread.Frame, "tracing", "versions")


@routine
def number(x: Int) -> int:
    """The value of an int that is below two to the sixtieth."""
    digits = x.size >> SHIFT
    if digits == 0:
        return 0
    low = x.digits & LOW
    if digits == 1:
        return low
    return low | (x.digits >> 32 & LOW) << BITS
