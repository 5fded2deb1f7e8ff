"""The verifier of what kernels store, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from treadle.base.errors import RunError
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Kernel, Loop, Statement, Store


def outside(i: Index, axes: list[LoopAxis]) -> list[str]:
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
        problems += [f"b{number}: {problem}" for problem in outside(s.index, around)]
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
