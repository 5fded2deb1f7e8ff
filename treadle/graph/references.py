"""Reference counts of nodes: what somebody holds is kept when a run is over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.core import native
from treadle.graph.leaves import Cut, as_tensor
from treadle.graph.resident import Future
from treadle.graph.tensor import Tensor

Counts = np.ndarray[Any, np.dtype[np.int64]]


def references(nodes: Sequence[Tensor]) -> Counts:
    """`counted` as an array."""
    return np.fromiter(map(sys.getrefcount, nodes), np.int64, len(nodes)) - _IN_LIST


def counted(nodes: Sequence[Tensor]) -> list[int]:
    """The references to each node besides the one of this list.

    >>> nodes = [as_tensor(1.0), as_tensor(2.0)]
    >>> held = nodes[1]
    >>> counted(nodes)
    [0, 1]
    """
    return [count - _IN_LIST for count in map(sys.getrefcount, nodes)]


def untouched(node: Tensor, listed: int = 0) -> bool:
    """Return True if nobody but this node has its value, or looks at a part of it. If
    that is a Future, it may also be `listed` so many times.

    >>> x = as_tensor([1.0, 2.0])
    >>> untouched(x)
    True
    >>> part = x.stored[1:]
    >>> untouched(x)
    False
    """
    array = node.stored
    if sys.getrefcount(array) > ALONE + listed:
        return False
    if type(array) is Future:
        array = array.array
        if sys.getrefcount(array) > ALONE:
            return False
    # A view refers to the lowest plain array under it, not to what it is a view of.
    base = array.base if isinstance(array, np.ndarray) else None
    while type(base) is np.ndarray:
        if sys.getrefcount(base) > ALONE:
            return False
        base = base.base
    return True


def in_place(
    versions: Sequence[Tensor], values: Sequence[Future], counts: bytes
) -> bool:
    """Return True if so many (int64) refer to each version besides the tuple of them,
    nobody to its Future but the tuple of these, itself and another version, nobody to
    its array."""
    if native is not None:
        return native.in_place(versions, values, counts)
    expected = np.frombuffer(counts, np.int64).tolist()
    for k in range(len(versions)):  # no name and no pair refers to a value
        if sys.getrefcount(versions[k]) - _IN_TUPLE != expected[k]:
            return False
        if versions[k].stored is not values[k] or not untouched(versions[k], listed=2):
            return False
    return True


def _alone() -> int:
    """The count of references to what one attribute and a local name refer to."""
    node = Tensor(Cut(), (), as_tensor(0.0).type, np.zeros(1))
    stored = node.stored
    return sys.getrefcount(stored)


ALONE = _alone()
_IN_LIST = 0
_IN_LIST = counted([Tensor(Cut(), (), as_tensor(0.0).type)])[0]
_tuple = (Tensor(Cut(), (), as_tensor(0.0).type),)
_IN_TUPLE = sys.getrefcount(_tuple[0])
