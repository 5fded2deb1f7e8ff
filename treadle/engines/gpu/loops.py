"""Loops as launches in a row: what is carried stays on the device, where it lies in
each iteration is known before the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.engines.gpu.bound import COPY, HOST, Act, BoundProgram
from treadle.engines.gpu.driver import Place, place_at
from treadle.engines.gpu.moves import WORD
from treadle.ops.loop import Scan, drawn_at
from treadle.program.program import Fallback, Program

if TYPE_CHECKING:
    from treadle.engines.gpu.linked import DeviceLinked


def is_loop(step: Fallback, program: Program) -> bool:
    """Return True if a step is a loop over rows of whole words, one after the other:
    no device copies parts of words."""
    op, ends = step.op, [program.buffers[n] for n in (*step.read, *step.written)]
    if not isinstance(op, Scan) or step.part or any(b.order for b in ends):
        return False
    rows = [x.type for x in op.body.arguments[op.carries : op.carries + op.scanned]]
    rows += op.body.types[op.carries :]
    return bool(step.bodies) and not any(t.nbytes % WORD for t in rows)


class DeviceLoop:
    """A loop of a program, and its memory: of its body, of carries by turns, of draws.

    A result of the body is written to its row of a stack if it has one, or to that of
    the next iteration where what is carried is stacked, the last one to where the carry
    is expected; else to where no carry lies.
    """

    def __init__(self, step: Fallback, linked: DeviceLinked, alignment: int) -> None:
        assert isinstance(step.op, Scan)
        self.step, self.op, self.linked = step, step.op, linked
        self.checks = linked.checks
        self.launches = self.op.length * (linked.launches + len(step.written))
        self.inputs = linked.inputs
        self.outputs = {k: (n, t.nbytes) for k, n, t in linked.program.results}
        carries = self.op.carries
        self.homes: dict[int, int] = {}  # of each result the output that it is first
        for k in (*range(carries, len(self.outputs)), *range(carries)):
            n, _ = self.outputs[k]
            if linked.program.buffers[n].place == "result":
                self.homes.setdefault(n, k)
        # Of carries the stack of what they were before each iteration.
        argument = {x: n for n, x in self.inputs.items() if x < carries}
        stacks = {n: k for k, (n, _) in self.outputs.items() if k >= carries}
        self.before = {k: stacks[n] for k, n in argument.items() if n in stacks}
        self.bytes = linked.size

        def take(size: int) -> int:
            """The offset of more memory."""
            offset = -(-self.bytes // alignment) * alignment
            self.bytes = offset + size
            return offset

        self._turns: dict[int, list[int]] = {}  # where a carry lies by turns
        for n, k in self.homes.items():
            if k < carries and k not in self.before:
                turns = range(self._stays(n) + 1)
                self._turns[k] = [take(self.outputs[k][1]) for _ in turns]
        draws = step.op.body.arguments[len(step.read) - self.op.draws :]
        self._draws = [take(self.op.length * x.type.nbytes) for x in draws]

    def _stays(self, n: int) -> int:
        """The iterations in which a result is carried: one may become another one."""
        argument = {x: number for number, x in self.inputs.items()}
        count, now = 0, {n}
        while True:
            carried = [k for k in range(self.op.carries) if self.outputs[k][0] in now]
            if not carried:
                return count
            now = {argument[k] for k in carried if k in argument}
            count += 1

    def acts(self, around: BoundProgram, memory: Place) -> Iterator[Act]:
        """All iterations, with memory for what lies nowhere else."""
        op, linked = self.op, self.linked
        read = [around.places[n] for n in self.step.read]
        written = [around.places[n] for n in self.step.written]
        if op.draws:
            yield Act(HOST, partial(self._draw, around, memory))
        rest = read[op.carries : len(read) - op.draws]
        rest += [place_at(memory, offset) for offset in self._draws]
        fixed: list[Any] = [None] * len(linked.program.buffers)
        for n, value in linked.constants.items():
            fixed[n] = value.place
        carry = read[: op.carries]
        steps = range(op.length)
        order = [*(reversed(steps) if op.reverse else steps)]
        for turn, t in enumerate(order):
            places = [*fixed]
            for n, x in self.inputs.items():
                places[n] = self._input(x, t, [*carry, *rest])
            after = order[turn + 1] if turn + 1 < len(order) else None
            for n, k in self.homes.items():
                places[n] = self._home(k, t, turn, after, written, memory)
            inside = BoundProgram(linked, places, memory, around.status)
            yield from inside.acts()
            for k, (n, size) in self.outputs.items():
                row = k >= op.carries
                if row and size and self.homes.get(n) != k:
                    target = place_at(written[k], t * size)
                    if places[n] != target:
                        yield self._copy(places[n], target, size)
            carry = [places[self.outputs[k][0]] for k in range(op.carries)]
        for k, place in enumerate(carry):
            if self.outputs[k][1] and place != written[k]:
                yield self._copy(place, written[k], self.outputs[k][1])

    def _input(self, x: int, t: int, operands: Sequence[Place]) -> Place:
        """The place of an operand of iteration t, of those that begin where all do."""
        first, last = self.op.carries, len(operands) - self.op.draws
        if first <= x < first + self.op.scanned or x >= last:
            return place_at(operands[x], t * self.op.body.arguments[x].type.nbytes)
        return operands[x]

    def _home(
        self,
        k: int,
        t: int,
        turn: int,
        after: int | None,
        written: Sequence[Place],
        memory: Place,
    ) -> Place:
        """The place of an output of iteration t, which is followed by `after`."""
        size = self.outputs[k][1]
        if k >= self.op.carries:
            return place_at(written[k], t * size)
        if after is None:
            return written[k]
        if k in self.before:
            return place_at(written[self.before[k]], after * size)
        turns = self._turns[k]
        return place_at(memory, turns[turn % len(turns)])

    def _copy(self, source: Place, target: Place, size: int) -> Act:
        copy = self.linked.store.driver.copy
        return Act(COPY, partial(copy, source, target, size))

    def _draw(self, around: BoundProgram, memory: Place) -> None:
        """Copy the draws of all iterations in: each has its own."""
        numbers = self.step.read[len(self.step.read) - self.op.draws :]
        for n, offset in zip(numbers, self._draws, strict=True):
            draw = around.array(n)
            each = [drawn_at([draw], t)[0] for t in range(self.op.length)]
            if each:
                self.linked.store.write(np.stack(each), place_at(memory, offset))
