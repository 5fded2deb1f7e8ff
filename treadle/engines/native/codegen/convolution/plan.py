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
from treadle.engines.native.codegen.convolution.steps import Plan, Pointer, Step
from treadle.program.convolution import Convolution

__all__ = ["plan_data", "plan_forward"]

Names = tuple[str, str, str]


def plan_forward(
    problem: Convolution,
    epilogue: Epilogue | None = None,
    target: Machine | None = None,
) -> Plan:
    """y = the convolution of x with w; the epilogue gets finished vectors of y."""
    own = merged(apart(forward(problem)), epilogue is None)
    return _plan([own], ("x", "w", "y"), epilogue, target or machine())


def plan_data(problem: Convolution, target: Machine | None = None) -> Plan:
    """x = the transpose of the convolution, applied to y with w."""
    found = list(classes(problem))
    first = []
    if any(not own.h.taps * own.w.taps for own in found):
        sizes = (problem.n, problem.c, *problem.extents)
        first = cleared("x", problem.x, sizes, size_of(problem.dtype))
        found = [own for own in found if own.h.taps * own.w.taps]
    found = [merged(apart(own), True) for own in found]
    made = _plan(found, ("y", "w", "x"), None, target or machine())
    return Plan((*first, *made.steps), made.workspace)


def _plan(
    parts: Sequence[Dense], names: Names, epilogue: Epilogue | None, target: Machine
) -> Plan:
    """The steps of all parts, each with its own place in the workspace."""
    found: list[Step] = []
    place = 0
    for own in parts:
        if _is_product(own) and (own.groups == 1 or not epilogue):
            found += _product(own, names, epilogue, target)
            continue
        sums = Sums(own, names, epilogue, target, place)
        found += sums.steps()
        place += sums.packed
    found.sort(key=lambda one: not one.constant)
    return Plan(tuple(found), place)


def _is_product(own: Dense) -> bool:
    """Whether it is one matrix product for each image, or for each group."""
    pixelwise = (
        not own.lanes
        and own.h.taps == own.w.taps == 1
        and own.h.inside
        and own.w.inside
    )
    alone = own.h.count == own.w.stride == 1 and 1 in (own.n, own.groups)
    return pixelwise and alone and not _is_better_turned(own)


def _is_better_turned(own: Dense) -> bool:
    """Whether vectors of outputs, turned at last, beat vectors along few pixels.

    Those are not whole at the end of each image, or do not begin where vectors may.
    """
    few = own.n < 4 or own.n * own.w.count < 192  # to pack weights for
    if few or dense.along(own) == "outputs":
        return False
    row = own.w.count * own.size
    return row < (1024 if row % 64 == 0 else 2048)


def _product(
    own: Dense, names: Names, epilogue: Epilogue | None, target: Machine
) -> list[Step]:
    """A convolution of single pixels as a matrix product."""
    by_group = own.n == 1
    sizes = (own.w.count, own.o, own.c)
    x = (own.of_x[by_group], own.w.x, own.of_x[2])
    w = (by_group * own.of_w[0], own.of_w[2], own.of_w[1])
    y = (own.of_y[by_group], own.w.y, own.of_y[2])
    pointers = [
        Pointer(name, at * own.size) for name, at in zip(names, own.at, strict=True)
    ]
    if dense.along(own) == "pixels":  # rows are outputs
        sizes = (sizes[1], sizes[0], sizes[2])
        x, w, y = ((s[0], s[2], s[1]) for s in (w, x, y))
        pointers[:2] = reversed(pointers[:2])
    batch = own.groups if by_group else own.n
    made = plan_matmul(batch, *sizes, x, w, y, own.dtype, epilogue, target=target)
    if made.swapped:
        pointers[:2] = reversed(pointers[:2])
    extra = [Pointer("extra")] if epilogue else []
    return [
        Step(
            made.name,
            made.text,
            made.functions,
            (*pointers, *extra, Pointer("scratch")),
            made.arguments,
            made.total,
            made.grain,
            made.scratch,
        )
    ]
