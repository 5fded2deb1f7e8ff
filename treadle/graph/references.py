"""How many refer to nodes: what somebody holds is kept when a run is over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.graph.leaves import Cut, as_tensor
from treadle.graph.tensor import Tensor

__all__: list[str] = []

Counts = np.ndarray[Any, np.dtype[np.int64]]


def references(nodes: Sequence[Tensor]) -> Counts:
    """`counted` as an array."""
    return np.fromiter(map(sys.getrefcount, nodes), np.int64, len(nodes)) - _ALONE


def counted(nodes: Sequence[Tensor]) -> list[int]:
    """The references to each node besides the one of this list.

    >>> nodes = [as_tensor(1.0), as_tensor(2.0)]
    >>> held = nodes[1]
    >>> counted(nodes)
    [0, 1]
    """
    return [count - _ALONE for count in map(sys.getrefcount, nodes)]


_ALONE = 0
_ALONE = counted([Tensor(Cut(), (), as_tensor(0.0).type)])[0]
