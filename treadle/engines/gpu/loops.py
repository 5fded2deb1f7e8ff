"""Loops driven from the host whose values stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import OWN
from treadle.base.types import Type
from treadle.engines.gpu.driver import Place
from treadle.engines.gpu.memory import DeviceBlock, DeviceBlocks, GpuValue
from treadle.ops.loop import Scan, drawn_at
from treadle.program.program import Fallback, Program

if TYPE_CHECKING:
    from treadle.engines.gpu.linked import DeviceLinked


def is_loop(step: Fallback, program: Program) -> bool:
    """Return True if a step is a loop over rows that lie one after the other."""
    ends = [program.buffers[n] for n in (*step.read, *step.written)]
    whole = isinstance(step.op, Scan) and step.part not in ("begin", "end")
    return whole and len(step.bodies) == 1 and not any(b.order for b in ends)


class DeviceLoop:
    """One run of a loop: where its carries lie by now, and what each iteration is told.

    A result of the body is written to its row of a stack if it has one, else to where
    the carry is at the end, or beside that if a carry lies there.
    """

    def __init__(
        self,
        step: Fallback,
        linked: DeviceLinked,
        inputs: Sequence[Any],
        places: Sequence[Place],
        array: Callable[[int], Array],
    ) -> None:
        """`inputs` as a BodyProgram has them; `array` brings a buffer home."""
        assert isinstance(step.op, Scan)
        self.op, self.linked, self.inputs = step.op, linked, inputs
        self.store: DeviceBlocks = linked.store
        self.outputs = {k: (n, t.nbytes) for k, n, t in linked.program.results}
        self.read = [places[n] for n in step.read]
        self.written = [places[n] for n in step.written]
        end = len(step.read) - self.op.draws
        self.draws = [self._drawn(array(n)) for n in step.read[end:]]
        self.constants = {n: x.place for n, x in linked.constants.items()}
        self._held: list[GpuValue] = []
        for n, x in zip(linked.program.arguments, inputs, strict=True):
            if not isinstance(x, int):
                t = linked.program.buffers[n].type
                self._held.append(self.store.copy_in(np.asarray(x), t, np.asarray(x)))
                self.constants[n] = self._held[-1].place
        self.homes: dict[int, int] = {}  # of each result the output that it is first
        carries = self.op.carries
        for k in (*range(carries, len(self.outputs)), *range(carries)):
            n, _ = self.outputs[k]
            if linked.program.buffers[n].place == "result":
                self.homes.setdefault(n, k)
        self.spare: dict[int, list[DeviceBlock]] = {}
        self.carry = self.read[:carries]

    def _drawn(self, draw: Array) -> tuple[GpuValue, int]:
        """The draws of all iterations, and the bytes of one."""
        each = [drawn_at([draw], t)[0] for t in range(self.op.length)]
        stack = np.stack(each) if each else np.empty((0, *draw.shape), draw.dtype)
        type_ = Type(stack.shape, OWN[stack.dtype])
        return self.store.copy_in(stack, type_, stack), draw.nbytes

    def run(self, body: Callable[[Mapping[int, Place]], None]) -> None:
        """All iterations; `body` runs one, with its arguments and results at places."""
        steps = range(self.op.length)
        try:
            for t in reversed(steps) if self.op.reverse else steps:
                places = self._places(t)
                body(places)
                self._go_on(t, places)
            self._finish()
        finally:
            for blocks in self.spare.values():
                for block in blocks:
                    self.store.release(block)

    def _places(self, t: int) -> dict[int, Place]:
        """Where arguments and results of iteration t lie."""
        op, places = self.op, dict(self.constants)
        rows, end = op.carries + op.scanned, len(self.read) - op.draws
        for n, x in zip(self.linked.program.arguments, self.inputs, strict=True):
            if not isinstance(x, int):
                continue
            if x < op.carries:
                places[n] = self.carry[x]
            elif x < rows:
                places[n] = _at(self.read[x], t * op.body.arguments[x].type.nbytes)
            elif x < end:
                places[n] = self.read[x]
            else:
                draws, size = self.draws[x - end]
                places[n] = _at(draws.place, t * size)
        for n, k in self.homes.items():
            _, size = self.outputs[k]
            row = k >= op.carries
            places[n] = _at(self.written[k], t * size) if row else self._free(k, size)
        return places

    def _free(self, k: int, size: int) -> Place:
        """Where no carry lies."""
        spare = self.spare.setdefault(k, [])
        for place in (self.written[k], *[x.place for x in spare]):
            if not _is_among(place, self.carry):
                return place
        spare.append(self.store.take(size))
        return spare[-1].place

    def _go_on(self, t: int, places: Mapping[int, Place]) -> None:
        """Copy what has no row of its own; carries lie where they were written."""
        carries = self.op.carries
        for k, (n, size) in self.outputs.items():
            if k >= carries and self.homes.get(n) != k:
                self._copy(places[n], _at(self.written[k], t * size), size)
        self.carry = [places[self.outputs[k][0]] for k in range(carries)]

    def _finish(self) -> None:
        """Copy carries to where they are expected."""
        sizes = [self.outputs[k][1] for k in range(self.op.carries)]
        last = list(zip(self.carry, self.written, sizes, strict=False))
        moved = [(x, y, size) for x, y, size in last if not _is_among(x, [y])]
        ends = [y for _, y, _ in moved]
        if any(_is_among(x, ends) for x, _, _ in last):  # one is where another one goes
            beside = [self.store.take(size) for *_, size in moved]
            self.spare[-1] = beside
            for block, (x, _, size) in zip(beside, moved, strict=True):
                self._copy(x, block.place, size)
            pairs = zip(beside, moved, strict=True)
            moved = [(block.place, y, size) for block, (_, y, size) in pairs]
        for x, y, size in moved:
            self._copy(x, y, size)

    def _copy(self, source: Place, target: Place, size: int) -> None:
        if size:
            self.store.driver.copy(source, target, size)


def _is_among(place: Place, others: Sequence[Place]) -> bool:
    """Memory may be an array, which `==` compares by elements."""
    return any(place[0] is x[0] and place[1] == x[1] for x in others)


def _at(place: Place, bytes: int) -> Place:
    memory, start = place
    return memory, start + bytes
