"""Kernels taken apart: their row loops, inner loops and passes, and put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Kernel,
    Loop,
    Statement,
    Store,
    statements,
    within,
)
from treadle.loops.rewriting import rewritten

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


def parallel_loops(
    kernel: Kernel,
) -> tuple[tuple[LoopAxis, ...], tuple[Statement, ...]]:
    """The axes of the outermost parallel loops, and what stands inside of them."""
    axes: list[LoopAxis] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "parallel":
        axes.append(body[0].axis)
        body = body[0].body
    return tuple(axes), body


def taken_apart(kernel: Kernel) -> Nest:
    """The loops of a kernel as `kernel_of` makes them."""
    rows, body = parallel_loops(kernel)
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
    return Nest(rows, inner, tuple(passes), tuple(turns), starts, bounds)


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


def unplaced(nest: Nest) -> Nest:
    """The nest without the places of what is folded: its loops have their order."""

    def plain(s: Statement) -> Statement:
        return replace(s, place=None) if isinstance(s, Accumulate) else s

    return replace(
        nest,
        passes=tuple(
            replace(p, body=tuple(map(plain, p.body))) if isinstance(p, Pass) else p
            for p in nest.passes
        ),
    )
