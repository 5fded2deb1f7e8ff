"""Values carried along a dimension: one step after the other, other dimensions beside.

y[i] = step(y[i - 1], x[i], ...), and y[0] is the first element of the last operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.dtypes import DType, bool_, float32, float64
from treadle.base.types import Type
from treadle.graph.leaves import Argument
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Expression,
    Guard,
    Inside,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Store,
)
from treadle.loops.lower import Lowering, Strides, placed, wide
from treadle.ops.cast import Cast
from treadle.ops.recurrence import LinearRecurrence
from treadle.ops.scan import (
    CumulativeLogSumExp,
    CumulativeMax,
    CumulativeProd,
    CumulativeSum,
)
from treadle.ops.select import Select
from treadle.rewrite.expand import expand


def written(
    rule: Callable[..., Tensor], dtype: DType, values: Sequence[Expression]
) -> Expression:
    """A rule on tensors of no dimensions, as an expression of values of one dtype."""
    operands = [Tensor(Argument(k), (), Type((), dtype)) for k in range(len(values))]
    y = rule(*operands)
    values_of = {x.serial: v for x, v in zip(operands, values, strict=True)}
    graph = expand(reach([y]), values_of, {y.serial})
    lowering = Lowering(lambda node: None)
    for leaf, argument in zip(graph.leaves, graph.arguments, strict=True):
        value = values_of.get(leaf.serial)
        if value is None:
            number = leaf.array
            assert number is not None
            value = Const(number[()], leaf.type.dtype)
        lowering.known[argument.serial] = (), value
    return lowering.value(graph.roots[y.serial], ())


def converted(x: Expression, dtype: DType) -> Expression:
    """A value in a dtype."""
    return x if x.dtype == dtype else Apply(Cast(dtype), (x,), dtype)


def carried_in(op: Op, dtype: DType) -> DType:
    """The dtype of what a scan carries: a sum of many numbers is one in doubles."""
    dtype = wide(dtype)
    return float64 if isinstance(op, CumulativeSum) and dtype == float32 else dtype


def scan(node: Tensor, strides: Strides) -> Kernels:
    """The loop along the axis, with the result of the last step carried."""
    op: Any = node.op
    dtype = carried_in(op, node.type.dtype)
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(node.type.shape)]
    along = axes[op.axis]
    step = Index.of(along)
    at = [Index.of(a) for a in axes]
    at[op.axis] = along.extent - 1 - step if op.reverse else step
    xs = [
        converted(Load(k, placed(at, strides(x)), x.type.dtype), dtype)
        for k, x in enumerate(node.inputs)
    ]
    exclusive = getattr(op, "exclusive", False)
    carried = Accumulator(0, None, op.identity(dtype) if exclusive else 0, dtype)
    last = Accumulated(carried, dtype)
    following = written(op.step, dtype, (last, *xs))
    first = Inside((Guard(step, 0, 1),), bool_)
    value = Apply(Select(), (first, xs[-1], following), dtype)
    result = converted(last if exclusive else value, node.type.dtype)
    store = Store(len(xs), placed(at, strides(node)), result)
    inner = Loop(along, (store, Accumulate(carried, value)), "serial", folds=(carried,))
    rest = [a for a in axes if a is not along and a.extent != 1]
    arguments = [KernelArgument(x.type.dtype) for x in node.inputs]
    arguments.append(KernelArgument(node.type.dtype, True))
    kernel = Kernel(
        op.name.lower(),
        tuple(arguments),
        nested(rest, (inner,), "parallel"),
        ordered=True,
    )
    return [(kernel, [*node.inputs, node])]


SCANS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = dict.fromkeys(
    (
        CumulativeSum,
        CumulativeProd,
        CumulativeMax,
        CumulativeLogSumExp,
        LinearRecurrence,
    ),
    scan,
)
