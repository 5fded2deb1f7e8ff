"""Statistics: the buffers of a model, of which each shard makes its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import kind
from treadle.distributed.share import Buffers
from treadle.graph.variable import Variable
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store


class Statistics:
    """Buffers (the running statistics of a BatchNorm) that every shard finds as the
    last update has left them. After an update they are the mean of what the shards have
    made of them, whole numbers (counts) the greatest.

    >>> b = td.Variable([1.0, 2.0])
    >>> kept = Statistics([b])
    >>> _ = b.assign(b * 2); kept.made().floats.tolist()
    [2.0, 4.0]
    >>> kept.restore(); b.tolist()
    [1.0, 2.0]
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = list(variables)
        self.keep()

    def keep(self) -> None:
        """Remember the values of now, for `restore`."""
        self._before = list(evaluate(self.variables)) if self.variables else []

    def restore(self) -> None:
        """Have the buffers hold what they held when they were kept."""
        self._assign(self._before)

    def made(self) -> Buffers:
        """The buffers' values after a shard."""
        return _vectors(list(evaluate(self.variables)) if self.variables else [])

    def absent(self) -> Buffers:
        """The buffers' values of a shard without a batch."""
        before = _vectors(self._before)
        return Buffers(np.zeros_like(before.floats), before.integers)

    def take(self, total: Buffers, count: int) -> None:
        """Hold what `count` shards have made."""
        floats, integers = total.floats / max(count, 1), total.integers
        values = []
        for before in self._before:
            if _is_float(before):
                part, floats = np.split(floats, [before.size])
            else:
                part, integers = np.split(integers, [before.size])
            values.append(part.reshape(before.shape).astype(before.dtype))
        self._assign(values)
        self._before = values

    def _assign(self, values: Sequence[Array]) -> None:
        if values:
            store(zip(self.variables, values, strict=True))


def _is_float(x: Array) -> bool:
    return kind(x.dtype) == "float"


def _vectors(arrays: Sequence[Array]) -> Buffers:
    floats = [x.reshape(-1).astype(np.float64) for x in arrays if _is_float(x)]
    rest = [x.reshape(-1).astype(np.int64) for x in arrays if not _is_float(x)]
    return Buffers(
        np.concatenate([np.zeros(0, np.float64), *floats]),
        np.concatenate([np.zeros(0, np.int64), *rest]),
    )
