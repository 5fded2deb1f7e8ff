"""Compensated summation in blocks: rounding does not grow with the length of a sum.

A block is added up by itself, and then to the blocks before it, with what that addition
rounds away kept beside (Knuth's two-sum). The error is that of one block, however many
there are, and its order follows from the extents of the loops alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import le

from treadle.base.dtypes import bool_
from treadle.base.symbolic import is_same, stays_below
from treadle.loops.index import Index, LoopAxis
from treadle.loops.intervals import decided
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
    Load,
    Loop,
    Statement,
    statements,
)
from treadle.loops.rewriting import rewritten
from treadle.ops.cast import Cast
from treadle.ops.compare import Less
from treadle.ops.elementwise import Add, Subtract
from treadle.ops.rounding import Abs
from treadle.ops.select import Select
from treadle.rewrite.cut import STEPS

SHARED = 32  # additions where the lanes of vectors share a sum: their errors cancel


def in_blocks(kernel: Kernel) -> Kernel:
    """The scheduled kernel with its long sums in blocks, and folds of parts bounded.

    Folds over the steps for which one guard holds run over these alone.
    """
    numbers = [a.number for a in _accumulators(kernel)]
    if kernel.ordered or not numbers:
        return kernel
    work = _Blocks(itertools.count(1 + max(numbers)))
    body = tuple([work.statement(s, None) for s in kernel.body])
    if work.totals:
        body = rewritten(body, lambda i: i, shared=work.total)
    return kernel if body == kernel.body else kernel.with_body(body)


def _accumulators(kernel: Kernel) -> Iterator[Accumulator]:
    for s in statements(kernel.body):
        if isinstance(s, Loop):
            yield from s.folds


class _Blocks:
    """The sums that were cut in blocks: each with its total and what that leaves."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers
        self.totals: dict[Accumulator, tuple[Accumulator, Accumulator]] = {}

    def statement(self, s: Statement, lanes: LoopAxis | None) -> Statement:
        """A statement inside of a loop over rows that are `lanes`, if that is given."""
        if not isinstance(s, Loop):
            return s
        if s.folds:
            return self.fold(s, lanes)
        inner = s.axis if s.lanes else lanes
        return replace(s, body=tuple([self.statement(t, inner) for t in s.body]))

    def fold(self, s: Loop, lanes: LoopAxis | None) -> Loop:
        """A loop in which folds begin."""
        nest, body = _nest(s)
        if any(loop.folds for loop in nest[1:]):
            return s
        return self.cut(*_bounded(nest, body, lanes))

    def cut(self, nest: list[Loop], body: tuple[Statement, ...]) -> Loop:
        """Loops around a body, with the sums that they carry in blocks."""
        long = [a for a in nest[0].folds if _rounds(a)]
        place, size = _block(nest) if long else (-1, 0)
        if place < 0:
            return _around(nest, body)
        parts = {a: replace(a, number=next(self.numbers)) for a in long}
        flush: list[Statement] = []
        for a in long:
            total = replace(a, number=next(self.numbers))
            lost = replace(a, number=next(self.numbers))
            self.totals[a] = total, lost
            part = Accumulated(parts[a], a.dtype)
            flush.append(Accumulate(lost, _lost(Accumulated(total, a.dtype), part)))
            flush.append(Accumulate(total, part))
        body = tuple([_into(s, parts) for s in body])
        outer, loop, inner = nest[:place], nest[place], nest[place + 1 :]
        folds = tuple(parts.values())
        if size == 1:
            inner[0] = replace(inner[0], folds=folds)
            outer.append(loop)
        else:
            width = size * max(loop.lanes, 1)
            block = LoopAxis(f"{loop.axis.name}b", loop.axis.extent)
            first = Index(((block, 1),))
            stop = (first + width, *loop.stop)
            inner = [replace(loop, folds=folds, start=first, stop=stop), *inner]
            ends = loop.start, loop.stop
            outer.append(Loop(block, (), "serial", 0, (), *ends, stride=width))
        carried = [a for a in nest[0].folds if a not in parts]
        carried += [x for a in long for x in self.totals[a]]
        outer[0] = replace(outer[0], folds=tuple(carried))
        return _around(outer, (_around(inner, body), *flush))

    def total(self, x: Expression | Statement) -> Expression | Statement:
        """The value of a sum that was cut."""
        if not isinstance(x, Accumulated) or x.accumulator not in self.totals:
            return x
        total, lost = [Accumulated(a, a.dtype) for a in self.totals[x.accumulator]]
        return _whole(total, lost)


def _rounds(a: Accumulator) -> bool:
    return isinstance(a.combine, Add) and a.dtype.kind == "f"


def _lost(total: Expression, part: Expression) -> Expression:
    """The rounding error of the addition of a part to a total."""
    dtype = total.dtype
    after = Apply(Add(), (total, part), dtype)
    added = Apply(Subtract(), (after, total), dtype)
    kept = Apply(Subtract(), (after, added), dtype)
    of_total = Apply(Subtract(), (total, kept), dtype)
    of_part = Apply(Subtract(), (part, added), dtype)
    return Apply(Add(), (of_total, of_part), dtype)


def _whole(total: Expression, lost: Expression) -> Expression:
    """A total with what its additions have lost, which is no number if it is none."""
    dtype = total.dtype
    some = Apply(Less(), (Const(0, dtype), Apply(Abs(), (lost,), dtype)), bool_)
    both = Apply(Add(), (total, lost), dtype)
    return Apply(Select(), (some, both, total), dtype)


def _into(s: Statement, parts: dict[Accumulator, Accumulator]) -> Statement:
    """A statement that folds into the part of a sum."""
    if isinstance(s, Accumulate) and s.accumulator in parts:
        return Accumulate(parts[s.accumulator], s.value)
    return s


def _nest(s: Loop) -> tuple[list[Loop], tuple[Statement, ...]]:
    """Loops that stand one in another, and what is inside of them all."""
    nest = [s]
    while len(nest[-1].body) == 1 and isinstance(nest[-1].body[0], Loop):
        nest.append(nest[-1].body[0])
    return nest, nest[-1].body


def _around(nest: Sequence[Loop], body: tuple[Statement, ...]) -> Loop:
    """A body inside of loops that stand one in another."""
    for loop in reversed(nest):
        body = (replace(loop, body=body),)
    (outermost,) = body
    assert isinstance(outermost, Loop)
    return outermost


def _block(nest: Sequence[Loop]) -> tuple[int, int]:
    """The loop that blocks are cut from, and how many of its steps are one block.

    -1 where all steps are one.
    """
    most = SHARED if any(loop.lanes for loop in nest) else STEPS
    inside = 1
    for place in reversed(range(len(nest))):
        loop = nest[place]
        steps = -(-loop.axis.extent // max(loop.lanes, 1))
        size = 1 << (most // inside).bit_length() - 1
        # A sum that is one block has its bits: sizes need not tell how many there are.
        cuts = place == 0 and is_same(inside * size, most)
        one = stays_below if cuts else le
        if not one(inside * steps, most):
            return place, size
        inside *= steps
    return -1, 0


def _bounded(
    nest: list[Loop], body: tuple[Statement, ...], lanes: LoopAxis | None
) -> tuple[list[Loop], tuple[Statement, ...]]:
    """A fold of the steps for which a guard holds as one that ends with them.

    What is folded elsewhere must change nothing. Lanes have the same bounds.
    """
    common: list[Guard] | None = None
    for s in body:
        guards = _guards(s)
        common = guards if common is None else [g for g in common if g in guards]
    for g in common or ():
        inner = [k for k, loop in enumerate(nest) if g.index.coefficient(loop.axis)]
        plain = all(
            isinstance(atom, LoopAxis) and atom != lanes for atom, _ in g.index.terms
        )
        if len(inner) != 1 or not plain or g.index.bounds()[0] < g.low:
            continue
        loop = nest[inner[0]]
        if g.index.coefficient(loop.axis) != 1:
            continue
        stop = Index.of(g.high) - g.index + Index.of(loop.axis)
        nest = list(nest)
        nest[inner[0]] = replace(loop, stop=(*loop.stop, stop))
        return nest, rewritten(body, lambda i: i, shared=partial(_under, g))
    return nest, body


def _guards(s: Statement) -> list[Guard]:
    """The guards outside of which a statement folds what changes nothing."""
    if not isinstance(s, Accumulate):
        return []
    value = s.value
    while isinstance(value, Apply) and isinstance(value.op, Cast):
        (value,) = value.inputs
    if not isinstance(value, Apply) or not isinstance(value.op, Select):
        return []
    condition, _, other = value.inputs
    idle = isinstance(other, Const) and other.value == s.accumulator.start
    return list(condition.guards) if isinstance(condition, Inside) and idle else []


def _under(guard: Guard, x: Expression | Statement) -> Expression | Statement:
    """An expression where a guard holds."""
    if isinstance(x, (Load, Inside)) and guard in x.guards:
        left = tuple([g for g in x.guards if g != guard])
        x = replace(x, guards=left) if left or isinstance(x, Load) else _true
    return decided(x)


_true = Const(1, bool_)
