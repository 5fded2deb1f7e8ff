"""The gradient of a maximum over windows, as loops over the windows."""

from __future__ import annotations

from typing import Any

from treadle.base.dtypes import bool_
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested, zeros
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Const,
    Expression,
    Guard,
    Kernel,
    KernelArgument,
    Load,
    Statement,
    Store,
    applied,
)
from treadle.loops.lower import Strides, placed
from treadle.loops.window import lowest, outside, taps
from treadle.ops.bitwise import BitwiseAnd, BitwiseOr
from treadle.ops.compare import Equal, LogicalNot
from treadle.ops.elementwise import Add
from treadle.ops.parts import IsNan
from treadle.ops.select import Maximum, Select

Guards = tuple[Guard, ...]


def _overlap(op: Any) -> bool:
    """Whether an element may lie in several windows."""
    return any(
        d * (k - 1) + 1 > s
        for k, s, d in zip(op.kernel, op.stride, op.dilation, strict=True)
    )


def max_pool_gradient(node: Tensor, strides: Strides) -> Kernels:
    """Zeros, and then each window's value at its first greatest element."""
    op: Any = node.op
    x, g = node.inputs
    shape, dtype = x.type.shape, node.type.dtype
    axes = [LoopAxis(f"w{k}", n) for k, n in enumerate(g.type.shape)]
    at = tuple(map(Index.of, axes))
    share = Load(1, placed(at, strides(g)), g.type.dtype)
    zero = Const(0, dtype)
    body: list[Statement] = []
    values: list[tuple[Index, Guards, Expression]] = []
    for source, inside in taps(op, at, shape):
        loaded = Load(0, placed(source, strides(x)), x.type.dtype, inside)
        value = outside(loaded, inside, lowest(x.type.dtype))
        values.append((placed(source, strides(node)), inside, value))
    greatest: Expression = values[0][2]
    for _, _, value in values[1:]:
        greatest = applied(Maximum(), greatest, value)
    taken: Expression = Const(False, bool_)
    overlap = _overlap(op)
    for element, inside, value in values:
        hit = applied(Equal(), value, greatest, dtype=bool_)
        hit = applied(BitwiseOr(), hit, applied(IsNan(), value, dtype=bool_))
        hit = applied(BitwiseAnd(), hit, applied(LogicalNot(), taken))
        taken = applied(BitwiseOr(), taken, hit)
        element_value = applied(Select(), hit, share, zero)
        body.append(
            Store(2, element, element_value, Add() if overlap else None, inside)
        )
    arguments = (
        KernelArgument(x.type.dtype),
        KernelArgument(g.type.dtype),
        KernelArgument(dtype, True),
    )
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
    return steps if covered else [zeros(node, strides), *steps]
