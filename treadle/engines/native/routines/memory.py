"""What routines of this engine read and write besides numbers: things in memory.

Such routines are only ever compiled. Their annotations are for readers and type
checkers, and say what machine code needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NewType, Protocol, TypeVar

__all__ = ["INLINE", "Array", "CInt", "Struct"]

_T = TypeVar("_T")

CInt = NewType("CInt", int)  # an int of C, of 32 bits, that a function returns
INLINE = "inline"  # of a field, as Annotated[Array[...], INLINE]: it lies there itself


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
        """The byte of each field."""
        raise NotImplementedError
