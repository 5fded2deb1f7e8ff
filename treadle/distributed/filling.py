"""Filling: the gradients of a shard, put where they lie in its share as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator
from treadle.distributed.exchange import Exchange
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Buffers, RowGradients, Share
from treadle.engines.early import Listener
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.lookup import sparse_rows
from treadle.optim.gradients import plain


def parts_asked(p: Variable) -> list[Tensor]:
    """A gradient in the dtype that it is summed in; of a sparse parameter the ids of
    its rows before them, each row the sum of all that have its id."""
    assert p.grad is not None
    gradient, dtype = plain(p.grad), accumulator(p.type.dtype)
    rows = sparse_rows(gradient) if p.sparse else None
    if rows is None:
        return [gradient.astype(dtype)]
    ids, values = rows
    return [ids, functions.combine_rows(ids, values.astype(dtype), p.shape[0])]


class Filling:
    """The share of a shard whose gradients are made: `asked` has the parts of each by
    the number of its parameter. Buckets that are whole go to the `exchange`, if this is
    the shard that an update waits for, while the run makes others.
    """

    def __init__(
        self,
        layout: GradientLayout,
        share: Share,
        asked: Mapping[int, Sequence[Tensor]],
        exchange: Exchange | None,
    ) -> None:
        self.layout, self.share, self.asked = layout, share, asked
        self.exchange = exchange
        self._placed: set[int] = set()
        self._unused: list[int] = []  # buckets

    def listener(self) -> Listener | None:
        """Who is to be told of the gradients of each bucket; nobody, where no other
        rank waits for them."""
        exchange = self.exchange
        if exchange is None or exchange.channel is None:
            return None
        groups = [
            [self.asked[k][-1] for k in bucket.numbers if k in self.asked]
            for bucket in self.layout.buckets
        ]
        self._unused = [k for k, group in enumerate(groups) if not group]
        return Listener(groups, self._tell)

    def _tell(self, number: int, arrays: Mapping[int, Any]) -> None:
        for k in self.layout.buckets[number].numbers:
            if k in self.asked and k not in self._placed:
                self._place(k, arrays[self.asked[k][-1].serial])
        if self.exchange is not None:
            for k in (*self._unused, number):
                self.exchange.put(k)

    def _place(self, k: int, gradient: Any) -> None:
        place = self.layout.places[k]
        part = self.share.flat[place.dtype][place.start : place.stop]
        part[...] = np.asarray(gradient).reshape(-1)
        self._placed.add(k)

    def finish(self, buffers: Buffers) -> Share:
        """The whole share, when all has been evaluated."""
        rows = dict[int, RowGradients]()
        for k, parts in self.asked.items():
            *ids, values = (x.array for x in parts)
            if not self.layout.places[k].variable.sparse:
                if k not in self._placed:
                    self._place(k, values)
            elif ids:
                known, first = np.unique(np.asarray(ids[0]), return_index=True)
                pair = known.astype(np.int64), np.asarray(values)[first]
                rows[k] = RowGradients(*pair)
            else:
                values = np.asarray(values)
                rows[k] = RowGradients(np.arange(len(values)), values)
        return replace(self.share, rows=rows, buffers=buffers)
