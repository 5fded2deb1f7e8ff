"""Sums in a fixed order: the same bits on every number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import accumulator, as_dtype
from treadle.distributed.communicator import Communicator

X = TypeVar("X")

REDUCTIONS: dict[str, Any] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}
PIECE = 1 << 24  # bytes that are exchanged at once: each exchange is waited for


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


def parts_of(flat: Array, size: int) -> list[Array]:
    """A flat array as one part for each rank, as equal as can be.

    >>> [part.tolist() for part in parts_of(np.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(flat, size)


def reduce_part(
    comm: Communicator, parts: Sequence[Array], reduction: str = "sum"
) -> None:
    """Have this rank's part be the reduction of what all ranks have for it, in the
    order of `tree`; other parts stay as they are."""
    mine = parts[comm.rank]
    rows = [np.empty_like(mine) for _ in parts]
    rows[comm.rank] = mine
    comm.trade(parts, rows)

    def combine(a: Array, b: Array) -> Array:
        """Both in the memory of one of them, of this rank's if it is there."""
        return REDUCTIONS[reduction](a, b, out=b if b is mine else a)

    with np.errstate(all="ignore"):
        total = tree(rows, combine)
    if total is not mine:
        mine[...] = total


def gather_parts(comm: Communicator, parts: Sequence[Array]) -> None:
    """Have every part be what the rank that it belongs to has there."""
    outgoing = [parts[comm.rank]] * len(parts)
    comm.trade(outgoing, parts)


def all_reduce(comm: Communicator, x: Array, reduction: str = "sum") -> Array:
    """The reduction over all ranks, on all ranks: each reduces a part of it.

    >>> from treadle.distributed.communicator import Alone
    >>> all_reduce(Alone(), np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return all_reduce_over(comm, np.array(x, order="C"), reduction)


def all_reduce_over(comm: Communicator, x: Array, reduction: str = "sum") -> Array:
    """The same of an array in C order, which may be written over."""
    if reduction == "mean" or accumulator(as_dtype(x.dtype)) != x.dtype:
        share = -(-x.size // comm.size)
        rows = np.zeros((comm.size, share), x.dtype)
        rows.reshape(-1)[: x.size] = x.reshape(-1)
        parts = comm.all_gather(reduce_scatter(comm, rows, reduction))
        return parts.reshape(-1)[: x.size].reshape(x.shape)
    flat, step = x.reshape(-1), PIECE // x.itemsize
    for begin in range(0, flat.size, step):
        cut = parts_of(flat[begin : begin + step], comm.size)
        reduce_part(comm, cut, reduction)
        gather_parts(comm, cut)
    return x
