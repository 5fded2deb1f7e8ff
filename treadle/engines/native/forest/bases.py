"""Addresses before memory is there: a number for each block, and an offset in it.

A table of steps is made of them once, and of true addresses for each run. What lies
in a fixed place has its true address, which is less than any of these.
"""

from __future__ import annotations

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


# Values of rows, their cotangents, what is summed later, cotangents of leaves and of
# what one group reads, addresses of rows, memory between kernels, of workers, a flag.
VALUES, GRADS, FRESH, LEAVES, SPACE, INDEX, ARENA, SCRATCH, STATUS = map(
    block, range(1, 10)
)
FIRST = 10  # the first of those that a forest numbers itself
