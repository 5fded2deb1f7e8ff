"""Rows of unequal length, one after another: loops that begin and end where data say.

Row i has the elements from starts[i] up to starts[i + 1]. What they are joined to waits
in registers, whole vectors of columns side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.dtypes import bool_, int64
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested, zeros
from treadle.loops.index import Datum, Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Expression,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
)
from treadle.loops.lower import Strides, placed, wide
from treadle.loops.scan import converted
from treadle.ops.compare import Less
from treadle.ops.elementwise import Add, Multiply
from treadle.ops.segments import SegmentSum
from treadle.ops.select import Select
from treadle.ops.sparse import CSRDots, CSRMatMul

_ADD = Add()


def segment(
    axis: LoopAxis,
    body: tuple[Statement, ...],
    starts: Sequence[Expression],
    kind: str = "serial",
    folds: tuple[Accumulator, ...] = (),
) -> Loop:
    """A loop over the elements of a row, which lies between two starts.

    Starts lie in 0 .. extent and do not fall: a pair that does not is out of range.
    """
    extent = axis.extent + 1
    begin, end = [converted(x, int64) for x in starts]
    falls = Apply(Less(), (end, begin), bool_)
    last = Apply(Select(), (falls, Const(-1, int64), end), int64)
    bounds = [Index(((Datum(x, extent), 1),)) for x in (begin, last)]
    return Loop(axis, body, kind, folds=folds, start=bounds[0], stop=(bounds[1],))


class _Parts:
    """Elements in rows between starts, and dense rows: loops, and loads of operands."""

    def __init__(
        self, node: Tensor, starts: int, count: int, width: tuple[int, ...], of: Strides
    ) -> None:
        """`starts` is an operand, `count` the number of elements."""
        self.node, self.strides, self.starts = node, of, starts
        rows = node.inputs[starts].type.size - 1
        self.row, self.element = LoopAxis("i0", rows), LoopAxis("k", count)
        self.columns = [LoopAxis(f"i{k + 1}", n) for k, n in enumerate(width)]
        self.at = Index.of(self.row)
        self.place = Index(((self.element, 1),))  # the only one of its extent, too
        self.column_indices = [Index.of(a) for a in self.columns]

    def load(self, operand: int, *at: Index) -> Load:
        x = self.node.inputs[operand]
        return Load(operand, placed(at, self.strides(x)), x.type.dtype)

    def wide(self, operand: int, *at: Index) -> Expression:
        """An element of an operand, as it takes part in a sum."""
        return converted(self.load(operand, *at), wide(self.node.type.dtype))

    def column(self, operand: int, extent: int) -> Index:
        """The place of the dense row that an element meets, by an operand."""
        return Index(((Datum(self.load(operand, self.place), extent), 1),))

    def loop(
        self,
        body: tuple[Statement, ...],
        kind: str = "serial",
        folds: tuple[Accumulator, ...] = (),
    ) -> Loop:
        """The elements of a row."""
        starts = [self.load(self.starts, self.at + k) for k in range(2)]
        return segment(self.element, body, starts, kind, folds)

    def sum(self) -> Accumulator:
        return Accumulator(0, _ADD, 0, wide(self.node.type.dtype))

    def product(self, x: Expression, y: Expression) -> Expression:
        return Apply(Multiply(), (x, y), wide(self.node.type.dtype))

    def store(
        self, place: Sequence[Index], x: Expression, combine: Op | None = None
    ) -> Store:
        index = placed(place, self.strides(self.node))
        number = len(self.node.inputs)
        return Store(number, index, converted(x, self.node.type.dtype), combine)

    def folded(self, value: Expression) -> tuple[Kernel, list[Tensor]]:
        """Each row of the result is the sum of what its elements give."""
        total = self.sum()
        fold = self.loop((Accumulate(total, value),), folds=(total,))
        store = self.store(
            (self.at, *self.column_indices), Accumulated(total, total.dtype)
        )
        return self.kernel([self.row, *self.columns], (fold, store))

    def kernel(
        self, axes: list[LoopAxis], body: tuple[Statement, ...], ordered: bool = False
    ) -> tuple[Kernel, list[Tensor]]:
        loops = nested([a for a in axes if a.extent != 1], body, "parallel")
        arguments = [KernelArgument(x.type.dtype) for x in self.node.inputs]
        arguments.append(KernelArgument(self.node.type.dtype, True))
        name = self.node.op.name.lower()
        kernel = Kernel(name, tuple(arguments), loops, ordered=ordered)
        return kernel, [*self.node.inputs, self.node]


def product(node: Tensor, strides: Strides) -> Kernels:
    """Each row's elements times the rows of x they meet, summed up in registers.

    Transposed, they are added where they belong, one after the other, for columns that
    are side by side.
    """
    op: Any = node.op
    data, x = node.inputs[0], node.inputs[3]
    parts = _Parts(node, 2, data.type.size, x.type.shape[1:], strides)
    element = parts.wide(0, parts.place)
    if op.transposed:
        value = parts.product(element, parts.wide(3, parts.at, *parts.column_indices))
        target = parts.column(1, op.columns), *parts.column_indices
        inner = parts.loop((parts.store(target, value, _ADD),))
        rows = nested([parts.row], (inner,), "serial")
        return [zeros(node, strides), parts.kernel(parts.columns, rows, ordered=True)]
    meets = parts.wide(3, parts.column(1, x.type.shape[0]), *parts.column_indices)
    return [parts.folded(parts.product(element, meets))]


def total(node: Tensor, strides: Strides) -> Kernels:
    """The elements of each row, summed up in registers."""
    x = node.inputs[1]
    parts = _Parts(node, 0, x.type.shape[0], x.type.shape[1:], strides)
    return [parts.folded(parts.wide(1, parts.place, *parts.column_indices))]


def dots(node: Tensor, strides: Strides) -> Kernels:
    """The products of the two dense rows of each element; 0 in no row."""
    indices, _, a, b = node.inputs
    parts = _Parts(node, 1, indices.type.size, a.type.shape[1:], strides)
    meets = parts.wide(3, parts.column(0, b.type.shape[0]), *parts.column_indices)
    value = parts.product(parts.wide(2, parts.at, *parts.column_indices), meets)
    body: tuple[Statement, ...] = (parts.store((parts.place,), value),)
    if parts.columns:
        total = parts.sum()
        along = Loop(parts.columns[0], (Accumulate(total, value),), folds=(total,))
        body = along, parts.store((parts.place,), Accumulated(total, total.dtype))
    return [
        zeros(node, strides),
        parts.kernel([parts.row], (parts.loop(body, "ordered"),)),
    ]


SEGMENTS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = {
    CSRMatMul: product,
    CSRDots: dots,
    SegmentSum: total,
}
