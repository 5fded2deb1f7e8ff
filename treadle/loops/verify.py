"""The verifier of kernels: what must hold, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from treadle.base.errors import RunError
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Fetch,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    expressions,
    indices,
    inside,
    replacing,
    statements,
    within,
)


def kernel_problems(kernel: Kernel) -> list[str]:
    """The faults of a kernel; none of one that is right.

    Axes are used inside their loops, accumulators inside or after theirs; a carried
    value has no lanes to join and is not read in a step that has replaced it. Rows that
    follow each other join what they leave in one place. Buffers exist, have the dtype
    they are stored with, and are written only if they say so. Where a loop begins and
    ends is known before it, and is the same in all lanes.
    """
    problems: list[str] = []
    _check(kernel, kernel.body, [], [], [], problems)
    for s in statements(kernel.body):
        if isinstance(s, Store):
            if s.buffer >= len(kernel.arguments):
                problems.append(f"b{s.buffer} is no buffer")
            elif not kernel.arguments[s.buffer].written:
                problems.append(f"b{s.buffer} is stored to but not marked as written")
            elif kernel.arguments[s.buffer].dtype != s.value.dtype:
                problems.append(f"b{s.buffer} is stored {s.value.dtype.name}")
        if isinstance(s, Fetch) and s.buffer >= len(kernel.arguments):
            problems.append(f"b{s.buffer} is no buffer")
    for loop in statements(kernel.body):
        if isinstance(loop, Loop) and loop.kind == "ordered":
            problems += _lost(kernel, loop)
    for x in kernel.expressions:
        if isinstance(x, Load) and x.buffer >= len(kernel.arguments):
            problems.append(f"b{x.buffer} is no buffer")
    return problems


def _check(
    kernel: Kernel,
    body: tuple[Statement, ...],
    axes: list[LoopAxis],
    lanes: list[LoopAxis],
    folds: list[Accumulator],
    problems: list[str],
) -> None:
    known = list(folds)
    replaced: list[Accumulator] = []
    new: list[Accumulator] = []
    for k, s in enumerate(body):
        if new and not replacing(body[k : k + 1]):  # they are at once
            replaced, new = [*replaced, *new], []
        if isinstance(s, Loop):
            if s.axis in axes:
                problems.append(
                    f"axis {s.axis.name} has two loops, one inside the other"
                )
            if s.kind not in ("parallel", "ordered", "serial", "vector"):
                problems.append(f"a loop is {s.kind}")
            if (s.kind == "vector") != bool(s.lanes):
                problems.append(
                    f"loop {s.axis.name} is {s.kind} and has {s.lanes} lanes"
                )
            if s.kind == "parallel" and s.folds:
                problems.append(f"parallel loop {s.axis.name} folds")
            if s.kind == "parallel" and s.bounds:
                problems.append(f"parallel loop {s.axis.name} is bounded")
            problems += _bounds(s, axes, lanes, known)
            known += s.folds
            if any(isinstance(t, Loop) and t.lanes for t in statements((s,))):
                problems += [
                    f"a{a.number} is carried across lanes"
                    for a in s.folds
                    if a.combine is None
                ]
            inner_lanes = [*lanes, s.axis] if s.lanes else lanes
            _check(kernel, s.body, [*axes, s.axis], inner_lanes, known, problems)
            continue
        if isinstance(s, Accumulate) and s.accumulator not in known:
            problems.append(f"a{s.accumulator.number} is folded into before it starts")
        if isinstance(s, Fetch):
            problems += _outside(s.index, axes)
        for x in expressions((s,)):
            if isinstance(x, Accumulated) and x.accumulator not in known:
                problems.append(f"a{x.accumulator.number} is read before it starts")
            if isinstance(x, Accumulated) and x.accumulator in replaced:
                problems.append(f"a{x.accumulator.number} is read after its step")
            for i in indices(x):
                problems += _outside(i, axes)
        if isinstance(s, Accumulate) and s.accumulator.combine is None:
            if s.accumulator in new:
                problems.append(f"a{s.accumulator.number} is replaced twice at once")
            new.append(s.accumulator)


def _bounds(
    s: Loop, axes: list[LoopAxis], lanes: list[LoopAxis], folds: list[Accumulator]
) -> list[str]:
    """The faults of the bounds of a loop: known before it, alike in all lanes."""
    problems = []
    for i in s.bounds:
        values = [x for e in i.data() for x in inside(e)]
        for index in within(i):
            problems += _outside(index, axes)
            if any(a in lanes for a in index.axes()):
                problems.append(f"loop {s.axis.name} ends elsewhere in each lane")
        problems += [
            f"a{x.accumulator.number} is read before it starts"
            for x in values
            if isinstance(x, Accumulated) and x.accumulator not in folds
        ]
    return problems


def _lost(kernel: Kernel, loop: Loop) -> list[str]:
    """The stores of rows that overwrite what rows before them have left."""
    return [
        f"b{s.buffer} is overwritten from step to step of {loop.axis.name}"
        for s in statements(loop.body)
        if isinstance(s, Store)
        and s.combine is None
        and loop.axis not in s.index.axes()
        and not kernel.arguments[s.buffer].scratch
    ]


def _outside(i: Index, axes: list[LoopAxis]) -> list[str]:
    return [
        f"axis {a.name} is used outside of its loop" for a in i.axes() if a not in axes
    ]


def store_problems(kernel: Kernel, sizes: Sequence[int], whole: bool) -> list[str]:
    """The stores that leave their buffers; and if those are to be stored `whole`, the
    buffers that stores do not fill.

    `sizes` are the elements of the real buffers; the kernel has numbers. A loop without
    steps stores nothing, so a buffer without elements has stores in such loops alone.
    """
    problems = []
    every = [*sizes, *[a.scratch for a in kernel.arguments[len(sizes) :]]]
    filled: dict[int, list[int | None]] = {}  # elements by store
    for s, loops in _stores(kernel.body, ()):
        number, size = s.buffer, every[s.buffer]
        low, high = _reached(s)
        around = [loop.axis for loop in loops]
        problems += [f"b{number}: {problem}" for problem in _outside(s.index, around)]
        runs = all(axis.extent for axis in around)
        if runs and not 0 <= low <= high < size:
            place = f"stored to from {low} to {high}"
            problems.append(f"b{number} has {size} elements and is {place}")
        if whole and s.combine is None and number < len(sizes):
            filled.setdefault(number, []).append(_elements(s, loops))
    for number, parts in filled.items():
        known = [n for n in parts if n is not None]
        if len(known) == len(parts) and sum(known) < every[number]:
            some = f"of which {sum(known)} are stored"
            problems.append(f"b{number} has {every[number]} elements, {some}")
    return problems


def verified(kernel: Kernel, nodes: Sequence[Tensor], whole: bool = True) -> Kernel:
    """The kernel, refused if its loops are not the extents of the nodes it writes;
    not `whole` if others do parts of them.
    """
    wrong = store_problems(kernel, [n.type.size for n in nodes], whole)
    if wrong:
        raise RunError(f"kernel {kernel.name} is wrong: {'; '.join(wrong)}")
    return kernel


Around = tuple[Loop, ...]


def _stores(
    body: tuple[Statement, ...], loops: Around
) -> Iterator[tuple[Store, Around]]:
    """Each store, and the loops around it."""
    for s in body:
        if isinstance(s, Loop):
            yield from _stores(s.body, (*loops, s))
        elif isinstance(s, Store):
            yield s, loops


def _reached(s: Store) -> tuple[int, int]:
    """The first and the last element that a store may reach; guards narrow them."""
    rest, ends = s.index, [0, 0]
    for g in s.guards:
        for atom, c in g.index.terms[:1]:
            step, over = divmod(dict(rest.terms).get(atom, 0), c)
            if step and not over:
                rest -= g.index * step
                shifts = sorted((step * g.low, step * (g.high - 1)))
                ends = [a + b for a, b in zip(ends, shifts, strict=True)]
    low, high = rest.bounds()
    return ends[0] + low, ends[1] + high


def _elements(s: Store, loops: Around) -> int | None:
    """The number of elements a store fills; None where data or guards decide."""
    axes = s.index.axes()
    bounded = [loop.axis for loop in loops if loop.bounds]
    if len(axes) < len(s.index.terms) or s.guards or set(axes) & set(bounded):
        return None
    reach = 0
    for axis in sorted(axes, key=lambda a: abs(s.index.coefficient(a))):
        step = abs(s.index.coefficient(axis))
        if step <= reach:
            return None  # steps may meet
        reach += step * (axis.extent - 1)
    return math.prod([axis.extent for axis in axes])
