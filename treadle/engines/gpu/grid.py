"""The grid of a kernel: its loops as work items and groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.engines.gpu.work import Slot
from treadle.engines.native.codegen.elements import compute_type
from treadle.loops.apart import parallel_loops
from treadle.loops.index import IndexParameter, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Const,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    statements,
)

ITEMS = 64  # of a group whose items have nothing to do with each other


@dataclass(frozen=True)
class Grid:
    """The loops of a kernel taken apart: the axes of the grid, and what is in them.

    kind: "items" where each item does a step of all axes, "groups" where a group does,
    whose `items` share its vector loops; shares: such items read what others stored.
    """

    kind: str
    axes: tuple[LoopAxis, ...]
    body: tuple[Statement, ...]
    items: int
    shares: bool = False

    def total(self, integers: Sequence[int]) -> int:
        """The steps of the grid."""
        return math.prod(_number(a.extent, integers) for a in self.axes)

    def groups(self, total: int) -> int:
        """The groups that do so many steps."""
        return total if self.kind == "groups" else -(-total // self.items)


def grid_of(kernel: Kernel) -> Grid:
    """The grid of a scheduled kernel."""
    axes, body = parallel_loops(kernel)
    loops = [s for s in statements(body) if isinstance(s, Loop) and s.lanes]
    if not loops:
        return Grid("items", axes, body, ITEMS)
    first = body[0] if len(body) == 1 else None
    if isinstance(first, Loop) and first.lanes and not (first.folds or first.bounds):
        return Grid("items", (*axes, first.axis), first.body, ITEMS)
    folding = [s.lanes for s in loops if any(True for _ in _folded(s, body))]
    items = max(folding, default=ITEMS)
    return Grid("groups", axes, body, items, _reads_back(kernel))


def _folded(loop: Loop, body: tuple[Statement, ...]) -> Iterator[Accumulator]:
    """The accumulators that the lanes of a loop fold into together."""
    begun = {a for s in statements(loop.body) if isinstance(s, Loop) for a in s.folds}
    for s in statements(loop.body):
        if isinstance(s, Accumulate) and s.accumulator not in begun:
            yield s.accumulator


def crossed(loop: Loop, a: Accumulator) -> int:
    """The lanes that fold into an accumulator which starts with a loop; 0 for none."""
    for s in statements((loop,)):
        if isinstance(s, Loop) and s.lanes and a in _folded(s, ()):
            return s.lanes
    return 0


def _reads_back(kernel: Kernel) -> bool:
    """Return True if a kernel reads what it has stored."""
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    read = {x.buffer for x in kernel.expressions if isinstance(x, Load)}
    read |= {s.buffer for s in stores if s.combine is not None}
    return bool(read & {s.buffer for s in stores})


def _number(n: Any, integers: Sequence[int]) -> int:
    return integers[n.slot] + n.plus if isinstance(n, IndexParameter) else int(n)


def slots_of(kernel: Kernel) -> tuple[Slot, ...]:
    """The integers of a kernel's launch: its own, and the steps of its grid."""
    floats = {
        (x.value.slot, compute_type(x.dtype)): None
        for x in kernel.expressions
        if isinstance(x, Const)
        and isinstance(x.value, IndexParameter)
        and x.dtype.kind != "i"
    }
    taken = {place for place, _ in floats}
    integers = [(k, "i64") for k in range(kernel.integers + 1) if k not in taken]
    return (*integers, *floats)


def wide_integers(kernel: Kernel) -> bool:
    """Return True if integers of 64 bits are among the data."""
    kinds = [x.dtype for x in kernel.expressions]
    kinds += [a.dtype for a in kernel.arguments]
    return any(d.kind in "iu" and d.itemsize == 8 for d in kinds)
