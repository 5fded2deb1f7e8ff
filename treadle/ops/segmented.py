"""Scans as scans over segments, whose gradients keep what segments begin with.

Of n iterations a gradient keeps the carries of some root of n, and computes those of
one segment at a time again (Chen et al., "Training deep nets with sublinear memory
cost", 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.base.types import Type
from treadle.graph.body import trace
from treadle.graph.op import Cotangents
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.call import Call, backward_of
from treadle.ops.families import outputs_of

LARGE_PART = 4  # of a workspace: a larger part of it is not kept for a gradient
SHORTEST = 4  # iterations of a scan that is cut


def keeps_much(scan: Any, xs: Sequence[Tensor]) -> bool:
    """Whether the carries of all iterations are a large part of the workspace, if there
    is a limit; none with names is cut."""
    limit = current().workspace
    if not limit or scan.length < SHORTEST:
        return False
    kept = scan.length * sum(x.type.nbytes for x in xs[: scan.carries])
    return kept > limit // LARGE_PART and all(x.type.axes is None for x in xs)


def vjp_by_segments(scan: Any, g: Any, xs: Sequence[Tensor]) -> Cotangents:
    """The cotangents of a scan's operands, by segments."""
    key = (
        "segments",
        *(getattr(scan, k) for k in ("length", "scanned", "draws", "reverse")),
    )
    memo = scan.body.memo
    if key not in memo:
        types = [x.type for x in xs]
        memo[key] = trace(
            lambda *ys: _Segments(scan, ys).results(), types, "segments"
        ).body
    present = tuple(k for k, gk in enumerate(g) if gk is not None)
    back, which = backward_of(memo[key], present)
    result: list[Tensor | None] = [None] * len(xs)
    if which:
        cotangents = outputs_of(Call(back)(*xs, *(g[k] for k in present)))
        for k, gx in zip(which, cotangents, strict=True):
            result[k] = gx
    return tuple(result)


class _Segments:
    """A scan as one over segments, and one over the rows that are left."""

    def __init__(self, scan: Any, xs: Sequence[Tensor]) -> None:
        c, s, end = scan.carries, scan.carries + scan.scanned, len(xs) - scan.draws
        self.scan, self.start = scan, xs[:c]
        self.rows, self.constants, self.draws = xs[c:s], xs[s:end], xs[end:]
        self.size = math.isqrt(scan.length)
        self.count = scan.length // self.size
        self.whole = self.size * self.count

    def results(self) -> list[Tensor]:
        """The results of the scan."""
        c, passes = self.scan.carries, [self._segments, self._rest]
        if self.whole == self.scan.length:
            passes = [self._segments]
        carry: Sequence[Tensor] = self.start
        stacks: list[Sequence[Tensor]] = []
        for run in reversed(passes) if self.scan.reverse else passes:
            out = run(carry)
            carry = out[:c]
            stacks.append(out[c:])
        if self.scan.reverse:
            stacks.reverse()
        if len(stacks) == 1:
            return [*carry, *stacks[0]]
        pairs = zip(*stacks, strict=True)
        return [*carry, *(functions.concat(list(pair)) for pair in pairs)]

    def _segments(self, carry: Sequence[Tensor]) -> list[Tensor]:
        c, s, d = self.scan.carries, self.scan.scanned, self.scan.draws
        count, size, whole = self.count, self.size, self.whole
        rows = [
            functions.reshape(x[:whole], (count, size, *x.shape[1:])) for x in self.rows
        ]
        # Iterations of a segment draw what they would in the whole.
        begins = np.zeros((count, 2), np.uint64)
        begins[:, 1] = np.arange(count, dtype=np.uint64) * np.uint64(size << 32)
        rows += [functions.expand_dims(x, 0) + begins for x in self.draws]
        inner = replace(self.scan, length=self.size)

        def segment(*xs: Tensor) -> list[Tensor]:
            draws = xs[c + s : c + s + d]
            return list(outputs_of(inner(*xs[: c + s], *xs[c + s + d :], *draws)))

        types = [x.type for x in carry]
        types += [Type(x.shape[1:], x.dtype) for x in rows]
        types += [x.type for x in self.constants]
        again = Call(trace(segment, types, self.scan.body.name).body, again=True)
        body = trace(lambda *xs: list(outputs_of(again(*xs))), types, "segment").body
        outer = replace(self.scan, body=body, length=count, scanned=s + d, draws=0)
        out = outputs_of(outer(*carry, *rows, *self.constants))
        stacks = [functions.reshape(y, (whole, *y.shape[2:])) for y in out[c:]]
        return [*out[:c], *stacks]

    def _rest(self, carry: Sequence[Tensor]) -> list[Tensor]:
        begin = np.array([0, self.whole << 32], np.uint64)
        last = replace(self.scan, length=self.scan.length - self.whole)
        rows, draws = [x[self.whole :] for x in self.rows], self.draws
        operands = *carry, *rows, *self.constants, *(x + begin for x in draws)
        return list(outputs_of(last(*operands)))
