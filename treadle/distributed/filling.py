"""Filling: the gradients of a rank's last shard, put where they lie as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.distributed.derived import Parts
from treadle.distributed.exchange import GradientExchange
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Share, row_numbers
from treadle.distributed.sums import ShardSums
from treadle.engines.early import Listener


class Filling:
    """The share of a rank whose last shard's gradients are made, with the sums of the
    shards before. Buckets that are whole go to the `exchange` while the run makes
    others.
    """

    def __init__(
        self,
        layout: GradientLayout,
        sums: ShardSums,
        share: Share,
        exchange: GradientExchange,
    ) -> None:
        self.layout, self.sums = layout, sums
        self.share, self.exchange = share, exchange
        self.parts: Parts = {}
        self._placed: set[int] = set()
        self._unused: list[int] = []  # buckets

    def listener(self) -> Listener | None:
        """Who is to be told of the gradients of each bucket; nobody, where no other
        rank waits for them. It leads here, so the memory of a share that had it would
        stay until Python looks for cycles."""
        alone = self.exchange.channel is None
        return None if alone else Listener((), self._tell, self.begin)

    def begin(self, parts: Parts) -> Sequence[Sequence[int]]:
        """Know which arrays the last shard's gradients are, which are yet to be made,
        or there; those of each bucket."""
        self.parts = parts
        used = self.sums.used(self.sums.state.rest, frozenset(parts))
        self.share.used[list(used)] = True
        buckets = self.layout.buckets
        groups = [[parts[k][-1] for k in b.numbers if k in parts] for b in buckets]
        self._unused = [k for k, group in enumerate(groups) if not group]
        return groups

    def _tell(self, number: int, arrays: Mapping[int, Any]) -> None:
        for k in (*self._unused, number):
            self._place(self.layout.buckets[k].numbers, arrays)
            self.exchange.put(k)

    def _place(self, numbers: Sequence[int], arrays: Mapping[int, Any]) -> None:
        for k in numbers:
            place = self.layout.places[k]
            if k in self._placed or place.variable.sparse:
                continue
            gradient: Array | None = None
            if k in self.parts:
                gradient = np.asarray(arrays[self.parts[k][-1]]).reshape(-1)
            flat = self.share.flat[place.dtype]
            self.sums.complete(k, gradient, flat[place.start : place.stop])
            self._placed.add(k)

    def finish(self, arrays: Mapping[int, Any]) -> None:
        """Fill in the whole share, of the arrays of the last run, by their numbers."""
        self._place(range(len(self.layout.places)), arrays)
        last = {
            n: np.asarray(arrays[made])
            for k, numbers in self.parts.items()
            if self.layout.places[k].variable.sparse
            for n, made in zip(row_numbers(k), numbers, strict=True)
        }
        self.share.rows = self.sums.rows(last)
        self.share.buffers = self.sums.buffers(self.share.buffers)
