"""Schedules of a kernel's loops: functions from kernel to kernel.

`schedule` splits axes until no index divides, merges axes that are one run of memory,
and chooses the axis whose steps are done several at once. None of it changes a value;
the order of a fold follows from its own extents and the width of the host's vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from treadle.base.symbolic import at_least, gcd, is_near, least, most
from treadle.loops.blocks import in_blocks
from treadle.loops.index import Index, LoopAxis, Quotient, Remainder
from treadle.loops.intervals import in_intervals, without_certain, without_wraps
from treadle.loops.kernel import (
    Accumulator,
    Apply,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    statements,
    values,
    within,
)
from treadle.loops.rewriting import rewritten

LONG = 8  # vectors: from so many on, a loop does four at once
NEAR = 3  # times as many or as few: what runs along them is written for both
LIGHT = 24  # ops: a longer body leaves no registers for more columns
ACCUMULATORS = 16  # vectors of accumulators that loops over rows may hold in registers


Bounds = tuple[Index | None, tuple[Index, ...]]


@dataclass(frozen=True)
class Nest:
    """A kernel taken apart: the row loops, and what stands inside of them.

    Rows along `turns` follow each other; `starts` are stored before the first of them.
    `bounds` has where loops that do not run over all of their extent begin and end.
    """

    rows: tuple[LoopAxis, ...]
    inner: tuple[LoopAxis, ...]
    passes: tuple[Pass | Store, ...]
    turns: tuple[LoopAxis, ...] = ()
    starts: tuple[Statement, ...] = ()
    bounds: tuple[tuple[LoopAxis, Bounds], ...] = ()

    def bounded(self) -> set[LoopAxis]:
        """The axes that are bounded, and those that they are bounded by."""
        by = [i for _, (start, stop) in self.bounds for i in (start, *stop) if i]
        axes = {a for i in by for index in within(i) for a in index.axes()}
        return axes | {axis for axis, _ in self.bounds}

    @property
    def groups(self) -> tuple[tuple[LoopAxis, ...], ...]:
        """Axes that may become others among their kind."""
        return self.rows, self.turns, self.inner


@dataclass(frozen=True)
class Pass:
    """Statements inside all inner loops, and the accumulators that start there."""

    folds: tuple[Accumulator, ...]
    body: tuple[Statement, ...]


def taken_apart(kernel: Kernel) -> Nest:
    """The loops of a kernel as `kernel_of` makes them."""
    rows: list[LoopAxis] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "parallel":
        rows.append(body[0].axis)
        body = body[0].body
    turns: list[LoopAxis] = []
    starts: tuple[Statement, ...] = ()
    while body and isinstance(body[-1], Loop) and body[-1].kind == "ordered":
        for s in body[:-1]:
            starts += _innermost(s)[1]
        turns.append(body[-1].axis)
        body = body[-1].body
    inner: tuple[LoopAxis, ...] = ()
    passes: list[Pass | Store] = []
    for s in body:
        if not isinstance(s, Loop):
            assert isinstance(s, Store)
            passes.append(s)
            continue
        inner, pass_body = _innermost(s)
        passes.append(Pass(s.folds, pass_body))
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.bounds]
    bounds = tuple((s.axis, (s.start, s.stop)) for s in loops)
    return Nest(tuple(rows), inner, tuple(passes), tuple(turns), starts, bounds)


def _innermost(s: Statement) -> tuple[tuple[LoopAxis, ...], tuple[Statement, ...]]:
    """The axes of loops that stand one in another, and what is inside of them all."""
    axes: list[LoopAxis] = []
    body: tuple[Statement, ...] = (s,)
    while len(body) == 1 and isinstance(body[0], Loop):
        axes.append(body[0].axis)
        body = body[0].body
    return tuple(axes), body


def put_together(
    kernel: Kernel, nest: Nest, vector: LoopAxis | None, lanes: int, short: int = 0
) -> Kernel:
    """The kernel of a nest, `vector` innermost among its kind and done `lanes` wide."""
    rows, inner, ends = list(nest.rows), list(nest.inner), dict(nest.bounds)
    for axes in (rows, inner):
        if vector in axes:
            axes.remove(vector)
            axes.append(vector)

    def around(p: Pass) -> tuple[Statement, ...]:
        inner_body = p.body
        for axis in reversed(inner):
            folds = p.folds if axis is inner[0] else ()
            kind = "vector" if axis == vector else "serial"
            several = lanes if axis == vector else 0
            loop = Loop(axis, inner_body, kind, several, folds, *ends.get(axis, ()))
            inner_body = (replace(loop, short_lanes=short) if several else loop,)
        return inner_body

    body: list[Statement] = []
    for p in nest.passes:
        body += around(p) if isinstance(p, Pass) else (p,)
    nested = tuple(body)
    for axis in reversed(nest.turns):
        nested = (Loop(axis, nested, "ordered", 0, (), *ends.get(axis, ())),)
    if nest.starts:
        nested = (*around(Pass((), nest.starts)), *nested)
    for axis in reversed(rows):
        kind = "vector" if axis == vector else "parallel"
        nested = (Loop(axis, nested, kind, lanes if axis == vector else 0),)
    return kernel.with_loops(nested)


def replaced(
    kernel: Kernel, by: Mapping[LoopAxis, Index], axes: list[LoopAxis]
) -> Kernel:
    """The kernel with axes replaced by indices; `axes` are all loops of its kind."""
    nest = taken_apart(kernel)
    changed = set(by)

    def loops(old: tuple[LoopAxis, ...]) -> tuple[LoopAxis, ...]:
        return tuple(axes) if changed & set(old) else old

    body = rewritten(kernel.body, lambda i: i.replaced(by), known=kernel.expressions)
    changed_kernel = kernel.with_body(body)
    inside = taken_apart(changed_kernel)
    rows, turns, inner = map(loops, nest.groups)
    whole = Nest(rows, inner, inside.passes, turns, inside.starts, inside.bounds)
    return put_together(changed_kernel, whole, None, 0)


def split(kernel: Kernel) -> Kernel:
    """Axes split in two where that turns quotients and remainders into linear forms."""
    for _ in range(16):
        divided = [
            atom
            for i in kernel.indices
            for atom, _ in i.terms
            if isinstance(atom, (Quotient, Remainder))
        ]
        if not divided:
            return kernel
        for atom in divided:
            split_kernel = _split_for(kernel, atom)
            if split_kernel is not None:
                kernel = split_kernel
                break
        else:
            return kernel
    return kernel


def _split_for(kernel: Kernel, atom: Quotient | Remainder) -> Kernel | None:
    """A kernel with one axis of `atom` split so that fewer divisions are left."""
    nest = taken_apart(kernel)
    before = _divisions(kernel)
    for axis, c in atom.index.terms:
        if not isinstance(axis, LoopAxis) or axis in nest.bounded():
            continue
        part = atom.divisor // gcd(c, atom.divisor)
        if not 1 < part < axis.extent or axis.extent % part:
            continue
        high = LoopAxis(f"{axis.name}h", axis.extent // part)
        low = LoopAxis(f"{axis.name}l", part)
        by = {axis: Index.of(high) * part + Index.of(low)}
        group = next((g for g in nest.groups if axis in g), nest.inner)
        axes = [x for a in group for x in ((high, low) if a == axis else (a,))]
        candidate = replaced(kernel, by, axes)
        if _divisions(candidate) < before:
            return candidate
    return None


def _divisions(kernel: Kernel) -> int:
    return sum(
        isinstance(atom, (Quotient, Remainder))
        for i in kernel.indices
        for atom, _ in i.terms
    )


def reorder(kernel: Kernel) -> Kernel:
    """Loops in the order of memory: what moves farthest in it is outermost."""
    nest = taken_apart(kernel)
    touched = _touched(kernel)

    def sorted_by_steps(axes: tuple[LoopAxis, ...]) -> tuple[LoopAxis, ...]:
        for i in touched:
            if all(i.coefficient(a) for a in axes):
                return tuple(sorted(axes, key=lambda a: -abs(i.coefficient(a))))
        return axes

    rows, inner = sorted_by_steps(nest.rows), nest.inner
    if not kernel.ordered:
        inner = sorted_by_steps(inner)
    if (rows, inner) == (nest.rows, nest.inner):
        return kernel
    return put_together(kernel, replace(nest, rows=rows, inner=inner), None, 0)


def _touched(kernel: Kernel) -> list[Index]:
    """The indices that a kernel writes at, and then those it reads values at. Those of
    positions that it reads by are none: what made them a kernel of its own has not."""
    written = [s.index for s in statements(kernel.body) if isinstance(s, Store)]
    return written + [e.index for e in values(kernel.body) if isinstance(e, Load)]


def merge(kernel: Kernel) -> Kernel:
    """Neighboring axes joined where every index runs through both as through one."""
    while True:
        nest = taken_apart(kernel)
        every, kept = kernel.indices, nest.bounded()
        for group in nest.groups:
            for a, b in itertools.pairwise(group):
                if (
                    a not in kept
                    and b not in kept
                    and all(_runs_on(i, a, b) for i in every)
                ):
                    kernel = _merged(kernel, group, a, b)
                    break
            else:
                continue
            break
        else:
            return kernel


def _runs_on(i: Index, a: LoopAxis, b: LoopAxis) -> bool:
    """Whether an index passes from the last step of b to the next of a evenly."""
    for atom, _ in i.terms:
        if isinstance(atom, (Quotient, Remainder)):
            inside = atom.index.axes()
            if a in inside or b in inside:
                return False
    return bool(i.coefficient(a) == i.coefficient(b) * b.extent)


def _merged(
    kernel: Kernel, group: tuple[LoopAxis, ...], a: LoopAxis, b: LoopAxis
) -> Kernel:
    """The kernel with b standing for both axes."""
    one = LoopAxis(f"{a.name}{b.name}", a.extent * b.extent)
    axes = [one if x == b else x for x in group if x != a]
    by = {a: Index(), b: Index.of(one)}
    return replaced(kernel, by, axes)


def vector_axis(kernel: Kernel) -> LoopAxis | None:
    """The axis along which most memory is next to each other.

    None that is bounded, or that others are bounded by: lanes have the same bounds.
    """
    nest = taken_apart(kernel)
    axes = [*nest.rows, *(() if kernel.ordered else nest.inner)]
    if nest.bounds:
        kept = nest.bounded()
        axes = [a for a in axes if a not in kept]
    inner = set(nest.inner)
    touched = _touched(kernel)  # where a value is chosen by is no memory
    if nest.inner and not kernel.ordered:
        # What is read or stored once a row is chosen by grouping: it decides no bit.
        touched = [i for i in touched if not inner.isdisjoint(i.axes())] or touched
    best, most_adjacent, chosen, longest = None, 0, 0, 0
    for axis in axes:
        adjacent = 0
        for i in touched:
            c = i.coefficient(axis)
            # Where a row is chosen by data, the next one lies anywhere.
            hidden = c == 0 and any(axis in j.axes() for j in within(i))
            adjacent += 1 if c == 1 else 0 if c == 0 and not hidden else -1
        steps = least(axis.extent, 16)
        if best is None or adjacent > most_adjacent:
            best, most_adjacent, chosen, longest = axis, adjacent, steps, steps
        elif adjacent == most_adjacent:
            # Longer ones up to a vector; then those that nothing is folded along, of
            # which the choice changes no bit; then later ones.
            if axis not in inner:
                better = at_least(steps, chosen)
            else:
                better = steps >= longest if best in inner else steps > longest
            if better:
                best, chosen = axis, steps
            longest = most(longest, steps)
    return best


def element_bytes(kernel: Kernel) -> int:
    """The width that decides how many elements a vector has: that of what is folded,
    whatever else a kernel reads or makes, as the order of a sum follows from it."""
    loops = (s for s in statements(kernel.body) if isinstance(s, Loop))
    folds = [a.dtype.itemsize for loop in loops for a in loop.folds]
    if folds and not kernel.ordered:
        return max(*folds, 4)
    sizes = [a.dtype.itemsize for a in kernel.arguments]
    sizes += [e.dtype.itemsize for e in kernel.expressions if e.dtype.kind == "f"]
    return max(max(sizes, default=4), 4) if sizes else 4


def lanes_for(extent: int, width: int) -> int:
    """The number of lanes: one vector, or four where the loop is long."""
    return 4 * width if at_least(extent, LONG * width) else width


def lanes_along(nest: Nest, axis: LoopAxis, width: int) -> tuple[int, int]:
    """The same of lanes that each have a part of a fold, whose bits it decides, and
    those of short axes where other sizes of the axis may be long, or short."""
    if len(nest.inner) == 1 and is_near(axis.extent, LONG * width, NEAR):
        return 4 * width, width
    return (4 * width if axis.extent >= LONG * width else width), 0


def lanes_across(extent: int, width: int, folds: int) -> int:
    """The number of columns folded at once: many, to read rows in long runs."""
    widest = ACCUMULATORS // max(folds, 1) * width
    lanes = width
    while 2 * lanes <= widest and at_least(extent, 2 * lanes):
        lanes *= 2
    return lanes


def lanes_apart(extent: int, width: int) -> int:
    """The number of lanes where each runs through memory of its own.

    Many at once would meet in few sets of the cache, as rows of 4096 bytes do.
    """
    return min(max(width // 2, 1), 1 << max(extent - 1, 0).bit_length())


def folds_in_lanes(kernel: Kernel) -> bool:
    """Whether each lane has folds of its own, which follow the steps of its loops."""
    kernel = _straight(kernel)
    return vector_axis(kernel) in taken_apart(kernel).rows


def _straight(kernel: Kernel) -> Kernel:
    """The kernel over as few axes as will do, in the order of memory."""
    return merge(reorder(split(kernel)))


def schedule(kernel: Kernel, vector_bytes: int) -> Kernel:
    """The kernel as it is to run on a host with vectors of so many bytes."""
    kernel = _straight(without_certain(kernel))
    axis = vector_axis(kernel)
    if axis is None:
        return in_blocks(kernel)
    kernel = without_wraps(kernel, axis)
    width = max(vector_bytes // element_bytes(kernel), 1)
    nest = taken_apart(kernel)
    if axis in nest.inner:
        lanes, short = lanes_along(nest, axis, width)
    else:
        lanes, short = lanes_for(axis.extent, width), 0
    folds = [len(p.folds) for p in nest.passes if isinstance(p, Pass)]
    ops = sum(isinstance(e, Apply) for e in kernel.expressions)
    if axis in nest.rows and any(folds) and not kernel.ordered and ops <= LIGHT:
        lanes = max(lanes, lanes_across(axis.extent, width, max(folds)))
    adjacent = any(i.coefficient(axis) == 1 for i in kernel.indices)
    if kernel.ordered and not adjacent:
        lanes = lanes_apart(axis.extent, width)
    result = put_together(kernel, nest, axis, lanes, short)
    if kernel.ordered:
        return result
    result = in_intervals(result, width, lambda extent: lanes_for(extent, width))
    return in_blocks(result)
