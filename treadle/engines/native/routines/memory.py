"""What routines of this engine read and write besides numbers: things in memory.

Such routines are only ever compiled. Their annotations are for readers and type
checkers, and say what machine code needs to know. A pointer may be null: None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NewType, Protocol, TypeVar

__all__ = [
    "INLINE",
    "Array",
    "CInt",
    "Struct",
    "Unknown",
    "address",
    "behind",
    "pointers",
    "prefetch",
]

_T = TypeVar("_T")

CInt = NewType("CInt", int)  # an int of C, of 32 bits, that a function returns
INLINE = "inline"  # of a field, as Annotated[Array[...], INLINE]: it lies there itself


class Unknown(Exception):
    """Things do not lie as a routine expects: Python does its work."""


class Array(Protocol[_T]):
    """Where elements lie, one after the other; nobody knows how many."""

    def __getitem__(self, k: int, /) -> _T: ...
    def __setitem__(self, k: int, x: _T, /) -> None: ...


class Struct:
    """What a pointer leads to: a class whose annotations are its fields.

    Where the fields of a class are `fixed`, none of them changes while a routine runs.
    """

    fixed: ClassVar[bool] = False

    @classmethod
    def places(cls) -> Mapping[str, int]:
        """The byte of each field. Raises Unknown."""
        raise NotImplementedError


def prefetch(x: object, byte: int, write: bool) -> None:
    """Fetch memory that will be read or written soon, a byte of a thing."""
    raise NotImplementedError


def address(x: object) -> int:
    """Where a thing lies."""
    raise NotImplementedError


def pointers(count: int) -> Array[Any]:
    """Memory for so many pointers, a constant, until the routine returns."""
    raise NotImplementedError


def behind(x: Array[_T], k: int) -> Array[_T]:
    """The elements of an array from one on."""
    raise NotImplementedError
