"""Orders by counting and searching: an element's place is how many stand before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, int32, int64
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Datum, Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Const,
    Counter,
    Expression,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
    applied,
)
from treadle.loops.lower import Strides, combiner, placed, wide
from treadle.ops.bitwise import BitwiseAnd, BitwiseOr, RightShift
from treadle.ops.cast import Cast
from treadle.ops.compare import Equal, Less, LessEqual, LogicalNot
from treadle.ops.elementwise import Add, Subtract
from treadle.ops.extrema import ArgMax, ArgMin, Max, Min
from treadle.ops.order import ArgSort, SearchSorted
from treadle.ops.parts import IsNan
from treadle.ops.select import Minimum, Select

SHORT = 128  # elements: more of them are sorted faster than by counting


def _before(x: Expression, y: Expression, descending: bool = False) -> Expression:
    """Whether x stands before y, and not beside it; NaN is greater than all numbers."""
    if descending:
        x, y = y, x
    less = applied(Less(), x, y, dtype=bool_)
    if x.dtype.kind not in "fV":
        return less
    known = applied(LogicalNot(), applied(IsNan(), x, dtype=bool_))
    last = applied(BitwiseAnd(), applied(IsNan(), y, dtype=bool_), known)
    return applied(BitwiseOr(), less, last)


def _not_after(x: Expression, y: Expression, descending: bool = False) -> Expression:
    return applied(LogicalNot(), _before(y, x, descending))


def _kernel(
    node: Tensor,
    axes: list[LoopAxis],
    body: tuple[Statement, ...],
    ordered: bool = True,
) -> Kernels:
    real = [a for a in axes if a.extent != 1]
    arguments = [KernelArgument(x.type.dtype) for x in node.inputs]
    arguments.append(KernelArgument(node.type.dtype, True))
    loops = nested(real, body, "parallel")
    kernel = Kernel(node.op.name.lower(), tuple(arguments), loops, ordered=ordered)
    return [(kernel, [*node.inputs, node])]


def argsort(node: Tensor, strides: Strides) -> Kernels | None:
    """The ranks of elements, by counting the others before each one."""
    op: Any = node.op
    (x,) = node.inputs
    n = x.type.shape[op.axis]
    if n > SHORT:
        return None
    axes = [LoopAxis(f"i{k}", m) for k, m in enumerate(x.type.shape)]
    at = [Index.of(a) for a in axes]
    other = LoopAxis("j", n)
    there = [Index.of(other) if k == op.axis else i for k, i in enumerate(at)]
    mine = Load(0, placed(at, strides(x)), x.type.dtype)
    its = Load(0, placed(there, strides(x)), x.type.dtype)
    places = Counter(Index.of(other), int32), Counter(at[op.axis], int32)
    earlier = applied(Less(), *places, dtype=bool_)
    # Equals keep their order.
    first = _not_after(its, mine, op.descending)
    before = applied(Select(), earlier, first, _before(its, mine, op.descending))
    count = Accumulator(0, Add(), 0, int32)
    fold = Accumulate(count, applied(Cast(int32), before, dtype=int32))
    target = list(at)
    target[op.axis] = Index(((Datum(Accumulated(count, int32), n), 1),))
    store = Store(1, placed(target, strides(node)), Counter(at[op.axis], int64))
    return _kernel(node, axes, (Loop(other, (fold,), folds=(count,)), store))


def position(node: Tensor, strides: Strides) -> Kernels:
    """The extreme value in one pass, the first place where it stands in another."""
    op: Any = node.op
    (x,) = node.inputs
    dtype, least = wide(x.type.dtype), Min((op.axis,))
    fold = Max((op.axis,)) if isinstance(op, ArgMax) else least
    axes = [LoopAxis(f"i{k}", m) for k, m in enumerate(x.type.shape)]
    at = [Index.of(a) for a in axes]
    along, n = axes[op.axis], x.type.shape[op.axis]
    value: Expression = Load(0, placed(at, strides(x)), x.type.dtype)
    if value.dtype != dtype:
        value = applied(Cast(dtype), value, dtype=dtype)
    start = fold.start(x.type.dtype)
    best = Accumulator(0, combiner(fold, dtype), start, dtype)
    hit = applied(Equal(), value, Accumulated(best, dtype), dtype=bool_)
    hit = applied(BitwiseOr(), hit, applied(IsNan(), value, dtype=bool_))
    counted = int32 if n < 1 << 31 else int64  # half the width: twice as many lanes
    places = Counter(at[op.axis], counted), Const(np.iinfo(counted).max, counted)
    first = Accumulator(1, combiner(least, counted), places[1].value, counted)
    first_place = applied(Cast(int64), Accumulated(first, counted), dtype=int64)
    if not op.keepdims:
        del at[op.axis]
    else:
        at[op.axis] = Index()
    body = (
        Loop(along, (Accumulate(best, value),), folds=(best,)),
        Loop(
            along, (Accumulate(first, applied(Select(), hit, *places)),), folds=(first,)
        ),
        Store(1, placed(at, strides(node)), first_place),
    )
    rows = [a for a in axes if a is not along]
    return _kernel(node, rows, body, ordered=False)


def search(node: Tensor, strides: Strides) -> Kernels:
    """The number of elements before each value, by binary search bit by bit."""
    op: Any = node.op
    row, values = node.inputs
    (n,) = row.type.shape
    axes = [LoopAxis(f"i{k}", m) for k, m in enumerate(values.type.shape)]
    at = [Index.of(a) for a in axes]
    bit = LoopAxis("bit", n.bit_length())
    count_before = Accumulator(0, None, 0, int64)
    count = Accumulated(count_before, int64)
    top = Counter(Index.of(1 << max(n.bit_length() - 1, 0)), int64)
    step = applied(RightShift(), top, Counter(Index.of(bit), int64))
    more, whole = applied(Add(), count, step), Counter(Index.of(n), int64)
    inside = applied(LessEqual(), more, whole, dtype=bool_)
    last = applied(Subtract(), applied(Minimum(), more, whole), Const(1, int64))
    place = Index(((Datum(last, max(n, 1)), 1),))
    element = Load(0, placed([place], strides(row)), row.type.dtype)
    value = Load(1, placed(at, strides(values)), values.type.dtype)
    passed = (_not_after if op.right else _before)(element, value)
    taken = applied(BitwiseAnd(), inside, passed)
    fold = Accumulate(count_before, applied(Select(), taken, more, count))
    store = Store(2, placed(at, strides(node)), count)
    return _kernel(node, axes, (Loop(bit, (fold,), folds=(count_before,)), store))


ORDERS: dict[type[Op], Callable[[Tensor, Strides], Kernels | None]] = {
    ArgSort: argsort,
    ArgMax: position,
    ArgMin: position,
    SearchSorted: search,
}
