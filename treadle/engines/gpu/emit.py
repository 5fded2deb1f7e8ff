"""From a kernel to what each work item does: its loops, with steps shared out to items.

Leading parallel loops and, where it folds nothing across lanes, the vector loop are the
grid. Other vector loops are done by the items of a group, item i the steps that lane i
does on the CPU; their folds are joined in halves, as there. So sums have the CPU's bits
where vectors are as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from treadle.base.dtypes import int32
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.grid import Grid, crossed, grid_of, slots_of, wide_integers
from treadle.engines.gpu.work import Slot, Work
from treadle.engines.native.codegen.builder import I1, I8, I32, Value
from treadle.engines.native.codegen.elements import compute_type, from_memory, load_type
from treadle.engines.native.codegen.emit import Emitter
from treadle.loops.index import IndexParameter, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Const,
    Fetch,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
)


class ItemEmitter(Emitter):
    """One kernel that is being written for the items of groups."""

    has_vectors = False
    b: DeviceBuilder

    def __init__(
        self, kernel: Kernel, grid: Grid, slots: Sequence[Slot], builder: DeviceBuilder
    ) -> None:
        self.grid = grid
        self.places = {slot: k for k, slot in enumerate(slots)}
        self.within = False  # a loop that is shared out
        self.number: Value | None = None  # of the item, in a group that shares loops
        self.meeting: dict[str, Value] = {}  # where lanes are joined
        super().__init__(kernel, builder.name, builder)

    # -- arguments -------------------------------------------------------------------

    def _read_arguments(self) -> None:
        b, count = self.b, len(self.kernel.arguments)
        self.buffers = [b.buffer(k) for k in range(count)]
        if self.kernel.checks:
            self.status = b.buffer(count)
            self.wrong = b.private(I8)
            b.store(b.constant(I8, 0), self.wrong)

    def report(self) -> None:
        if self.wrong is None:
            return
        b = self.b
        bad = b.compare("ne", b.load(I8, self.wrong), b.constant(I8, 0))
        with b.when(bad):
            b.store(b.constant(I32, 1), self.status)

    def slot(self, place: int, kind: str = "i64") -> Value:
        """An integer of the launch."""
        return self.b.slot(self.places[place, kind], kind)

    def integer(self, n: Any) -> Value:
        if not isinstance(n, IndexParameter):
            return self.b.i64(n)
        value = self.slot(n.slot)
        return self.b.add(value, self.b.i64(n.plus)) if n.plus else value

    def _number(self, x: Const) -> Value:
        kind = compute_type(x.dtype)
        if x.dtype.kind == "i":
            value = self.integer(x.value)
            return value if kind == "i64" else self.b.convert("trunc", value, kind)
        return self.slot(x.value.slot, kind)

    # -- memory ----------------------------------------------------------------------

    def load(self, x: Load) -> Value:
        b, memory = self.b, load_type(x.dtype)
        pointer = self.pointer(x.buffer, x.index, memory)
        if not x.guards:
            return from_memory(b, b.load(memory, pointer), x.dtype)
        element = b.guarded(memory, self.inside(x.guards), pointer)
        return from_memory(b, element, x.dtype)

    def fetch(self, s: Fetch) -> None:
        """Devices have other lanes to run meanwhile."""

    def store(self, s: Store) -> None:
        if self.number is None or self.within:
            super().store(s)
            return
        value = self.value(s.value)  # by all, as what is read later may need it
        self.b.barrier()  # where it is stored, others may yet be reading an operand
        self.scopes.append({})
        with self.b.when(self.b.compare("eq", self.number, self.b.i64(0))):
            self.scopes[-1][s.value] = value
            super().store(s)
        self.scopes.pop()

    # -- loops -----------------------------------------------------------------------

    def run(self, body: Sequence[Statement]) -> None:
        if self.number is None or self.within or not self.grid.shares:
            super().run(body)
            return
        for together, some in groupby(body, lambda s: isinstance(s, Accumulate)):
            if together:
                super().run([*some])
                continue
            for s in some:
                super().run((s,))
                self.b.barrier()

    def _starts(self, loop: Loop) -> None:
        for a in loop.folds:
            self.carried[a] = self.b.constant(compute_type(a.dtype), a.start)

    def _ends(self, loop: Loop) -> None:
        if self.number is None or self.within:
            return
        for a in loop.folds:
            lanes = crossed(loop, a)
            if a.combine is not None and lanes > 1:
                self.carried[a] = self._joined(a, self.carried[a], lanes)

    def _joined(self, a: Accumulator, x: Value, lanes: int) -> Value:
        """The lanes of an accumulator folded in halves; all items have the result."""
        b, number, kind = self.b, self.number, x.type
        assert number is not None

        def combine(x: Value, y: Value) -> Value:
            return self.combine(a.combine, x, y, a.dtype)  # type: ignore[arg-type]

        folded = b.folded(x, lanes, combine)
        if folded is not None:
            return folded
        memory = I8 if kind == I1 else kind
        if memory not in self.meeting:
            self.meeting[memory] = b.shared(memory, self.grid.items)
        there = self.meeting[memory]

        def read(place: Value) -> Value:
            value = b.load(memory, b.offset(there, place, memory))
            if kind != I1:
                return value
            return b.compare("ne", value, b.constant(I8, 0))

        def write(x: Value) -> None:
            stored = b.convert("zext", x, I8) if kind == I1 else x
            b.store(stored, b.offset(there, number, memory))

        write(x)
        b.barrier()
        while lanes > 1:
            lanes //= 2
            with b.when(b.compare("slt", number, b.i64(lanes))):
                low, high = read(number), read(b.add(number, b.i64(lanes)))
                write(combine(low, high))
            b.barrier()
        result = read(b.i64(0))
        b.barrier()
        return result

    def _by_extent(self, loop: Loop, short: Loop) -> None:
        """A loop once: the first items do the steps of a short one by themselves."""
        if loop.kind == "vector":
            self._vector_loop(loop)
        else:
            self._serial_loop(loop)

    def _vector_loop(
        self, loop: Loop, begin: Value | None = None, end: Value | None = None
    ) -> None:
        """The steps of a loop, shared out to the items of the group."""
        b, number = self.b, self.number
        assert number is not None
        assert begin is None
        assert end is None
        self.hoist(loop.body, loop.axis)
        start, stop = self._range(loop)
        self._starts(loop)
        carried = self._carry(loop)
        lanes = loop.lanes if carried else self.grid.items
        step = b.i64(lanes)
        if carried and loop.short_lanes:
            extent, bound = self.integer(loop.axis.extent), b.i64(2 * lanes)
            is_short = b.compare("slt", extent, bound)
            step = b.select(is_short, b.i64(loop.short_lanes), step)
        start = b.add(start, number)
        if lanes < self.grid.items or (carried and loop.short_lanes):
            few = b.compare("slt", number, step)
            start = b.select(few, start, stop)
        self.within = True
        self._turns(loop, start, stop, step, carried)
        self.within = False
        self._ends(loop)

    # -- the kernel ------------------------------------------------------------------

    def write(self) -> None:
        """The whole kernel."""
        b, grid = self.b, self.grid
        group, item = b.group(), b.item()
        if grid.kind == "groups":
            self.number = item
            b.only(self._below_total(group))
            self._step(group)
        else:
            place = b.add(b.mul(group, b.i64(self.grid.items)), item)
            with b.when(self._below_total(place)):
                self._step(place)
        self.report()

    def _below_total(self, place: Value) -> Value:
        """Return True if a step is one of the grid."""
        return self.b.compare("slt", place, self.slot(self.kernel.integers))

    def _step(self, place: Value) -> None:
        """The code of one step of the grid."""
        self.scopes.append({})
        self._take_apart(self.grid.axes, place)
        self.run(self.grid.body)
        self.scopes.pop()

    def _take_apart(self, axes: Sequence[LoopAxis], place: Value) -> None:
        """The steps of the grid's axes at a place of it."""
        b = self.b
        for axis in reversed(axes[1:]):
            extent = self.integer(axis.extent)
            self.bind(axis, b.urem(place, extent))
            place = b.udiv(place, extent)
        for axis in axes[:1]:
            self.bind(axis, place)


def loop_work(kernel: Kernel) -> tuple[Work, Grid]:
    """A kernel of loops as the work of a launch, the same under any name; its grid."""
    unnamed = replace(kernel, name="")
    grid, slots = grid_of(unnamed), slots_of(unnamed)
    status = (KernelArgument(int32, written=True),) if kernel.checks else ()
    work = Work(
        unnamed,
        lambda b: ItemEmitter(unnamed, grid, slots, b).write(),
        (*kernel.arguments, *status),
        slots,
        grid.items,
        kernel.name,
        kernel.checks,
        wide_integers(kernel),
    )
    return work, grid
