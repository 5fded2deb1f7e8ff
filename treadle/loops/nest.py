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
from treadle.loops.index import Axis, Index
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
from treadle.loops.lower import (
    At,
    Lowering,
    Strides,
    combiner,
    is_virtual,
    placed,
    row_major,
    wide,
)
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
    work = _Work(region, Lowering(buffers, strides))
    for node in region.nodes:
        work.add(node)
    first = len(buffers.nodes)
    for node in stored:
        buffers.numbers[node.serial] = len(buffers.nodes)
        buffers.nodes.append(node)
    for node in stored:
        place = placed(region.placement[node.serial], strides(node))
        work.store(node, buffers.numbers[node.serial], place)
    arguments = tuple(
        Argument(n.type.dtype, k >= first) for k, n in enumerate(buffers.nodes)
    )
    name = "_".join(dict.fromkeys(n.op.name.lower() for n in region.nodes))[:48]
    return Kernel(name, arguments, work.nest()), buffers.nodes


class _Work:
    """What each pass over the inner loops folds and stores, and what a row stores."""

    def __init__(self, region: Region, lowering: Lowering) -> None:
        self.region = region
        self.lowering = lowering
        self.passes = _passes(region)
        count = 1 + max(self.passes.values(), default=0)
        self.folds: list[list[Fold]] = [[] for _ in range(count)]
        self.stores: list[list[Store]] = [[] for _ in range(count)]
        self.at_rows: list[Store] = []

    def add(self, node: Tensor) -> None:
        """Write out a member, whose operands have been."""
        region, lowering = self.region, self.lowering
        at = region.placement[node.serial]
        if region.folds(node):
            number = sum(map(len, self.folds))
            accumulator, value = _fold(region, lowering, node, number)
            self.folds[self.passes[node.serial] - 1].append(Fold(accumulator, value))
            found: Expression = Folded(accumulator, accumulator.dtype)
            if accumulator.dtype != node.type.dtype:
                found = _cast(found, node)
        elif isinstance(node.op, Reduction):  # of one element: that element
            found = lowering.value(node.inputs[0], region.reads[node.serial])
        else:
            found = lowering.value(node, at)
        lowering.known[node.serial] = at, found

    def store(self, node: Tensor, buffer: int, place: Index) -> None:
        """Store a member where its value is known: in its pass, or once a row."""
        own = Store(buffer, place, self.lowering.known[node.serial][1])
        if self.region.is_full(node):
            self.stores[self.passes[node.serial]].append(own)
        else:
            self.at_rows.append(own)

    def nest(self) -> tuple[Statement, ...]:
        """The loops around it all."""
        body: list[Statement] = []
        for folds, stores in zip(self.folds, self.stores, strict=True):
            if folds or stores:
                starts = tuple(f.accumulator for f in folds)
                body += _nest(self.region, [*folds, *stores], starts)
        nest: tuple[Statement, ...] = (*body, *self.at_rows)
        for axis in reversed(self.region.rows):
            nest = (Loop(axis, nest, "parallel"),)
        return nest


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
        elif is_virtual(x):
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
