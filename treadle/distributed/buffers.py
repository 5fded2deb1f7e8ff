"""Statistics: the buffers of a model, of which each shard makes its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import float64, int64, kind
from treadle.distributed.share import Buffers
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import Changes, store


class Statistics:
    """Buffers (the running statistics of a BatchNorm) that every shard finds as the
    last update has left them. After an update they are the mean of what the shards have
    made of them, whole numbers (counts) the greatest.

    >>> b = td.Variable([1.0, 2.0])
    >>> statistics = Statistics([b])
    >>> _ = b.assign(b * 2); statistics.made().floats.tolist()
    [2.0, 4.0]
    >>> store(statistics.restored()); b.tolist()
    [1.0, 2.0]
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = list(variables)
        self._floats = [_is_float(v.type.dtype) for v in self.variables]
        # What the next shard begins with.
        self.kept = [Variable(v, dtype=v.type.dtype) for v in self.variables]

    def keep(self) -> None:
        """Have the next shards begin with the values of now."""
        store(zip(self.kept, evaluate(self.variables), strict=True))

    def restored(self) -> Changes:
        """The assignments by which the next shard begins as this one did."""
        return list(zip(self.variables, self.kept, strict=True))

    def wide(self) -> list[Tensor]:
        """The buffers' values after a shard, as sums have them."""
        return [
            v.node().astype(float64 if is_float else int64)
            for v, is_float in zip(self.variables, self._floats, strict=True)
        ]

    def combined(self, j: int, a: Tensor, b: Tensor) -> Tensor:
        """The sum of two shards' values of a buffer, or the greater whole number."""
        return a + b if self._floats[j] else functions.maximum(a, b)

    def means(self, totals: Sequence[Tensor], count: int) -> list[Tensor]:
        """The buffers' values after an update, of so many shards."""
        number = constant_node(np.array(count, np.float64))
        return [
            (total / number if is_float else total).astype(v.type.dtype)
            for v, total, is_float in zip(
                self.variables, totals, self._floats, strict=True
            )
        ]

    def changes(self, means: Sequence[Any]) -> Changes:
        """The assignments of an update."""
        return [*zip(self.variables, means, strict=True),
                *zip(self.kept, means, strict=True)]  # fmt: skip

    # -- as vectors, for other ranks ---------------------------------------------------

    @property
    def absent(self) -> Buffers:
        """The buffers of a shard without a batch."""
        # Of no run: what was assigned waits for that of the loss.
        before = self.vectors([np.asarray(v.committed.array) for v in self.kept])
        return Buffers(np.zeros_like(before.floats), before.integers)

    def made(self) -> Buffers:
        """The buffers' values after a shard."""
        return self.vectors(evaluate(self.variables))

    def take(self, total: Buffers, count: int) -> None:
        """Hold what `count` shards have made."""
        floats, integers = total.floats / max(count, 1), total.integers
        values = []
        for v, is_float in zip(self.variables, self._floats, strict=True):
            size = v.type.size
            if is_float:
                part, floats = floats[:size], floats[size:]
            else:
                part, integers = integers[:size], integers[size:]
            values.append(part.reshape(v.shape).astype(v.type.dtype))
        if values:
            store(self.changes(values))

    def vectors(self, arrays: Sequence[Array]) -> Buffers:
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
