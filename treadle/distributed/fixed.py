"""Sums in a fixed order: the same bits on every number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from treadle.base.dtypes import accumulator, as_dtype
from treadle.distributed.communicator import Communicator

__all__ = ["REDUCTIONS", "all_reduce", "reduce_scatter", "tree"]

Array = np.ndarray[Any, Any]
X = TypeVar("X")

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def tree(parts: Sequence[X], combine: Callable[[X, X], X]) -> X:
    """Neighbors in pairs, again and again while there is an even number of them, then
    one after the other: the order in which all sums over ranks and shards are made.

    A rank that holds 2**k neighbors makes the same sum of these as all would.

    >>> tree(["a", "b", "c", "d", "e", "f"], lambda a, b: f"({a}{b})")
    '(((ab)(cd))(ef))'
    """
    parts = list(parts)
    while len(parts) > 1 and len(parts) % 2 == 0:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [combine(a, b) for a, b in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def reduced(rows: Array, reduction: str) -> Array:
    """Rows combined in the order of `tree`; sums of 16-bit floats are in float32."""
    dtype = rows.dtype
    sums = reduction in ("sum", "mean") and dtype.kind != "b"
    wide = accumulator(as_dtype(dtype)) if sums else dtype
    total = tree(list(rows.astype(wide, copy=False)), REDUCTIONS[reduction])
    if reduction == "mean":
        total = total / np.asarray(len(rows), total.dtype)
    return np.asarray(total).astype(dtype, copy=len(rows) == 1)


def reduce_scatter(comm: Communicator, rows: Array, reduction: str = "sum") -> Array:
    """The reduction of row r of all ranks, on rank r."""
    return reduced(comm.all_to_all(rows), reduction)


def all_reduce(comm: Communicator, x: Array, reduction: str = "sum") -> Array:
    """The reduction over all ranks, on all ranks: each reduces a part of it.

    >>> from treadle.distributed.communicator import Alone
    >>> all_reduce(Alone(), np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    share = -(-x.size // comm.size)
    rows = np.zeros((comm.size, share), x.dtype)
    rows.reshape(-1)[: x.size] = x.reshape(-1)
    parts = comm.all_gather(reduce_scatter(comm, rows, reduction))
    return parts.reshape(-1)[: x.size].reshape(x.shape)
