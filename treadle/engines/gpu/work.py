"""The work of one launch: the unit of compilation, without sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from treadle.loops.kernel import KernelArgument
from treadle.loops.parameters import value_of

if TYPE_CHECKING:
    from treadle.engines.gpu.builder import DeviceBuilder

Slot = tuple[int, str]  # the place of an integer of a step, and the kind it is read as


class Work(Protocol):
    """A kernel as a device runs it, equal to others by what it computes.

    name: for people; buffers: what it reads and writes, in order, the last of them an
    int32 that it sets to 1 where a position is out of range, if it `checks`; slots: the
    integers of a launch; items: of a work group; wide: whether integers of 64 bits are
    among its data.
    """

    @property
    def name(self) -> str: ...
    @property
    def buffers(self) -> tuple[KernelArgument, ...]: ...
    @property
    def slots(self) -> tuple[Slot, ...]: ...
    @property
    def items(self) -> int: ...
    @property
    def checks(self) -> bool: ...
    @property
    def wide(self) -> bool: ...

    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

    def write(self, b: DeviceBuilder) -> None:
        """Append the whole kernel to a builder, but for its end."""


def encoded(slots: Sequence[Slot], integers: Sequence[int]) -> list[int]:
    """The integers of a launch by its slots: floats are the bits of their own type.

    >>> encoded([(0, "i64"), (1, "float")], [7, 4607182418800017408])
    [7, 1065353216]
    """
    return [_bits(integers[place], kind) for place, kind in slots]


def _bits(value: int, kind: str) -> int:
    if kind != "float":
        return value
    with np.errstate(over="ignore"):  # beyond float32: the infinity of its sign
        return int(np.float32(value_of(value)).view(np.int32))
