"""The verifier of kernels, their stores aside: what must hold, in sentences."""

from __future__ import annotations

from treadle.loops.index import LoopAxis
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
from treadle.loops.verify import outside


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
            problems += outside(s.index, axes)
        for x in expressions((s,)):
            if isinstance(x, Accumulated) and x.accumulator not in known:
                problems.append(f"a{x.accumulator.number} is read before it starts")
            if isinstance(x, Accumulated) and x.accumulator in replaced:
                problems.append(f"a{x.accumulator.number} is read after its step")
            for i in indices(x):
                problems += outside(i, axes)
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
            problems += outside(index, axes)
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
