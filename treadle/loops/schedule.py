"""Schedules of a kernel's loops: functions from kernel to kernel.

`schedule` splits axes until no index divides, merges axes that are one run of memory,
and chooses the axis whose steps are done several at once. None of it changes a value;
the order of a fold follows from its own extents and the width of the host's vectors.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from treadle.base.symbolic import at_least, gcd, is_near, least, most
from treadle.loops.apart import (
    Nest,
    Pass,
    put_together,
    replaced,
    taken_apart,
    unplaced,
)
from treadle.loops.blocks import in_blocks
from treadle.loops.index import Index, LoopAxis, Quotient, Remainder
from treadle.loops.intervals import in_intervals, without_certain, without_wraps
from treadle.loops.kernel import (
    Accumulate,
    Apply,
    Kernel,
    Load,
    Loop,
    Store,
    statements,
    values,
    within,
)

LONG = 8  # vectors: from so many on, a loop does four at once
NEAR = 3  # times as many or as few: what runs along them is written for both
LIGHT = 24  # ops: a longer body leaves no registers for more columns
ACCUMULATORS = 16  # vectors of accumulators that loops over rows may hold in registers


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

    def sorted_by_steps(
        axes: tuple[LoopAxis, ...], touched: list[Index]
    ) -> tuple[LoopAxis, ...]:
        for i in touched:
            if all(i.coefficient(a) for a in axes):
                return tuple(sorted(axes, key=lambda a: -abs(i.coefficient(a))))
        return axes

    touched = _touched(kernel)
    rows, inner = sorted_by_steps(nest.rows, touched), nest.inner
    if not kernel.ordered:
        inner = sorted_by_steps(inner, _folded(kernel) or touched)
    if (rows, inner) == (nest.rows, nest.inner):
        return kernel
    return put_together(kernel, replace(nest, rows=rows, inner=inner), None, 0)


def _touched(kernel: Kernel) -> list[Index]:
    """The indices that a kernel writes at, and then those it reads values at. Those of
    positions that it reads by are none: what made them a kernel of its own has not."""
    written = [s.index for s in statements(kernel.body) if isinstance(s, Store)]
    return written + [e.index for e in values(kernel.body) if isinstance(e, Load)]


def _folded(kernel: Kernel) -> list[Index]:
    """The places that decide the order of folds: those of what is folded. What else is
    read or stored is chosen by grouping, which decides no bit."""
    every = statements(kernel.body)
    return [s.place for s in every if isinstance(s, Accumulate) and s.place]


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
        touched = _folded(kernel) or touched
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
    nest = unplaced(taken_apart(kernel))
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
