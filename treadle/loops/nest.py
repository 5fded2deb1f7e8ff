"""From a group of nodes to a kernel: one loop nest, in passes over its inner loops.

The axes of a group are its rows and, where it reduces, inner axes. A reduction is known
after a pass over the inner axes; what depends on it is computed in the next pass, so a
softmax is three passes over a row that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.base.dtypes import DType
from treadle.graph.tensor import Tensor
from treadle.loops.index import Axis
from treadle.loops.kernel import (
    Accumulator,
    Apply,
    Argument,
    Expression,
    Fold,
    Folded,
    Kernel,
    Loop,
    Statement,
    Store,
)
from treadle.loops.lower import At, Lowering, Strides, combiner, placed, row_major, wide
from treadle.ops.cast import Cast
from treadle.ops.families import Reduction

__all__ = ["Region", "kernel_of"]


@dataclass
class Region:
    """Nodes that one kernel computes, and where in its loops each one stands.

    `placement` gives the indices of a node in terms of the axes, and `reads` those at
    which a reduction reads its operand; nodes whose indices leave out the inner axes
    are computed once a row.
    """

    axes: tuple[Axis, ...]
    inner: frozenset[Axis] = frozenset()
    reads: dict[int, At] = field(default_factory=dict)  # where reductions read
    nodes: list[Tensor] = field(default_factory=list)
    placement: dict[int, At] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a not in self.inner)

    def is_full(self, node: Tensor) -> bool:
        """Whether a node has a value for each step of the inner loops."""
        at = self.placement[node.serial]
        return any(a in self.inner for i in at for a in i.axes())

    def folds(self, node: Tensor) -> bool:
        """Whether a node is folded in the inner loops; a sum of one term is not."""
        if not isinstance(node.op, Reduction):
            return False
        at = self.reads[node.serial]
        return any(a in self.inner for k in node.op.axes for a in at[k].axes())


class _Buffers:
    """The buffers of a kernel in the order they are first met."""

    def __init__(self, stored: Callable[[Tensor], bool]) -> None:
        self.stored = stored
        self.numbers: dict[int, int] = {}
        self.nodes: list[Tensor] = []

    def __call__(self, node: Tensor) -> int | None:
        if node.serial not in self.numbers:
            if not self.stored(node):
                return None
            self.numbers[node.serial] = len(self.nodes)
            self.nodes.append(node)
        return self.numbers[node.serial]


def kernel_of(
    region: Region,
    stored: Sequence[Tensor],
    has_buffer: Callable[[Tensor], bool],
    strides: Strides = row_major,
) -> tuple[Kernel, list[Tensor]]:
    """The kernel that computes a region, and the nodes its buffers belong to.

    `stored` are the members it writes; `has_buffer` tells of nodes outside of it, and
    `strides` how nodes lie in memory.
    """
    members = {n.serial for n in region.nodes}
    buffers = _Buffers(lambda n: n.serial not in members and has_buffer(n))
    lowering = Lowering(buffers, strides)
    passes = _passes(region)
    written = {n.serial for n in stored}
    count = 1 + max(passes.values(), default=0)
    folds: list[list[tuple[Accumulator, Expression]]] = [[] for _ in range(count)]
    stores: list[list[tuple[Tensor, Expression]]] = [[] for _ in range(count)]
    at_rows: list[tuple[Tensor, Expression]] = []
    for node in region.nodes:
        at = region.placement[node.serial]
        turn = passes[node.serial]
        if region.folds(node):
            number = sum(map(len, folds))
            accumulator, value = _fold(region, lowering, node, number)
            folds[turn - 1].append((accumulator, value))
            total: Expression = Folded(accumulator, accumulator.dtype)
            if accumulator.dtype != node.type.dtype:
                total = _cast(total, node)
            lowering.known[node.serial] = at, total
        elif isinstance(node.op, Reduction):  # of one element: that element
            (x,) = node.inputs
            value = lowering.value(x, region.reads[node.serial])
            lowering.known[node.serial] = at, value
        else:
            lowering.known[node.serial] = at, lowering.value(node, at)
        if node.serial in written:
            value = lowering.known[node.serial][1]
            if region.is_full(node):
                stores[turn].append((node, value))
            else:
                at_rows.append((node, value))
    first = len(buffers.nodes)
    for node in stored:
        buffers.numbers[node.serial] = len(buffers.nodes)
        buffers.nodes.append(node)

    def store(node: Tensor, value: Expression) -> Store:
        place = placed(region.placement[node.serial], strides(node))
        return Store(buffers.numbers[node.serial], place, value)

    body: list[Statement] = []
    for turn in range(count):
        statements: list[Statement] = [Fold(a, v) for a, v in folds[turn]]
        statements += [store(n, v) for n, v in stores[turn]]
        if statements:
            body += _nest(region, statements, tuple(a for a, _ in folds[turn]))
    body += [store(n, v) for n, v in at_rows]
    nest: tuple[Statement, ...] = tuple(body)
    for axis in reversed(region.rows):
        nest = (Loop(axis, nest, "parallel"),)
    arguments = tuple(
        Argument(n.type.dtype, k >= first) for k, n in enumerate(buffers.nodes)
    )
    name = "_".join(dict.fromkeys(n.op.name.lower() for n in region.nodes))[:48]
    return Kernel(name, arguments, nest), buffers.nodes


def _cast(total: Expression, node: Tensor) -> Expression:
    from_wide = Cast(node.type.dtype)
    return Apply(from_wide, (total,), node.type.dtype)


def _passes(region: Region) -> dict[int, int]:
    """How many passes over the inner loops come before each node is known."""
    found: dict[int, int] = {}
    for node in region.nodes:
        before = _pass_of(node, found)
        found[node.serial] = before + region.folds(node)
    return found


def _pass_of(node: Tensor, known: dict[int, int]) -> int:
    """The latest pass that one of the inputs of a node, looked through, waits for."""
    latest, stack, seen = 0, list(node.inputs), set()
    while stack:
        x = stack.pop()
        if x.serial in seen:
            continue
        seen.add(x.serial)
        if x.serial in known:
            latest = max(latest, known[x.serial])
        elif x.stored is None:
            stack += x.inputs
    return latest


def _fold(
    region: Region, lowering: Lowering, node: Tensor, number: int
) -> tuple[Accumulator, Expression]:
    """The accumulator of a reduction and what is folded into it."""
    op = node.op
    assert isinstance(op, Reduction)
    (x,) = node.inputs
    at = region.reads[node.serial]
    dtype = wide(node.type.dtype)
    combine = combiner(op, x.type.dtype)
    start = op.identity(x.type.dtype)
    if start is None:
        start = _lowest(op, dtype)
    value = lowering.value(x, at)
    if value.dtype != dtype:
        value = Apply(Cast(dtype), (value,), dtype)
    return Accumulator(number, combine, start, dtype), value


def _lowest(op: Reduction, dtype: DType) -> float | int:
    """The least or greatest number of a type: the start of a maximum or minimum."""
    below = op.name == "Max"
    if dtype.kind == "f":
        return -np.inf if below else np.inf
    if dtype.kind == "b":
        return not below
    limits = np.iinfo(dtype)
    return int(limits.min if below else limits.max)


def _nest(
    region: Region, body: list[Statement], folds: tuple[Accumulator, ...]
) -> list[Statement]:
    """The inner loops around a pass; the outermost one starts the accumulators."""
    inner = [a for a in region.axes if a in region.inner]
    nest: tuple[Statement, ...] = tuple(body)
    for axis in reversed(inner):
        outermost = axis is inner[0]
        nest = (Loop(axis, nest, "serial", folds=folds if outermost else ()),)
    return list(nest)
