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
from treadle.loops.fill import nested, zeros
from treadle.loops.index import Axis, Index
from treadle.loops.kernel import (
    Apply,
    Argument,
    Counter,
    Expression,
    Guard,
    Inside,
    Kernel,
    Literal,
    Load,
    Statement,
    Store,
)
from treadle.ops.bitwise import BitwiseAnd, BitwiseOr
from treadle.ops.compare import Equal, Greater, LogicalNot
from treadle.ops.elementwise import Add
from treadle.ops.parts import IsNan
from treadle.ops.pool import MaxPool, MaxPoolPositions, SumPool, SumPoolGradient
from treadle.ops.select import Maximum, Select

__all__ = ["POOLS", "few_taps", "max_pool_gradient"]

At = tuple[Index, ...]
Guards = tuple[Guard, ...]
Read = Callable[[Tensor, At, Guards], Expression]

TAPS = 64  # elements of a window that are written out one by one


def few_taps(op: Op) -> bool:
    """Whether the windows of a pool are small enough to be written out."""
    kernel = getattr(op, "kernel", ())
    return 0 < math.prod(kernel) <= TAPS


def _apply(op: Op, *xs: Expression, dtype: DType | None = None) -> Expression:
    return Apply(op, xs, dtype or xs[-1].dtype)


def lowest(dtype: DType) -> Literal:
    """The least number of a type, which no element of a window is below."""
    return Literal(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min, dtype)


def taps(op: Any, at: At, shape: tuple[int, ...]) -> Iterator[tuple[At, Guards]]:
    """The elements of the window at `at`, with what keeps them off the padding."""
    fields = list(zip(op.stride, op.padding, op.dilation, shape[2:], strict=True))
    for place in itertools.product(*map(range, op.kernel)):
        source, inside = list(at[:2]), []
        for i, p, (s, (before, after), d, n) in zip(at[2:], place, fields, strict=True):
            own = i * s + (p * d - before)
            source.append(own)
            if before or after:
                inside.append(Guard(own, 0, n))
        yield tuple(source), tuple(inside)


def _outside(x: Expression, inside: Guards, other: Expression) -> Expression:
    if not inside:
        return x
    return _apply(Select(), Inside(inside, bool_), x, other)


def _max_pool(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    (x,) = node.inputs
    least = lowest(node.type.dtype)
    found: Expression = least
    for k, (source, inside) in enumerate(taps(node.op, at, x.type.shape)):
        value = _outside(read(x, source, guards + inside), inside, least)
        found = value if k == 0 else _apply(Maximum(), found, value)
    return found


def _sum_pool(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    (x,) = node.inputs
    zero = Literal(0, node.type.dtype)
    found: Expression = zero
    for source, inside in taps(node.op, at, x.type.shape):
        value = _outside(read(x, source, guards + inside), inside, zero)
        found = _apply(Add(), found, value)
    return found


def _positions(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    """The place of the first greatest element, counted through the plane."""
    (x,) = node.inputs
    best: Expression = lowest(x.type.dtype)
    found: Expression = Literal(-1, int64)
    for source, inside in taps(node.op, at, x.type.shape):
        value = read(x, source, guards + inside)
        plane = Index()
        for i, n in zip(source[2:], x.type.shape[2:], strict=True):
            plane = plane * n + i
        more = _apply(Greater(), value, best, dtype=bool_)
        if x.type.dtype.kind == "f":
            known = _apply(LogicalNot(), _apply(IsNan(), best, dtype=bool_))
            nan = _apply(IsNan(), value, dtype=bool_)
            more = _apply(BitwiseOr(), more, _apply(BitwiseAnd(), nan, known))
        first = _apply(Equal(), found, Literal(-1, int64), dtype=bool_)
        more = _apply(BitwiseOr(), more, first)
        if inside:
            more = _apply(BitwiseAnd(), more, Inside(inside, bool_))
        best = _apply(Select(), more, value, best)
        found = _apply(Select(), more, Counter(plane, int64), found)
    return found


def _sum_pool_gradient(read: Read, node: Tensor, at: At, guards: Guards) -> Expression:
    """What all windows that see an element were given."""
    op: Any = node.op
    (g,) = node.inputs
    zero = Literal(0, node.type.dtype)
    found: Expression = zero
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
            own = steps // s - shift // s
            source.append(own)
            inside.append(Guard(own, 0, n))
        value = read(g, tuple(source), guards + tuple(inside))
        found = _apply(Add(), found, _outside(value, tuple(inside), zero))
    return found


POOLS: dict[type[Op], Callable[[Read, Tensor, At, Guards], Expression]] = {
    MaxPool: _max_pool,
    SumPool: _sum_pool,
    MaxPoolPositions: _positions,
    SumPoolGradient: _sum_pool_gradient,
}


def _overlap(op: Any) -> bool:
    """Whether an element may lie in several windows."""
    return any(
        d * (k - 1) + 1 > s
        for k, s, d in zip(op.kernel, op.stride, op.dilation, strict=True)
    )


def max_pool_gradient(node: Tensor) -> list[tuple[Kernel, list[Tensor]]]:
    """Zeros, and then each window's value at its first greatest element."""
    op: Any = node.op
    x, g = node.inputs
    shape, dtype = x.type.shape, node.type.dtype
    axes = [Axis(f"w{k}", n) for k, n in enumerate(g.type.shape)]
    at = tuple(map(Index.of, axes))
    number = Index()
    for axis in axes:
        number = number * axis.extent + Index.of(axis)
    share = Load(1, number, g.type.dtype)
    zero = Literal(0, dtype)
    body: list[Statement] = []
    values: list[tuple[Index, Guards, Expression]] = []
    for source, inside in taps(op, at, shape):
        element = Index()
        for i, n in zip(source, shape, strict=True):
            element = element * n + i
        loaded = Load(0, element, x.type.dtype, inside)
        values.append((element, inside, _outside(loaded, inside, lowest(x.type.dtype))))
    greatest: Expression = values[0][2]
    for _, _, value in values[1:]:
        greatest = _apply(Maximum(), greatest, value)
    taken: Expression = Literal(False, bool_)
    overlap = _overlap(op)
    for element, inside, value in values:
        hit = _apply(Equal(), value, greatest, dtype=bool_)
        hit = _apply(BitwiseOr(), hit, _apply(IsNan(), value, dtype=bool_))
        hit = _apply(BitwiseAnd(), hit, _apply(LogicalNot(), taken))
        taken = _apply(BitwiseOr(), taken, hit)
        own = _apply(Select(), hit, share, zero)
        body.append(Store(2, element, own, Add() if overlap else None, inside))
    arguments = (Argument(x.type.dtype), Argument(g.type.dtype), Argument(dtype, True))
    real = [a for a in axes if a.extent != 1]
    if overlap:  # windows that share elements are done one after the other
        outer = [a for a in axes[:2] if a.extent != 1]
        inner = nested([a for a in axes[2:] if a.extent != 1], tuple(body), "serial")
        loops = nested(outer, inner, "parallel")
    else:
        loops = nested(real, tuple(body), "parallel")
    steps = [(Kernel("maxpoolgradient", arguments, loops), [x, g, node])]
    covered = not overlap and all(
        n == k * m and low == high == 0
        for n, k, m, (low, high) in zip(
            shape[2:], op.kernel, g.type.shape[2:], op.padding, strict=True
        )
    )
    return steps if covered else [zeros(node), *steps]
