"""Pooling as loops: the windows of an element, and the elements of a window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, bool_, int64
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index
from treadle.loops.kernel import (
    Const,
    Counter,
    Expression,
    Guard,
    Inside,
    applied,
)
from treadle.ops.bitwise import BitwiseAnd, BitwiseOr
from treadle.ops.compare import Equal, Greater, LogicalNot
from treadle.ops.elementwise import Add
from treadle.ops.parts import IsNan
from treadle.ops.pool import MaxPool, MaxPoolPositions, SumPool, SumPoolGradient
from treadle.ops.select import Maximum, Select
from treadle.ops.window import Fold, windows_along

At = tuple[Index, ...]
Guards = tuple[Guard, ...]
Read = Callable[[Tensor, At, Guards], Expression]

TAPS = 64  # elements of a window that are written out one by one


def few_taps(op: Op) -> bool:
    """Whether the windows of a pool are small enough to be written out."""
    kernel = getattr(op, "kernel", ())
    return 0 < math.prod(kernel) <= TAPS


def lowest(dtype: DType) -> Const:
    """The least number of a type, which no element of a window is below."""
    return Const(-np.inf if dtype.kind in "fV" else np.iinfo(dtype).min, dtype)


def taps(op: Any, at: At, shape: tuple[int, ...]) -> Iterator[tuple[At, Guards]]:
    """The elements of the window at `at`, with what keeps them off the padding."""
    fields = list(zip(op.stride, op.padding, op.dilation, shape[2:], strict=True))
    for place in itertools.product(*map(range, op.kernel)):
        source, inside = list(at[:2]), []
        for i, p, (s, (before, after), d, n) in zip(at[2:], place, fields, strict=True):
            index = i * s + (p * d - before)
            source.append(index)
            if before or after:
                inside.append(Guard(index, 0, n))
        yield tuple(source), tuple(inside)


def outside(x: Expression, inside: Guards, other: Expression) -> Expression:
    if not inside:
        return x
    return applied(Select(), Inside(inside, bool_), x, other)


def _max_pool(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    (x,) = node.inputs
    least = lowest(node.type.dtype)
    greatest: Expression = least
    for k, (source, inside) in enumerate(taps(node.op, at, x.type.shape)):
        value = outside(read(x, source, guards + inside), inside, least)
        greatest = value if k == 0 else applied(Maximum(), greatest, value)
    return greatest


def _sum_pool(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    (x,) = node.inputs
    zero = Const(0, node.type.dtype)
    total: Expression = zero
    for source, inside in taps(node.op, at, x.type.shape):
        value = outside(read(x, source, guards + inside), inside, zero)
        total = applied(Add(), total, value)
    return total


def _positions(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    """The place of the first greatest element, counted through the plane."""
    (x,) = node.inputs
    best: Expression = lowest(x.type.dtype)
    position: Expression = Const(-1, int64)
    for source, inside in taps(node.op, at, x.type.shape):
        value = read(x, source, guards + inside)
        plane = Index()
        for i, n in zip(source[2:], x.type.shape[2:], strict=True):
            plane = plane * n + i
        more = applied(Greater(), value, best, dtype=bool_)
        if x.type.dtype.kind in "fV":
            known = applied(LogicalNot(), applied(IsNan(), best, dtype=bool_))
            nan = applied(IsNan(), value, dtype=bool_)
            more = applied(BitwiseOr(), more, applied(BitwiseAnd(), nan, known))
        first = applied(Equal(), position, Const(-1, int64), dtype=bool_)
        more = applied(BitwiseOr(), more, first)
        if inside:
            more = applied(BitwiseAnd(), more, Inside(inside, bool_))
        best = applied(Select(), more, value, best)
        position = applied(Select(), more, Counter(plane, int64), position)
    return position


def _sum_pool_gradient(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    """The sum of the cotangents of all windows that see an element."""
    op: Any = node.op
    (g,) = node.inputs
    zero = Const(0, node.type.dtype)
    total: Expression = zero
    fields = list(zip(op.stride, op.padding, op.dilation, strict=True))
    for place in itertools.product(*map(range, op.kernel)):
        source, inside = list(at[:2]), []
        rows = zip(at[2:], place, fields, g.type.shape[2:], strict=True)
        for i, p, (s, (before, _), d), n in rows:
            # A window starts here if it lies a whole number of strides away.
            shift = -(-p * d // s) * s  # so that nothing is negative
            steps = i + (before - p * d + shift)
            if s > 1:
                inside.append(Guard(steps % s, 0, 1))
            window = steps // s - shift // s
            source.append(window)
            inside.append(Guard(window, 0, n))
        value = read(g, tuple(source), guards + tuple(inside))
        total = applied(Add(), total, outside(value, tuple(inside), zero))
    return total


def _fold(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    """The sum of what all windows that see an element have there."""
    op: Any = node.op
    (y,) = node.inputs
    zero = Const(0, node.type.dtype)
    total: Expression = zero
    counts = windows_along(node.type.shape[2:], op.kernel, *op.sliding)
    fields = list(zip(op.stride, op.padding, op.dilation, counts, strict=True))
    for place in itertools.product(*map(range, op.kernel)):
        column, window, inside = at[1], Index(), []
        for i, p, k, (s, (before, _), d, n) in zip(
            at[2:], place, op.kernel, fields, strict=True
        ):
            shift = -(-p * d // s) * s  # so that nothing is negative
            steps = i + (before - p * d + shift)
            if s > 1:
                inside.append(Guard(steps % s, 0, 1))
            start = steps // s - shift // s
            inside.append(Guard(start, 0, n))
            column, window = column * k + p, window * n + start
        here = tuple(inside)
        value = read(y, (at[0], column, window), guards + here)
        total = applied(Add(), total, outside(value, here, zero))
    return total


POOLS: dict[type[Op], Callable[[Read, Tensor, At, Guards], Expression]] = {
    MaxPool: _max_pool,
    SumPool: _sum_pool,
    MaxPoolPositions: _positions,
    SumPoolGradient: _sum_pool_gradient,
    Fold: _fold,
}
