"""Addresses before memory is there: a number for each block, and an offset in it.

A table of steps is made of them once, and of true addresses for each run. What lies
in a fixed place has its true address, which is less than any of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.base.arrays import Numbers

_SHIFT = 48  # addresses have fewer binary digits


def block(number: int) -> int:
    """The first address of the block of a number.

    >>> number(block(3) + 64), number(64)
    (3, 0)
    """
    return number << _SHIFT


def number(address: int) -> int:
    """The number of the block that an address lies in; 0 of a true address."""
    return address >> _SHIFT


def split(addresses: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers of blocks, and offsets in them.

    >>> import numpy as np
    >>> [x.tolist() for x in split(np.array([block(2) + 8, 640]))]
    [[2, 0], [8, 640]]
    """
    numbers = addresses >> _SHIFT
    return numbers, addresses - (numbers << _SHIFT)


class Addresses(NamedTuple):
    """The blocks that values lie in, and offsets in them; of so many values that no
    address has room for the numbers of all blocks."""

    blocks: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, *parts: Numbers | Addresses) -> Addresses:
        """Those of addresses, or of blocks, one part after the other."""
        each = [x if isinstance(x, Addresses) else cls(*split(x)) for x in parts]
        blocks, offsets = zip(*each, strict=True)
        return cls(np.concatenate(blocks), np.concatenate(offsets))

    def at(self, numbers: Numbers) -> Addresses:
        """Those of some values."""
        return Addresses(self.blocks[numbers], self.offsets[numbers])


# Values of rows, their cotangents, what is summed later, cotangents of leaves, what
# nobody asks for, cotangents of what one group reads, addresses of rows, memory between
# kernels, of workers, a flag.
VALUES, GRADS, FRESH, LEAVES, SINK, SPACE, INDEX, ARENA, SCRATCH, STATUS = map(
    block, range(1, 11)
)
FIRST = 11  # the first of those that a forest numbers itself
