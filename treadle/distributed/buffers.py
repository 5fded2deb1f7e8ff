"""Statistics: the buffers of a model, of which each shard makes its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
        self._floats = [_is_float(v.type.dtype) for v in self.variables]
        self.keep()

    def keep(self) -> None:
        """Remember the values of now, for `restore`."""
        self._hold(list(evaluate(self.variables)) if self.variables else [])

    def _hold(self, values: Sequence[Array]) -> None:
        before = self._vectors(values)
        self._before = values
        # The buffers of a shard without a batch.
        self.absent = Buffers(np.zeros_like(before.floats), before.integers)

    def restore(self) -> None:
        """Have the buffers hold what they held when they were kept."""
        self._assign(self._before)

    def made(self) -> Buffers:
        """The buffers' values after a shard."""
        if not self.variables:
            return self.absent
        return self._vectors(evaluate(self.variables))

    def take(self, total: Buffers, count: int) -> None:
        """Hold what `count` shards have made."""
        if not self.variables:
            return
        floats, integers = total.floats / max(count, 1), total.integers
        values = []
        for before, is_float in zip(self._before, self._floats, strict=True):
            if is_float:
                part, floats = floats[: before.size], floats[before.size :]
            else:
                part, integers = integers[: before.size], integers[before.size :]
            values.append(part.reshape(before.shape).astype(before.dtype))
        self._assign(values)
        self._hold(values)

    def _assign(self, values: Sequence[Array]) -> None:
        if values:
            store(zip(self.variables, values, strict=True))

    def _vectors(self, arrays: Sequence[Array]) -> Buffers:
        """Values of the buffers as two vectors."""
        parts: dict[bool, list[Array]] = {True: [_NONE], False: [_NONE]}
        for x, is_float in zip(arrays, self._floats, strict=True):
            parts[is_float].append(x.reshape(-1))
        return Buffers(
            np.concatenate(parts[True], dtype=np.float64),
            np.concatenate(parts[False], dtype=np.int64, casting="unsafe"),
        )


_NONE = np.zeros(0, np.int8)


def _is_float(dtype: Any) -> bool:
    return kind(dtype) == "float"
