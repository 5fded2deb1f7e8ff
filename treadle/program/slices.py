"""Loops whose iterations work row by row: threads take slices of the rows through all.

Where no row of what a body writes depends on another row, a thread that has some rows
of the state never waits for the others (as in Appleyard, Kocisky and Blunsom, 2016, or
by polyhedral tiling: a band of parallel rows outside of the loop over time). Kernels
keep their work items, which are cut at rows, so the bits are those of any other cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from treadle.base.symbolic import exceeds, is_same, plain, stays_below
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Guard, Kernel, Load, Loop, Store, statements
from treadle.loops.parameters import bound
from treadle.program.contract import Layout
from treadle.program.dependences import nanoseconds
from treadle.program.program import (
    BodyProgram,
    Buffer,
    Fallback,
    Launch,
    Product,
    RowSlices,
    Step,
)

SLICE = 8  # rows of a slice at least: a tile of sums
PIECE = 2_000  # ns of an iteration that are worth a slice
LARGE = 1_000_000  # ns of one whose steps are worth that threads meet in each
NEAR = 2 << 20  # bytes of weights that each thread may read in every iteration
Widths = Mapping[int, Any]  # elements of a row, by buffer


def in_slices(body: BodyProgram, carries: int) -> BodyProgram:
    """The program of a loop's body with its slices, if it works row by row."""
    program, rows = body.program, _rows(body, carries)
    time = sum(nanoseconds(program))
    most = [k for k in (1, 2, 4) if 2 * k * PIECE <= time <= LARGE]
    count = 1 + sum(k * exceeds(rows, 2 * k * SLICE - 1) for k in most)
    if type(count) is int and count == 1:
        return body
    widths = _widths(body, carries, rows)
    if widths is None or _beside(body, widths) > NEAR:
        return body
    if not all(_is_by_rows(step, rows, widths) for step in program.steps):
        return body
    steps = [
        replace(s, slices=count) if isinstance(s, Product) and _cuts_rows(s) else s
        for s in program.steps
    ]
    slices = RowSlices(rows, count, time)
    return replace(body, program=replace(program, steps=tuple(steps)), slices=slices)


def _rows(body: BodyProgram, carries: int) -> Any:
    """The rows of all that a body gives back; 0 where there are none, or others."""
    shapes = [t.shape for _, _, t in body.program.results]
    if not carries or not all(shapes):
        return 0
    rows = shapes[0][0]
    return rows if all(is_same(shape[0], rows) for shape in shapes) else 0


def _beside(body: BodyProgram, widths: Widths) -> int:
    """The bytes of what a body reads beside such rows: its weights, most of all."""
    program = body.program
    return sum(
        plain(program.buffers[n].type.nbytes)
        for n in program.arguments
        if n not in widths
    )


def _widths(body: BodyProgram, carries: int, rows: Any) -> Widths | None:
    """The elements of a row of what is carried, or written in an iteration."""
    program = body.program
    pairs = zip(program.arguments, body.inputs, strict=True)
    numbers = [n for n, x in pairs if isinstance(x, int) and x < carries]
    widths: dict[int, Any] = {}
    for n in {*numbers, *[n for step in program.steps for n in step.written]}:
        width = _width(program.buffers[n], rows)
        if width is None:
            return None
        widths[n] = width
    return widths


def _width(buffer: Buffer, rows: Any) -> Any:
    """The elements of a row of a buffer; None where it has no such rows."""
    shape = buffer.type.shape
    if buffer.order or not shape or not is_same(shape[0], rows):
        return None
    return math.prod(shape[1:])


def _is_by_rows(step: Step, rows: Any, widths: Widths) -> bool:
    """Whether the items of a step are cut at rows, and touch but their own of these."""
    if isinstance(step, Fallback):
        return False
    if isinstance(step, Launch):
        kernel = bound(step.kernel, step.integers)
        return _touches_own(kernel, step.buffers, _first_axis(kernel), rows, widths)
    layout = step.layout
    if not isinstance(layout, Layout) or layout.image:
        return False
    return _multiplies_own(step, layout, rows, widths)


def _first_axis(kernel: Kernel) -> LoopAxis | None:
    """The axis of a kernel's work items, the outermost of several."""
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], Loop):
        return None
    loop = kernel.body[0]
    is_vector = loop.kind == "vector" and not loop.folds
    return loop.axis if loop.kind == "parallel" or is_vector else None


def _touches_own(
    kernel: Kernel,
    buffers: tuple[int, ...],
    axis: LoopAxis | None,
    rows: Any,
    widths: Widths,
) -> bool:
    """Whether each step of an axis touches a part of its own of each row of buffers."""
    if axis is None:
        return False
    times = axis.extent // rows
    if not is_same(times * rows, axis.extent):
        return False
    return all(
        _is_own(x.index, axis, times, widths[buffers[x.buffer]], x.guards)
        for x in _accesses(kernel)
        if x.buffer < len(buffers) and buffers[x.buffer] in widths
    )


def _accesses(kernel: Kernel) -> Iterator[Load | Store]:
    """What a kernel reads and writes."""
    yield from (x for x in kernel.expressions if isinstance(x, Load))
    yield from (s for s in statements(kernel.body) if isinstance(s, Store))


def _is_own(
    i: Index, axis: LoopAxis, times: Any, width: Any, guards: Sequence[Guard] = ()
) -> bool:
    """Whether an index is in the row of a step of an axis, which has `times` steps for
    each row, where guards hold."""
    step = i.coefficient(axis)
    if not is_same(step * times, width):
        return False
    rest = i - Index.of(axis) * step
    lows, highs = zip(rest.bounds(), *[_bounds(rest, g) for g in guards], strict=True)
    return any(x >= 0 for x in lows) and any(stays_below(x + 1, step) for x in highs)


def _bounds(i: Index, guard: Guard) -> tuple[Any, Any]:
    """Between what an index is where a guard holds."""
    low, high = (i - guard.index).bounds()
    return guard.low + low, guard.high - 1 + high


def _cuts_rows(step: Product) -> bool:
    """Whether rows of the state are those of one product, not products of a batch."""
    return isinstance(step.layout, Layout) and is_same(step.layout.sizes[0], 1)


def _multiplies_own(step: Product, layout: Layout, rows: Any, widths: Widths) -> bool:
    """Whether a product reads rows of its own to make these, beside a B for all."""
    axes = [LoopAxis(name, n) for name, n in zip("bmnk", layout.sizes, strict=True)]
    (b, m, n, k), by_rows = map(Index.of, axes), _cuts_rows(step)
    axis = axes[1] if by_rows else axes[0]
    times = axis.extent // rows
    if not is_same(times * rows, axis.extent):
        return False
    across = is_same(layout.sizes[2], 1) or not is_same(layout.c[2], 1)
    if by_rows and (across or not is_same(times, 1)):
        return False  # columns of the result may be taken for its rows
    places = [
        (step.operands[0], Index.combined((b, m, k), layout.a) + step.offsets[0]),
        (step.operands[1], Index.combined((b, k, n), layout.b) + step.offsets[1]),
    ]
    if step.finish is None:
        places.append((step.written[0], Index.combined((b, m, n), layout.c)))
    if not all(_is_own(i, axis, times, widths[x]) for x, i in places if x in widths):
        return False
    return step.finish is None or _finishes_own(step, step.finish, rows, widths)


def _finishes_own(step: Product, finish: Launch, rows: Any, widths: Widths) -> bool:
    """The same of the kernel that finishes a product, over batch, rows and columns."""
    kernel = bound(finish.kernel, finish.integers)
    outer = kernel.body[0]
    assert isinstance(outer, Loop) and isinstance(outer.body[0], Loop)
    axis = outer.body[0].axis if _cuts_rows(step) else outer.axis
    buffers = list(finish.buffers)
    buffers.insert(step.product_buffer, -1)  # in a register
    return _touches_own(kernel, tuple(buffers), axis, rows, widths)
