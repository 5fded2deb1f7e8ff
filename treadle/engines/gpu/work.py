"""The work of one launch: the unit of compilation, without sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.loops.kernel import KernelArgument
from treadle.loops.parameters import value_of

if TYPE_CHECKING:
    from treadle.engines.gpu.builder import DeviceBuilder

Slot = tuple[int, str]  # the place of an integer of a step, and the kind it is read as


@dataclass(frozen=True)
class Work:
    """A kernel as a device runs it, equal to others by what it computes.

    write: appends the whole kernel to a builder, but for its end; buffers: what it
    reads and writes, in order, the last of them an int32 that it sets to 1 where a
    position is out of range, if it `checks`; slots: the integers of a launch; items: of
    a work group; name: for people; wide: whether its data has integers of 64 bits.
    """

    computes: Any
    write: Callable[[DeviceBuilder], None] = field(compare=False)
    buffers: tuple[KernelArgument, ...] = field(compare=False)
    slots: tuple[Slot, ...] = field(compare=False)
    items: int = field(compare=False)
    name: str = field(compare=False)
    checks: bool = field(default=False, compare=False)
    wide: bool = field(default=False, compare=False)


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
