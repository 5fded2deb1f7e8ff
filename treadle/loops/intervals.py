"""Loops over intervals in which conditions are known (index-set splitting).

Which part of a join an element is in, or whether it is in a border, is asked for each
element. Where that depends on the step of a vector loop alone, a loop for each interval
of steps in which the answer is the same asks nothing: it loads whole vectors and
chooses among none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from treadle.base.dtypes import bool_
from treadle.base.symbolic import at_least
from treadle.loops.index import Index, LoopAxis, Remainder
from treadle.loops.kernel import (
    Apply,
    Const,
    Expression,
    Guard,
    Inside,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    expressions,
    statements,
)
from treadle.loops.lower import select
from treadle.loops.rewriting import rewritten
from treadle.ops.select import Select

MOST = 16  # loops that one becomes


def without_certain(kernel: Kernel) -> Kernel:
    """The kernel without conditions that hold at every step, or at none."""
    asked = (x.guards for x in kernel.expressions if isinstance(x, (Load, Inside)))
    stored = (s.guards for s in statements(kernel.body) if isinstance(s, Store))
    if not any(asked) and not any(stored):
        return kernel
    return kernel.with_body(rewritten(kernel.body, lambda i: i, shared=decided))


def without_wraps(kernel: Kernel, axis: LoopAxis) -> Kernel:
    """The kernel with loads that wrap around along an axis as choices between two.

    Whole vectors are loaded where an index modulo an extent would gather elements.
    """
    places = (x.index for x in kernel.expressions if isinstance(x, Load))
    if not any(_wrap(i, axis) for i in places):
        return kernel

    def chosen(x: Load) -> Expression:
        atom = _wrap(x.index, axis)
        if atom is None:
            return x
        here, n, step = atom.index, atom.divisor, dict(x.index.terms)[atom]
        rest = x.index - Index.of(atom) * step
        first, beyond = Guard(here, 0, n), Guard(here, n, 2 * n)
        near = Load(x.buffer, rest + here * step, x.dtype, (*x.guards, first))
        far = Load(x.buffer, rest + (here - n) * step, x.dtype, (*x.guards, beyond))
        return select((first,), chosen(near), chosen(far))

    return kernel.with_body(rewritten(kernel.body, lambda i: i, load=chosen))


def _wrap(index: Index, axis: LoopAxis) -> Remainder | None:
    """The part of an index that follows the axis and wraps around once at most."""
    for atom, _ in index.terms:
        if isinstance(atom, Remainder) and atom.index.coefficient(axis) == 1:
            low, high = atom.index.bounds()
            if low >= 0 and high < 2 * atom.divisor:
                return atom
    return None


def in_intervals(kernel: Kernel, width: int, lanes: Callable[[int], int]) -> Kernel:
    """The kernel with its vector loops, if inside of others, cut where conditions turn.

    No loop gets shorter than a vector of `width` elements: around a narrower border,
    conditions are asked in one. `lanes` has the steps that one of so many does at once.
    """

    def cut(s: Statement) -> tuple[Statement, ...]:
        if not isinstance(s, Loop):
            return (s,)
        if s.kind == "vector":
            return _cut(s, width, lanes)
        inner = tuple([t for statement in s.body for t in cut(statement)])
        return (s if inner == s.body else replace(s, body=inner),)

    def around(s: Statement) -> Statement:
        (statement,) = cut(s) if isinstance(s, Loop) and s.kind != "vector" else (s,)
        return statement

    body = tuple([around(s) for s in kernel.body])
    return kernel if body == kernel.body else kernel.with_body(body)


def _cut(loop: Loop, width: int, lanes: Callable[[int], int]) -> tuple[Statement, ...]:
    """A vector loop as several; itself if it folds, or if one would be too short."""
    if loop.folds or loop.bounds or not all(isinstance(s, Store) for s in loop.body):
        return (loop,)
    extent = loop.axis.extent
    turns = {n for g in _guards(loop.body) for n in _turns(g, loop.axis)}
    within = sorted(n for n in turns if 0 < n < extent)
    parts = list(pairwise(_ends(within, extent, width)))
    asked = [any(a < n < b for n in within) for a, b in parts]
    if all(asked) or not 1 < len(parts) <= MOST:
        return (loop,)
    return tuple([_part(loop, k, a, b, lanes) for k, (a, b) in enumerate(parts)])


def _ends(turns: Sequence[int], extent: int, width: int) -> list[int]:
    """The ends of intervals: at turns, or so near that none is narrower."""
    ends, is_narrow = [0], False
    for n in (*turns, extent):
        if not at_least(n - ends[-1], width):
            is_narrow = True
            continue
        if is_narrow and n - ends[-1] >= 2 * width:
            ends.append(ends[-1] + width)
        ends.append(n)
        is_narrow = False
    if is_narrow and len(ends) > 1:  # the last one takes of the one before
        start = ends.pop()
        if start > extent - width >= ends[-1] + width:
            ends.append(extent - width)
    return ends if ends[-1] == extent else [*ends, extent]


def _part(
    loop: Loop, number: int, start: int, end: int, lanes: Callable[[int], int]
) -> Loop:
    """The steps of a loop from `start` to `end`."""
    axis = LoopAxis(f"{loop.axis.name}_{number}", end - start)
    by = {loop.axis: Index.of(axis) + start}
    body = rewritten(loop.body, lambda i: i.replaced(by), shared=decided)
    extent = axis.extent
    return replace(loop, axis=axis, body=body, lanes=lanes(extent), short_lanes=0)


def _guards(body: tuple[Statement, ...]) -> list[Guard]:
    guards = [g for s in body if isinstance(s, Store) for g in s.guards]
    for x in expressions(body):
        if isinstance(x, (Load, Inside)):
            guards += x.guards
    return guards


def _turns(guard: Guard, axis: LoopAxis) -> tuple[int, ...]:
    """The steps from which on a guard holds, or does no more, if it asks no others."""
    ((atom, c), *more) = guard.index.terms or ((None, 0),)
    if more or atom != axis or abs(c) != 1:
        return ()
    first, last = guard.low - guard.index.constant, guard.high - guard.index.constant
    return (first, last) if c == 1 else (1 - last, 1 - first)


def _holds(guard: Guard) -> bool | None:
    """Whether a guard always holds, or never; None if that depends."""
    low, high = guard.index.bounds()
    if guard.low <= low and high < guard.high:
        return True
    return False if high < guard.low or low >= guard.high else None


def decided(x: Expression | Statement) -> Expression | Statement:
    """An expression or a statement without the conditions that are known."""
    if isinstance(x, Apply) and isinstance(x.op, Select):
        condition, yes, no = x.inputs
        if isinstance(condition, Const):
            return yes if condition.value else no
    if not isinstance(x, (Load, Inside, Store)) or not x.guards:
        return x
    known = [(g, _holds(g)) for g in x.guards]
    if not isinstance(x, Store) and any(holds is False for _, holds in known):
        return Const(0, x.dtype)
    left = tuple([g for g, holds in known if holds is not True])
    if isinstance(x, Inside) and not left:
        return Const(1, bool_)
    return x if left == x.guards else replace(x, guards=left)
