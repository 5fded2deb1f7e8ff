"""Plans of convolutions and of the gradients of their data."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.engines.native.codegen.contraction.epilogue import Epilogue
from treadle.engines.native.codegen.contraction.machine import Machine, machine
from treadle.engines.native.codegen.contraction.matmul import plan_matmul
from treadle.engines.native.codegen.convolution import dense
from treadle.engines.native.codegen.convolution.dense import Sums
from treadle.engines.native.codegen.convolution.pack import cleared
from treadle.engines.native.codegen.convolution.problem import (
    Dense,
    apart,
    classes,
    forward,
    merged,
    size_of,
)
from treadle.engines.native.codegen.convolution.steps import ConvPlan, Pointer, Step
from treadle.program.convolution import Convolution

Names = tuple[str, str, str]


def plan_forward(
    problem: Convolution,
    epilogue: Epilogue | None = None,
    target: Machine | None = None,
) -> ConvPlan:
    """y = the convolution of x with w; the epilogue gets finished vectors of y."""
    conv = merged(apart(forward(problem)), epilogue is None)
    return _plan([conv], ("x", "w", "y"), epilogue, target or machine())


def plan_data(problem: Convolution, target: Machine | None = None) -> ConvPlan:
    """x = the transpose of the convolution, applied to y with w."""
    parts = list(classes(problem))
    first = []
    if any(not conv.h.taps * conv.w.taps for conv in parts):
        sizes = (problem.n, problem.c, *problem.extents)
        first = cleared("x", problem.x, sizes, size_of(problem.dtype))
        parts = [conv for conv in parts if conv.h.taps * conv.w.taps]
    parts = [merged(apart(conv), True) for conv in parts]
    plan = _plan(parts, ("y", "w", "x"), None, target or machine())
    return ConvPlan((*first, *plan.steps), plan.workspace)


def _plan(
    parts: Sequence[Dense], names: Names, epilogue: Epilogue | None, target: Machine
) -> ConvPlan:
    """The steps of all parts, each with its own place in the workspace."""
    steps: list[Step] = []
    place = 0
    for conv in parts:
        if _is_product(conv) and (conv.groups == 1 or not epilogue):
            steps += _product(conv, names, epilogue, target)
            continue
        sums = Sums(conv, names, epilogue, target, place)
        steps += sums.steps()
        place += sums.packed
    steps.sort(key=lambda one: not one.constant)
    return ConvPlan(tuple(steps), place)


def _is_product(conv: Dense) -> bool:
    """Whether it is one matrix product for each image, or for each group."""
    pixelwise = (
        not conv.lanes
        and conv.h.taps == conv.w.taps == 1
        and conv.h.inside
        and conv.w.inside
    )
    alone = conv.h.count == conv.w.stride == 1 and 1 in (conv.n, conv.groups)
    return pixelwise and alone and not _is_better_turned(conv)


def _is_better_turned(conv: Dense) -> bool:
    """Whether vectors of outputs, turned at last, beat vectors along few pixels.

    Those are not whole at the end of each image, or do not begin where vectors may.
    """
    few = conv.n < 4 or conv.n * conv.w.count < 192  # to pack weights for
    if few or dense.along(conv) == "outputs":
        return False
    row = conv.w.count * conv.size
    return row < (1024 if row % 64 == 0 else 2048)


def _product(
    conv: Dense, names: Names, epilogue: Epilogue | None, target: Machine
) -> list[Step]:
    """A convolution of single pixels as a matrix product."""
    by_group = conv.n == 1
    sizes = (conv.w.count, conv.o, conv.c)
    x = (conv.of_x[by_group], conv.w.x, conv.of_x[2])
    w = (by_group * conv.of_w[0], conv.of_w[2], conv.of_w[1])
    y = (conv.of_y[by_group], conv.w.y, conv.of_y[2])
    pointers = [
        Pointer(name, at * conv.size) for name, at in zip(names, conv.at, strict=True)
    ]
    if dense.along(conv) == "pixels":  # rows are outputs
        sizes = (sizes[1], sizes[0], sizes[2])
        x, w, y = ((s[0], s[2], s[1]) for s in (w, x, y))
        pointers[:2] = reversed(pointers[:2])
    batch = conv.groups if by_group else conv.n
    plan = plan_matmul(batch, *sizes, x, w, y, conv.dtype, epilogue, target=target)
    if plan.swapped:
        pointers[:2] = reversed(pointers[:2])
    return [
        Step(
            plan.name,
            plan.text,
            plan.functions,
            (*pointers, Pointer("scratch")),
            plan.arguments,
            plan.total,
            plan.grain,
            plan.scratch,
            parts=plan.parts,
            finishes=epilogue is not None,
        )
    ]
