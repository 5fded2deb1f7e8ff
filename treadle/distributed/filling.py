"""Filling: the gradients of a shard, put where they lie in its share as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.distributed.derived import Parts
from treadle.distributed.exchange import Exchange
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Buffers, RowGradients, Share, distinct
from treadle.engines.early import Listener


class Filling:
    """The share of a shard whose gradients are made. Buckets that are whole go to the
    `exchange`, if this is the shard that an update waits for, while the run makes
    others.
    """

    def __init__(
        self, layout: GradientLayout, share: Share, exchange: Exchange | None
    ) -> None:
        self.layout, self.share, self.exchange = layout, share, exchange
        self.parts: Parts = {}
        self._placed: set[int] = set()
        self._unused: list[int] = []  # buckets

    def listener(self, parts: Parts) -> Listener | None:
        """Who is to be told of the gradients of each bucket, which these arrays are;
        nobody, where no other rank waits for them."""
        self.parts, exchange = parts, self.exchange
        if exchange is None or exchange.channel is None:
            return None
        groups = [
            [parts[k][-1] for k in bucket.numbers if k in parts]
            for bucket in self.layout.buckets
        ]
        self._unused = [k for k, group in enumerate(groups) if not group]
        return Listener(groups, self._tell)

    def _tell(self, number: int, arrays: Mapping[int, Any]) -> None:
        for k in self.layout.buckets[number].numbers:
            if k in self.parts and k not in self._placed:
                self._place(k, np.asarray(arrays[self.parts[k][-1]]))
        if self.exchange is not None:
            for k in (*self._unused, number):
                self.exchange.put(k)

    def _place(self, k: int, gradient: Array) -> None:
        place = self.layout.places[k]
        flat = self.share.flat[place.dtype]
        flat[place.start : place.stop] = gradient.reshape(-1)
        self._placed.add(k)

    def finish(self, arrays: Mapping[int, Any], buffers: Buffers) -> Share:
        """The whole share, of the arrays of the last run, by their numbers."""
        share, places = self.share, self.layout.places
        for k, parts in self.parts.items():
            values = np.asarray(arrays[parts[-1]])
            if not places[k].variable.sparse:
                if k not in self._placed:
                    self._place(k, values)
            elif len(parts) > 1:
                known, first = distinct(np.asarray(arrays[parts[0]]))
                share.rows[k] = RowGradients(known.astype(np.int64), values[first])
            else:
                share.rows[k] = RowGradients(np.arange(len(values)), values)
        share.buffers = buffers
        return share
