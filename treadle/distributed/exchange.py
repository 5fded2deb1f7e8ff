"""The exchange of one step: each rank's share in, the sum of all shares out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treadle.distributed.communicator import Communicator, DistributedError
from treadle.distributed.fixed import all_reduce, tree
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Buffers, RowGradients, Share
from treadle.graph.variable import Variable
from treadle.runtime.store import store

__all__ = ["exchange", "send_variables"]

Array = np.ndarray[Any, Any]

BUCKET = 1 << 22  # bytes that are exchanged at once


def exchange(
    comm: Communicator, layout: GradientLayout, share: Share, update: int, joined: bool
) -> tuple[Share, bool]:
    """The sum of the shares of all ranks, and whether all of them have `joined`: none
    has a batch any more.

    Ranks that stand at different updates, or have other parameters, are told.
    """
    if comm.size == 1:
        return share, joined
    head = np.array([update, share.count, joined, layout.digest()], np.int64)
    heads = comm.all_gather(head)
    _check(heads)
    count, ended = int(heads[:, 1].sum()), bool(heads[:, 2].all())
    if not count:
        return share, ended
    used = comm.all_gather(np.packbits(share.used))
    used = np.unpackbits(np.bitwise_or.reduce(used), count=len(share.used)) > 0
    for dtype, flat in share.flat.items():
        step = BUCKET // dtype.itemsize
        for begin in range(0, len(flat), step):
            end = min(begin + step, len(flat))
            if _is_used(layout, used, dtype, begin, end):
                flat[begin:end] = all_reduce(comm, flat[begin:end])
    rows = {
        k: _rows(comm, share.rows.get(k), place.variable, place.dtype)
        for k, place in enumerate(layout.places)
        if used[k] and place.variable.sparse
    }
    buffers = Buffers(
        all_reduce(comm, share.buffers.floats),
        all_reduce(comm, share.buffers.integers, "max"),
    )
    return replace(share, count=count, used=used, rows=rows, buffers=buffers), ended


def _check(heads: Array) -> None:
    """Raise unless all ranks are at one update, of one layout."""
    for k, (update, *_, digest) in enumerate(heads):
        if update != heads[0, 0]:
            raise DistributedError(
                f"rank {k} is at update {update}, rank 0 at update {heads[0, 0]}",
                hint="ranks begin from the same checkpoint, and each calls step() for "
                "each of its shards",
            )
        if digest != heads[0, 3]:
            raise DistributedError(
                f"rank {k} has other parameters than rank 0 had at the start"
            )


def _is_used(
    layout: GradientLayout, used: Array, dtype: Any, begin: int, end: int
) -> bool:
    """Whether a parameter that is used lies in a part of the flat array of a dtype."""
    return any(
        used[k] and p.dtype == dtype and p.start < end and p.stop > begin
        for k, p in enumerate(layout.places)
    )


def _rows(
    comm: Communicator, rows: RowGradients | None, p: Variable, dtype: Any
) -> RowGradients:
    """The rows of one parameter's gradient, summed over all ranks that have some."""
    shape = p.type.shape[1:]
    if rows is None:
        rows = RowGradients(np.zeros(0, np.int64), np.zeros((0, *shape), dtype))
    ids = comm.messages(np.ascontiguousarray(rows.ids).tobytes())
    values = comm.messages(np.ascontiguousarray(rows.values).tobytes())
    every = []
    for a, b in zip(ids, values, strict=True):
        known = np.frombuffer(a, np.int64)
        every.append(
            RowGradients(known, np.frombuffer(b, dtype).reshape(len(known), *shape))
        )
    return tree(every, RowGradients.plus)


def send_variables(comm: Communicator, variables: list[Variable]) -> None:
    """Give Variables the values that they have on rank 0."""
    if comm.size == 1:
        return
    store([(v, comm.broadcast(np.asarray(v.numpy()), 0)) for v in variables])
