"""Kernels run step by step in Python: slow, and what the generated code must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import cached
from treadle.base.types import Type
from treadle.graph.meaning import compute
from treadle.graph.op import Op
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Apply,
    Const,
    Counter,
    Expression,
    Fetch,
    Guard,
    Inside,
    Kernel,
    Load,
    Loop,
    Statement,
    replacing,
)


class _Run:
    """The buffers, the loop variables and the accumulators of a run."""

    def __init__(self, buffers: Sequence[Array]) -> None:
        self.buffers = buffers
        self.at: dict[LoopAxis, int] = {}
        self.folds: dict[int, Any] = {}

    def run(self, body: Sequence[Statement]) -> None:
        new: dict[int, Any] = {}
        for k, s in enumerate(body):
            if not new:  # those that are replaced side by side are so at once
                folds = replacing(body[k:])
                new = {t.accumulator.number: self.value(t.value) for t in folds}
            if isinstance(s, Loop):
                for a in s.folds:
                    self.folds[a.number] = np.array(a.start, a.dtype)
                begin, end = 0, s.axis.extent
                if s.start is not None:
                    begin = max(begin, self.index(s.start))
                end = min([end, *map(self.index, s.stop)])
                for k in range(begin, end, s.stride):
                    self.at[s.axis] = k
                    self.run(s.body)
            elif isinstance(s, Accumulate):
                a = s.accumulator
                if a.combine is None:
                    self.folds[a.number] = new.pop(a.number)
                else:
                    pair = [self.folds[a.number], self.value(s.value)]
                    self.folds[a.number] = _scalar(a.combine, pair, a.dtype)
            elif isinstance(s, Fetch):
                continue
            elif self.holds(s.guards):
                place = self.index(s.index)
                value = self.value(s.value)
                target = self.buffers[s.buffer]
                if s.combine is not None:
                    value = _scalar(s.combine, [target[place], value], target.dtype)
                target[place] = value

    def index(self, i: Index) -> int:
        return int(i.value(self.at, lambda x: int(self.value(x))))

    def holds(self, guards: Sequence[Guard]) -> bool:
        return all(g.low <= self.index(g.index) < g.high for g in guards)

    def value(self, x: Expression) -> Any:
        if isinstance(x, Const):
            return np.asarray(x.value, x.dtype)
        if isinstance(x, Load):
            if not self.holds(x.guards):
                return np.zeros((), x.dtype)
            memory = self.buffers[x.buffer]
            return memory.view(x.dtype)[self.index(x.index)]
        if isinstance(x, Counter):
            return np.asarray(self.index(x.index)).astype(x.dtype)
        if isinstance(x, Inside):
            return np.asarray(self.holds(x.guards))
        if isinstance(x, Accumulated):
            return self.folds[x.accumulator.number]
        assert isinstance(x, Apply)
        return _scalar(x.op, [self.value(c) for c in x.inputs], x.dtype)


def _scalar(op: Op, values: Sequence[Any], dtype: Any) -> Any:
    return compute(op, _point(dtype), [np.asarray(v) for v in values])


@cached(64)
def _point(dtype: Any) -> Type:
    return Type((), dtype)


def interpret(kernel: Kernel, buffers: Sequence[Array]) -> None:
    """Run a kernel with sizes on flat arrays, which it writes into.

    What a worker has of its own needs none of them.
    """
    scratch = [np.zeros(a.scratch, a.dtype) for a in kernel.arguments if a.scratch]
    _Run([*buffers, *scratch]).run(kernel.body)
