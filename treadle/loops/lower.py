"""From nodes to expressions: what an element of a node is computed from, by family.

`Lowering.value(node, at)` is the expression of the element of `node` at the indices
`at`. A node that has a buffer is loaded; any other is written out by the rule of its
family, at indices that are arithmetic on loop axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.caches import cached
from treadle.base.dtypes import DType, bool_, float32, uint32
from treadle.base.slices import SliceRange
from treadle.base.types import Shape, Type
from treadle.graph.leaves import Argument
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.index import Datum, Index
from treadle.loops.kernel import Apply, Const, Counter, Expression, Guard, Inside, Load
from treadle.loops.random import halves, normal_bits, uniform_bits
from treadle.loops.window import POOLS, few_taps
from treadle.ops.compare import Less
from treadle.ops.elementwise import Add
from treadle.ops.families import Elementwise, Movement, Reduction
from treadle.ops.gather import Index as Gather
from treadle.ops.join import Concat
from treadle.ops.lookup import Embedding
from treadle.ops.movement import Reshape
from treadle.ops.padding import Pad
from treadle.ops.pick import OneHot, TakeAlong
from treadle.ops.random import NormalBits, Random, UniformBits
from treadle.ops.select import Select
from treadle.ops.slice import SetSlice, Unslice
from treadle.ops.window import Unfold, windows_along

At = tuple[Index, ...]
Guards = tuple[Guard, ...]
Strides = Callable[[Tensor], Sequence[int]]


def flat(at: Sequence[Index], shape: Shape) -> Index:
    """The place of an element in row-major order."""
    return Index.combined(at, steps(shape))


def unflatten(place: Index, shape: Shape) -> At:
    """The indices of the element at a place in row-major order."""
    at = []
    for n in reversed(shape):
        at.append(place % max(n, 1))
        place = place // max(n, 1)
    return tuple(reversed(at))


def placed(at: Sequence[Index], strides: Sequence[int]) -> Index:
    """The place of an element in memory with these strides, in elements."""
    return Index.combined(at, strides)


def row_major(node: Tensor) -> tuple[int, ...]:
    """The strides of a node whose last dimension is the innermost, in elements."""
    return steps(node.type.shape)


@cached(4096)
def steps(shape: Shape) -> tuple[int, ...]:
    """The strides of row-major memory, in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def broadcast(at: At, shape: Shape) -> At:
    """The indices at which an operand of `shape` is read for a result read at `at`."""
    read = at[len(at) - len(shape) :]
    if 1 not in shape:
        return read
    return tuple(Index() if n == 1 else i for i, n in zip(read, shape, strict=True))


def wide(dtype: DType) -> DType:
    """The type in which values of `dtype` are summed up."""
    return float32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


@cached(256)
def combiner(op: Reduction, dtype: DType) -> Op:
    """The scalar op that a reduction folds with."""
    a, b = (Tensor(Argument(k), (), Type((), dtype)) for k in range(2))
    return op.combine(a, b).op


def has_rule(op: Op, operands: int = 1) -> bool:
    """Whether an element of the op's result is an expression of its inputs.

    Among many joined operands none is chosen: each is copied to its place.
    """
    if type(op) is Concat and operands >= MANY:
        return False
    if isinstance(op, Elementwise):
        return bool(op.traits.primitive)
    if type(op) in POOLS:
        return few_taps(op)
    return isinstance(op, Movement) or type(op) in RULES


def is_computed(op: Op) -> bool:
    """Whether elements of the result take work: they are computed once, and kept."""
    return isinstance(op, (Elementwise, Random)) or type(op) in POOLS


MANY = 8  # joined operands, from which on each is copied
_virtual: dict[type[Op], bool] = {}


def is_virtual(node: Tensor) -> bool:
    """Whether a node is looked through: no value is computed, only chosen, or it is
    computed wherever it is read.
    """
    if node.mark is not None and "recomputed" in node.mark:
        return bool(node.mark["recomputed"])
    kind = type(node.op)
    virtual = _virtual.get(kind)
    if virtual is None:  # what depends on more than the type is computed
        virtual = _virtual[kind] = has_rule(node.op) and not is_computed(node.op)
    return virtual and (kind is not Concat or len(node.inputs) < MANY)


def recomputed(node: Tensor) -> None:
    """Mark a node of a program to be computed wherever it is read."""
    node.mark = {**(node.mark or {}), "recomputed": True}


def kept_in_memory(node: Tensor) -> None:
    """Mark a node of a program to be stored, though no value of it is computed."""
    node.mark = {**(node.mark or {}), "recomputed": False}


class Lowering:
    """Expressions of nodes over the axes of one kernel.

    `buffer` gives the number of the buffer of a node that is stored, or None for one
    that is to be computed, and `strides` how it lies there; `known` has what other
    statements of the kernel compute.
    """

    def __init__(
        self, buffer: Callable[[Tensor], int | None], strides: Strides = row_major
    ) -> None:
        self.buffer = buffer
        self.strides = strides
        self.known: dict[int, tuple[At, Expression]] = {}
        self._memo: dict[Any, Expression] = {}

    def value(self, node: Tensor, at: At, guards: Guards = ()) -> Expression:
        """The element of `node` at `at`; its loads happen only where guards hold."""
        if node.serial in self.known and self.known[node.serial][0] == at:
            return self.known[node.serial][1]
        key = node.serial, at, guards
        if key not in self._memo:
            number = self.buffer(node)
            if number is not None:
                place = placed(at, self.strides(node))
                element: Expression = Load(number, place, node.type.dtype, guards)
            else:
                element = self._rule(node, at, guards)
            self._memo[key] = element
        return self._memo[key]

    def forget(self) -> None:
        """Forget what was written out, but for what is known."""
        self._memo.clear()

    def _rule(self, node: Tensor, at: At, guards: Guards) -> Expression:
        op = node.op
        number = node.array
        if number is not None:  # one that a rule has written
            return Const(number[()], node.type.dtype)
        if isinstance(op, Elementwise):
            values = [
                self.value(x, broadcast(at, x.type.shape), guards) for x in node.inputs
            ]
            return Apply(op, tuple(values), node.type.dtype)
        if isinstance(op, Movement):
            (x,) = node.inputs
            if type(op) is Reshape and self._in_order(x):
                place = placed(at, row_major(node))
                return Load(self.buffer(x), place, node.type.dtype, guards)  # type: ignore[arg-type]
            source = tuple(Index.of(i) for i in op.index(at, x.type))
            return self.value(x, source, guards)
        if type(op) in POOLS:
            return POOLS[type(op)](self.value, node, at, guards)
        return RULES[type(op)](self, node, at, guards)

    def _in_order(self, x: Tensor) -> bool:
        """Whether a node is read from memory, in which its elements follow each other:
        another shape of it needs no division.
        """
        if x.serial in self.known or self.buffer(x) is None:
            return False
        return self.strides(x) == row_major(x)


def select(inside: Guards, x: Expression, y: Expression) -> Expression:
    """x where the guards hold, else y."""
    return Apply(Select(), (Inside(inside, bool_), x, y), x.dtype)


def _pad(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    x, border = node.inputs
    source, inside = [], []
    for i, n, (before, after) in zip(at, x.type.shape, node.op.widths, strict=True):  # type: ignore[attr-defined]
        source.append(i - before)
        if before or after:
            inside.append(Guard(i - before, 0, n))
    here = tuple(inside)
    value = self.value(x, tuple(source), guards + here)
    return select(here, value, self.value(border, (), guards)) if here else value


def _concat(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    axis = node.op.axis  # type: ignore[attr-defined]
    chosen: Expression | None = None
    start = 0
    for x in node.inputs:
        n = x.type.shape[axis]
        here = (Guard(at[axis] - start, 0, n),)
        # Where the guard holds there is one place: nothing is to be divided for it.
        place = Index() if n == 1 else at[axis] - start
        source = (*at[:axis], place, *at[axis + 1 :])
        if n:
            value = self.value(x, source, guards + here)
            chosen = value if chosen is None else select(here, value, chosen)
        start += n
    assert chosen is not None
    return chosen


def _within(op: Any, at: At) -> tuple[At, Guards]:
    """The place in a slice of an element of the whole, and whether it is in it."""
    source, inside = [], []
    for i, a, b, c in zip(at, op.starts, op.stops, op.steps, strict=True):
        n = SliceRange(a, b, c).count
        step = i - a if c > 0 else Index.of(a) - i
        if abs(c) > 1:
            shifted = step + abs(c) * n  # so that the remainder is of no negative
            inside.append(Guard(shifted % abs(c), 0, 1))
            place = shifted // abs(c) - n
        else:
            place = step
        source.append(place)
        inside.append(Guard(place, 0, n))
    return tuple(source), tuple(inside)


def _unslice(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    source, inside = _within(node.op, at)
    value = self.value(node.inputs[0], source, guards + inside)
    zero = Const(0, node.type.dtype)
    return select(inside, value, zero) if inside else value


def _set_slice(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    source, inside = _within(node.op, at)
    value = self.value(node.inputs[1], source, guards + inside)
    if not inside:
        return value
    return select(inside, value, self.value(node.inputs[0], at, guards))


def _position(
    self: Lowering, ids: Tensor, at: At, extent: int, negative: bool, guards: Guards
) -> Index:
    """The position that data names, counted from the end where it is negative."""
    value = self.value(ids, at, guards)
    dtype = ids.type.dtype
    if negative and dtype.kind == "i":
        below = Apply(Less(), (value, Const(0, dtype)), bool_)
        size = Counter(Index.of(extent), dtype)
        wrapped = Apply(Add(), (value, size), dtype)
        value = Apply(Select(), (below, wrapped, value), dtype)
    return Index(((Datum(value, extent), 1),))


def _take_along(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    x, ids = node.inputs
    op: Any = node.op
    axis = op.axis
    place = _position(self, ids, at, x.type.shape[axis], not op.labels, guards)
    return self.value(x, (*at[:axis], place, *at[axis + 1 :]), guards)


def _gather(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    x, *ids = node.inputs
    op: Any = node.op
    rank = max(i.type.ndim for i in ids)
    here = at[op.place : op.place + rank]
    rest = iter((*at[: op.place], *at[op.place + rank :]))
    places = {
        k: _position(
            self, i, broadcast(here, i.type.shape), x.type.shape[k], True, guards
        )
        for k, i in zip(op.axes, ids, strict=True)
    }
    source = tuple(places[k] if k in places else next(rest) for k in range(x.type.ndim))
    return self.value(x, source, guards)


def _embedding(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    table, ids = node.inputs
    rank = ids.type.ndim
    row = _position(self, ids, at[:rank], table.type.shape[0], False, guards)
    return self.value(table, (row, *at[rank:]), guards)


def _unfold(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    op: Any = node.op
    (x,) = node.inputs
    counts = windows_along(x.type.shape[2:], op.kernel, *op.sliding)
    channel, *place = unflatten(at[1], (x.type.shape[1], *op.kernel))
    source, inside = [at[0], channel], []
    rows = zip(
        unflatten(at[2], counts), place, x.type.shape[2:], *op.sliding, strict=True
    )
    for i, p, n, s, (before, after), d in rows:
        position = i * s + p * d - before
        source.append(position)
        if before or after:
            inside.append(Guard(position, 0, n))
    here = tuple(inside)
    value = self.value(x, tuple(source), guards + here)
    return select(here, value, Const(0, node.type.dtype)) if here else value


def _one_hot(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    (ids,) = node.inputs
    op: Any = node.op
    label = _position(self, ids, at[:-1], op.count, False, guards)
    hit = Inside((Guard(label - at[-1], 0, 1),), bool_)
    one, zero = Const(1, op.dtype), Const(0, op.dtype)
    return Apply(Select(), (hit, one, zero), op.dtype)


def _random(self: Lowering, node: Tensor, at: At, guards: Guards) -> Expression:
    (draw,) = node.inputs
    rule = RANDOM[type(node.op)]
    rank = draw.type.ndim - 1
    number = self.buffer(draw)
    if number is not None:
        # Both words of 64 bits of a draw, read as four of 32 in the host's order.
        place = placed(at[:rank], self.strides(draw)[:rank]) * 2
        words: list[Expression] = [Load(number, place + k, uint32) for k in range(4)]
    else:
        both = [self.value(draw, (*at[:rank], Index.of(k)), guards) for k in range(2)]
        words = [half for word in both for half in halves(word)]
    return rule(flat(at[rank:], node.type.shape[rank:]), words, node.type.dtype)


RANDOM: dict[type[Op], Callable[[Index, Sequence[Expression], DType], Expression]] = {
    UniformBits: uniform_bits,
    NormalBits: normal_bits,
}
RULES: dict[type[Op], Callable[[Lowering, Tensor, At, Guards], Expression]] = {
    Pad: _pad,
    Concat: _concat,
    Unslice: _unslice,
    SetSlice: _set_slice,
    TakeAlong: _take_along,
    Gather: _gather,
    Embedding: _embedding,
    OneHot: _one_hot,
    Unfold: _unfold,
    UniformBits: _random,
    NormalBits: _random,
}
